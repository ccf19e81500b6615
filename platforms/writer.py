"""Writing platform files, as a person would."""

from __future__ import annotations

from ..formats import toml_inline, toml_key
from .described import Described


def platform_text(platform: Described) -> str:
    """The text of a platform file, of any kind.

    Parameters
    ----------
    platform : Described
        A board or device.

    Returns
    -------
    str
        TOML that reads back to an equal ``platform``.

    Examples
    --------
    >>> from fluidb.platforms import load_platform
    >>> print(platform_text(load_platform("zc706")).splitlines()[3])
    dsps = 900
    """
    content = platform.model_dump(by_alias=True, exclude_none=True)
    sources = content.pop("sources")
    lines = [f"{key} = {toml_inline(value)}" for key, value in content.items()]
    if sources:
        lines += ["", "[sources]", *(f"{toml_key(key)} = {toml_inline(text)}" for key, text in sources.items())]
    return "\n".join(lines) + "\n"
