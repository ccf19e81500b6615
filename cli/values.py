"""Inputs of a model that are constants, as options state them: INPUT=NUMBER."""

from __future__ import annotations

from typing import Annotated

from .declare import option

Values = Annotated[
    list[str] | None,
    option(
        "For onnx: the value of a constant input, e.g. a switch that an If reads. Repeatable.",
        "INPUT=NUMBER",
        "--value",
    ),
]


def pair(text: str, name: str, example: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE."""
    from ..formats import InputError

    key, _, value = text.rpartition("=")
    if not key or not value:
        raise InputError(f'{name}: expected NAME=VALUE, such as {example}, found "{text}"')
    return key, value


def values_of(texts: list[str] | None) -> dict[str, float]:
    """The inputs that are constants, with their values."""
    from ..formats import InputError

    values = {}
    for text in texts or []:
        name, number = pair(text, "values", "training=0")
        try:
            values[name] = float(number)
        except ValueError:
            raise InputError(f'values: expected INPUT=NUMBER, such as training=0, found "{text}"') from None
    return values
