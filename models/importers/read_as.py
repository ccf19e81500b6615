"""What a user says about a file that the file does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...formats import InputError

TREATMENTS = ("free", "memory")
"""What an operator can cost that is not understood: nothing, or its traffic."""

ONE_FILTER = ("conv", "depthwise")
"""What rows of one filter can be in a SCALE-Sim topology."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """Answers to questions that a file leaves open."""

    # inputs of an ONNX model that are constants, with their values: a switch that an ``If`` asks
    values: Mapping[str, float] = field(default_factory=dict)
    # what operators of an ONNX model cost that are not understood, by ``DOMAIN.OP``: ``free`` or ``memory``
    treat: Mapping[str, str] = field(default_factory=dict)
    one_filter: str | None = None  # what rows of one filter in a SCALE-Sim topology are: ``conv`` or ``depthwise``

    def __post_init__(self) -> None:
        faults = [
            f'treat: expected {" or ".join(TREATMENTS)} for {name}, found "{cost}"'
            for name, cost in self.treat.items()
            if cost not in TREATMENTS
        ]
        if self.one_filter not in {None, *ONE_FILTER}:
            faults.append(f'one_filter: expected {" or ".join(ONE_FILTER)}, found "{self.one_filter}"')
        if faults:
            raise InputError(faults)
