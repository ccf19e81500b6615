"""Einsum of any form as sums, transposes and products of two operands."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper

from .labels import SizeFault, attributes_of

DIAGONAL = "Diagonal"
"""Operator for an Einsum whose operand has a letter twice: it takes values where both places are equal."""


def terms_of(stated: bytes, sizes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of each operand and of the output, with letters for the dimensions of an ellipsis."""
    equation = stated.decode().replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    terms = inputs.split(",")
    fault = SizeFault(f'expected an equation for {len(sizes)} operands, found "{equation[:60]}"')
    letters = [*"".join([*terms, out]).replace("...", "")]
    if len(terms) != len(sizes) or not all(letter in string.ascii_letters for letter in letters):
        raise fault
    more = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, sizes, strict=True)]
    if any(count < 0 or (count and "..." not in term) for term, count in zip(terms, more, strict=True)):
        raise fault
    free = [letter for letter in string.ascii_uppercase + string.ascii_lowercase if letter not in letters]
    most = max(more, default=0)
    if most > len(free) or any(term.count("...") > 1 for term in [*terms, out]):
        raise fault
    wide = "".join(free[:most])
    terms = [term.replace("...", wide[most - count :]) for term, count in zip(terms, more, strict=True)]
    if not arrow:
        out = wide + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    out = out.replace("...", wide)
    if len(set(out)) < len(out) or not set(out) <= set("".join(terms)):
        raise fault
    return terms, out


def einsum_sizes(node: onnx.NodeProto, sizes: Sequence[tuple[int, ...]]) -> list[int]:
    """Sizes of the output."""
    terms, out = terms_of(attributes_of(node)["equation"], sizes)
    known = _letters(terms, sizes)
    return [known[letter] for letter in out]


def _letters(terms: Sequence[str], sizes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of each letter; a dimension of size 1 meets any other."""
    known: dict[str, int] = {}
    for term, shape in zip(terms, sizes, strict=True):
        own: dict[str, int] = {}
        for letter, size in zip(term, shape, strict=True):
            if own.setdefault(letter, size) != size:
                raise SizeFault(f"one of its operands has {own[letter]} and {size} values along one letter")
            if size != known.get(letter, size) and 1 not in {size, known[letter]}:
                raise SizeFault(f"its operands have {known[letter]} and {size} values along one letter")
            known[letter] = max(size, known.get(letter, 1))
    return known


class EinsumParts:
    """The plain nodes that one Einsum stands for."""

    def __init__(self, node: onnx.NodeProto, sizes: Sequence[tuple[int, ...]], opset: int) -> None:
        self.node, self.opset = node, opset
        self.terms, self.out = terms_of(attributes_of(node)["equation"], sizes)
        self.nodes: list[onnx.NodeProto] = []
        self.axes: dict[str, list[int]] = {}  # constants that the nodes read

    def write(self) -> list[onnx.NodeProto]:
        """Operands from left to right, each first without the letters that it alone has."""
        operands = [*map(self._own, range(len(self.terms)))]
        name, term = operands[0]
        for place, (other, second) in enumerate(operands[1:], 1):
            later = {*self.out, *"".join(letters for _, letters in operands[place + 1 :])}
            last = place == len(operands) - 1
            kept = self.out if last else "".join(dict.fromkeys(c for c in term + second if c in later))
            made = self.node.output[0] if last else self._name()
            self._add("Einsum", [name, other], made, equation=f"{term},{second}->{kept}")
            name, term = made, kept
        if len(operands) == 1:
            order = [term.index(letter) for letter in self.out]
            if order == sorted(order):
                self._add("Identity", [name], self.node.output[0])
            else:
                self._add("Transpose", [name], self.node.output[0], perm=order)
        return self.nodes

    def _own(self, place: int) -> tuple[str, str]:
        """An operand with each letter once, and without sums that no other operand takes part in."""
        name, term = self.node.input[place], self.terms[place]
        if len(set(term)) < len(term):
            once = "".join(dict.fromkeys(term))
            name = self._add(DIAGONAL, [name], self._name(), equation=f"{term}->{once}")
            term = once
        others = {*self.out, *"".join(self.terms[:place] + self.terms[place + 1 :])}
        alone = [axis for axis, letter in enumerate(term) if letter not in others]
        if alone:
            made = self._name()
            if self.opset < 13:
                self._add("ReduceSum", [name], made, axes=alone, keepdims=0)
            else:
                self.axes[f"{made}/axes"] = alone
                self._add("ReduceSum", [name, f"{made}/axes"], made, keepdims=0)
            name, term = made, "".join(letter for letter in term if letter in others)
        return name, term

    def _name(self) -> str:
        return f"{self.node.output[0]}/{len(self.nodes)}"

    def _add(self, op: str, inputs: list[str], made: str, **attributes: Any) -> str:
        name = self.node.name if made == self.node.output[0] else ""
        self.nodes.append(helper.make_node(op, inputs, [made], name=name, **attributes))
        return made
