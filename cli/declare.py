"""How options and arguments are declared: by their help, in dataclasses, for one kind of input only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer

from ..formats.keys import Key


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option by its help; its name is the parameter's unless others are given."""
    return typer.Option(*names, help=text, metavar=metavar, **more)


def flag(text: str, name: str) -> Any:
    """An option that takes no value."""
    return option(text, None, name)


def argument(text: str, metavar: str | None = None, **more: Any) -> Any:
    """An argument by its help."""
    return typer.Argument(help=text, metavar=metavar, **more)


def written(text: str, metavar: str = "DIR", *names: str) -> Any:
    """The option that names a file or folder to write, ``-o`` if no other."""
    return option(text, metavar, *(names or ("--output", "-o")), callback=_note_printed)


_PRINTED = "fluidb.printed"
"""The key of a context under which the options stand whose output goes to standard output."""


def _note_printed(ctx: typer.Context, param: typer.CallbackParam, value: Path | None) -> Path | None:
    if value == Path("-"):
        ctx.meta.setdefault(_PRINTED, []).append(max(param.opts, key=len))
    return value


def check_printed(ctx: Any) -> None:
    """Refuse standard output for several outputs of a command."""
    from ..formats.errors import InputError

    printed = ctx.meta.get(_PRINTED, [])
    if len(printed) > 1 or (printed and ctx.params.get("as_json")):
        both = " and ".join([*printed, "--json"][:2])
        raise InputError(f"{both}: expected one of them on standard output, found both; name a file instead of -")


@dataclass(frozen=True, kw_only=True)
class KindOptions:
    """Options that a command has with one kind of input only."""

    with_: ClassVar[str]
    """The kind, as in ``a board``."""


def typed(ctx: typer.Context) -> dict[str, str]:
    """The parameters that the user gave, with their options."""
    opts = {str(parameter.name): parameter.opts[0] for parameter in ctx.command.params}
    return {
        name: opt for name, opt in opts.items() if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }


def refuse_others(ctx: typer.Context, chosen: KindOptions, kinds: Iterable[KindOptions], stated: str) -> None:
    """Refuse options that the user gave, and that belong to other kinds than the one that was ``stated``."""
    from ..formats import InputError

    own = {field.name for field in fields(chosen)}
    others: dict[str, list[str]] = {}
    for kind in kinds:
        for field in fields(kind):
            if field.name not in own:
                others.setdefault(field.name, []).append(kind.with_)
    wrong = {name: opt for name, opt in typed(ctx).items() if name in others}
    if wrong:
        raise InputError(
            f"{opt}: an option with {_one_of(others[name])}, but {stated} is {chosen.with_}; leave it out"
            for name, opt in wrong.items()
        )


def _one_of(kinds: list[str]) -> str:
    """Kinds of input in words: ``a board, an accelerator or a cluster``."""
    return " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))


def followed(ctx: typer.Context, as_json: bool) -> bool:
    """True if the user gave a command of this group; without one, the group prints its list."""
    if ctx.invoked_subcommand is not None and as_json:
        raise typer.BadParameter("expected --json after the command, e.g. show --json", ctx)
    return ctx.invoked_subcommand is not None


def _option_of(hint: Any, field: inspect.Parameter) -> Any:
    """The option of a key that the library describes; other annotations are options already."""
    kind, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    key = next((word for word in said if isinstance(word, Key)), None)
    if key is None:
        return hint
    limits: dict[str, Any] = {"min": key.least, "max": key.most} if kind is int else {}
    names = [f"--{field.name.replace('_', '-')}"] if field.default is False else []  # nobody types --no-int8
    return Annotated[kind, option(key.text, key.value, *names, **limits)]


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every dataclass parameter replaced by that dataclass's fields, each of them an option.

    A field of several dataclasses is one option. ``sections`` of the result are the headings of the help.
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[Any, list[str]]] = {}
    kinds: dict[str, list[str]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            kind: Any = parameter.annotation
            hints = get_type_hints(kind, include_extras=True)
            members = inspect.signature(kind).parameters
            groups[name] = kind, list(members)
            for member, field in members.items():
                parameters.setdefault(member, field.replace(annotation=_option_of(hints[member], field)))
                kinds.setdefault(member, []).extend([kind.with_] if issubclass(kind, KindOptions) else [])
        else:
            parameters[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)

    def run(**given: Any) -> None:
        made = {name: kind(**{member: given[member] for member in members}) for name, (kind, members) in groups.items()}
        command(**{name: value for name, value in given.items() if name not in kinds}, **made)

    flattened: Any = run
    flattened.__name__, flattened.__doc__ = command.__name__, command.__doc__
    flattened.__signature__ = inspect.Signature(list(parameters.values()))  # typer reads the options here
    flattened.sections = {  # the help reads its headings here
        member: f"Options with {_one_of(names)}" for member, names in kinds.items() if names
    }
    return run
