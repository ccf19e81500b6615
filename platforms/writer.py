"""Writes platform files as a person would."""

from __future__ import annotations

from ..formats import toml_lines
from .platform import Platform


def platform_text(platform: Platform) -> str:
    """The text of a platform file, of any kind."""
    content = platform.model_dump(by_alias=True, exclude_none=True)
    sources = content.pop("sources")
    return "\n".join([*toml_lines(content), *toml_lines(sources, "[sources]")]) + "\n"
