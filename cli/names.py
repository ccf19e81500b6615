"""Names that ship: the shell completes them, and a name in the place of another kind is recognised."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import typer

ROOT = Path(__file__).parents[1]

_GIVEN = "fluidb.given"
"""The key of a context for the names that were given, with their places and kinds."""


def shipped(folder: str) -> list[str]:
    """Names of the files of a folder of the package; the completion of a word has no time to import their readers."""
    return sorted(path.stem for path in (ROOT / folder).glob("*.*") if path.suffix in (".toml", ".md"))


def policy_names() -> list[str]:
    """Names of the policies, read from the source of ``POLICIES``: to import it takes longer than to print a help."""
    tree = ast.parse((ROOT / "serving" / "policies" / "__init__.py").read_text("utf-8"))
    (policies,) = (node.value for node in tree.body if isinstance(node, ast.AnnAssign))
    assert isinstance(policies, ast.Dict)
    return [key.value for key in policies.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


class Kind(NamedTuple):
    """A kind of things with names: what it is called, the command that lists them, and where their files are."""

    noun: str
    command: str
    folders: tuple[str, ...]
    schemas: tuple[str, ...] = ("",)  # of those that a place accepts

    def names(self) -> list[str]:
        """All names of the kind."""
        return [name for folder in self.folders for name in shipped(folder)]

    def offered(self) -> list[str]:
        """The names that the place accepts."""
        beginnings = tuple(f'schema = "{schema}' for schema in self.schemas)
        files = [ROOT / folder / f"{name}.toml" for folder in self.folders for name in shipped(folder)]
        return [path.stem for path in files if any(line in path.read_text("utf-8") for line in beginnings)]


NETWORK = Kind("network", "fluidb models", ("models",))
SUPERNET = Kind("SuperNet", "fluidb models", ("models/supernets",))
NETWORK_OR_SUPERNET = Kind("network", "fluidb models", ("models", "models/supernets"))
PLATFORM = Kind("platform", "fluidb platforms", ("platforms",))
BOARD = PLATFORM._replace(schemas=("fluidb.platform/",))
ENGINE = PLATFORM._replace(schemas=("fluidb.engine/",))
DEVICE = PLATFORM._replace(schemas=("fluidb.device/", *ENGINE.schemas))
SEARCHED = PLATFORM._replace(schemas=(*BOARD.schemas, *ENGINE.schemas, "fluidb.accelerator/", "fluidb.cluster/"))


def offering(names: Iterable[str] | Callable[[], Iterable[str]]) -> dict[str, Any]:
    """Settings of an argument or option whose value the shell completes; in a list, the last name."""

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in (names() if callable(names) else names)]

    return {"autocompletion": complete}


def named(kind: Kind) -> dict[str, Any]:
    """Settings of an argument or option that takes names of a kind, or files."""

    def note(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None:
            ctx.meta.setdefault(_GIVEN, []).append((param.metavar or str(param.name).upper(), kind, value))
        return value

    return offering(kind.offered) | {"callback": note}


def check_places(ctx: typer.Context) -> None:
    """Refuse a network in the place of a platform, and the other way round."""
    from ..formats.errors import InputError
    from ..formats.files import is_input

    strangers = {}
    for place, kind, text in ctx.meta.get(_GIVEN, []):
        other = NETWORK_OR_SUPERNET if kind.command == PLATFORM.command else PLATFORM
        for name in text.split(","):
            file = is_input(name) or ("DIR" in place and Path(name).is_dir())
            if name in other.names() and name not in kind.names() and not file:
                strangers[place] = (text, kind, name, other)
    if len(strangers) == 2:
        (first, _, _, its), (second, _, _, other) = strangers.values()
        raise InputError(f"{first} is a {its.noun} and {second} a {other.noun}; swap them")
    for place, (_, kind, name, other) in strangers.items():
        raise InputError(f"{place}: expected a {kind.noun}, found the {other.noun} {name}; see `{kind.command}`")
