"""Writes network files as a person would."""

from __future__ import annotations

from typing import Any

from ..formats import toml_inline, toml_lines
from .schema import NetworkFile, Op


def _short(value: list[int]) -> int | list[int]:
    """The shortest way to write one size for each axis or side."""
    if len(set(value)) == 1:
        return value[0]
    return value[:2] if value[:2] == value[2:] else value


def _operator(op: Op) -> dict[str, Any]:
    """The keys of an operator that have no default value, its name first and its shape last."""
    content = op.model_dump(by_alias=True, exclude_defaults=True)
    sizes = {"kernel", "stride", "pad", "dilation", "extra"} & content.keys()
    content |= {key: _short(content[key]) for key in sizes}
    first = {key: content.pop(key) for key in ("name", "op", "from") if key in content}
    if len(first.get("from", ())) == 1:
        first["from"] = first["from"][0]
    last = {"shape": content.pop("shape")} if "shape" in content else {}
    return first | content | last


def _operators(ops: list[Op]) -> list[str]:
    return ["layers = [", *(f"  {toml_inline(_operator(op))}," for op in ops), "]"]


def network_text(file: NetworkFile) -> str:
    """The text of a network file, with one line for each layer."""
    head = {"schema": file.schema_, "name": file.name, "title": file.title, "input": file.input.model_dump()}
    lines = [*toml_lines(head), *([f"steps = {file.steps}"] if file.steps > 1 else []), "", *_operators(file.layers)]
    for exit_ in file.exits:
        lines += toml_lines(exit_.model_dump(exclude={"layers"}, exclude_none=True), "[[exits]]")
        if exit_.layers is not None:
            lines += _operators(exit_.layers)
    if file.candidates is not None:
        lines += toml_lines(file.candidates.model_dump(exclude={"layers"}, exclude_none=True), "[candidates]")
        if file.candidates.layers is not None:
            lines += _operators(file.candidates.layers)
    return "\n".join([*lines, *toml_lines(file.sources, "[sources]")]) + "\n"
