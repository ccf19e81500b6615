"""Measures of how sure an answer is: confidence, and entropy (EdgeSP, Equation 4).

Files, options and screens hold the measure itself.  Arrays hold minus the entropy, so that surer is larger for both
measures; :meth:`Measure.to_array` and :meth:`Measure.to_file` convert.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .columns import Number

AnyValues = TypeVar("AnyValues", float, NDArray[np.float64])

Threshold = float | Literal["never", "always"]
"""Value of the measure that an answer must reach so that its sample leaves; or no answer leaves, or every one."""

_WORDS: dict[Threshold, float] = {"never": math.inf, "always": -math.inf}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of how sure an answer is."""

    name: Literal["confidence", "entropy"]
    values: Number
    surer: Literal["larger", "smaller"]  # values of surer answers
    plural: str  # its values, for faults
    usual: tuple[float, ...]  # thresholds that a table shows where a user names none, the surest last
    searched: tuple[float, ...]  # thresholds that a search of exits tries where a user names none, the surest last

    @property
    def reached(self) -> str:
        """Comparison of a value with a threshold that it reaches."""
        return ">=" if self.surer == "larger" else "<="

    def to_array(self, values: AnyValues) -> AnyValues:
        """Values of the measure as arrays hold them."""
        return values if self.surer == "larger" else 0.0 - values  # without the sign of a zero

    def to_file(self, values: AnyValues) -> AnyValues:
        """Values that arrays hold, as files hold them."""
        return self.to_array(values)  # turning back is the same

    def fits(self, threshold: Threshold) -> bool:
        """True if it is a threshold of this measure."""
        return threshold in _WORDS or not bool(self.values.outside(np.asarray(threshold)))

    def least(self, threshold: Threshold) -> float:
        """The least value of an array that reaches a threshold."""
        return _WORDS[threshold] if isinstance(threshold, str) else self.to_array(threshold)

    def threshold(self, least: float) -> Threshold:
        """The threshold that :meth:`least` turns into a value."""
        words: dict[float, Threshold] = {value: word for word, value in _WORDS.items()}
        return words.get(least, self.to_file(least))


CONFIDENCE = Measure(
    "confidence", Number(np.float64, 0, 1, "a confidence from 0 to 1"), "larger", "confidences from 0 to 1",
    usual=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),  # as many as a line of a table has room for
    searched=(0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.99),  # PAME's ten
)  # fmt: skip
"""PAME tries ten confidence thresholds (Section 6.1) but does not print them.  They lie 0.05 apart (Section 7.6); its
earliest candidates keep the precision but are slow, so the last one is high."""

_ENTROPIES = (1.5, 1.0, 0.7, 0.5, 0.3, 0.1, 0.03)
ENTROPY = Measure(
    "entropy", Number(np.float64, 0, 25, "an entropy in nats, from 0 to 25"), "smaller", "entropies from 0 to 25 nats",
    usual=_ENTROPIES, searched=_ENTROPIES,
)  # fmt: skip
"""H = -sum y log y over the classes (Equation 4 of EdgeSP lacks the minus); at most the logarithm of their number,
which is below 25 for all that fit a memory."""

MEASURES: dict[str, Measure] = {measure.name: measure for measure in (CONFIDENCE, ENTROPY)}


def show_threshold(threshold: Threshold) -> str:
    """A threshold as a user writes it."""
    return threshold if isinstance(threshold, str) else f"{threshold:g}"
