"""Measures of how sure an answer is: confidence, entropy (EdgeSP, Equation 4), and margin.

All that fluidb knows of a measure stands here.  Files, options and screens hold the measure itself.  Arrays hold minus
the measure where smaller values are surer, so that surer is larger for every measure; :meth:`Measure.to_array` and
:meth:`Measure.to_file` convert.  numpy is imported late: a network's file names measures, and holds no arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .columns import Number

    Shares = NDArray[np.float64]

AnyValues = TypeVar("AnyValues", float, "NDArray[np.float64]")

Words = Literal["never", "always"]
Threshold = float | Words
"""Value of the measure that an answer must reach so that its sample leaves; or no answer leaves, or every one."""

NEVER: Words = "never"
"""The threshold that no answer reaches: its exit only answers requests whose deadline arrives."""

WORDS: dict[Threshold, float] = {NEVER: math.inf, "always": -math.inf}
"""Thresholds that are words, and the least values that reach them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of how sure an answer is."""

    name: str  # of its columns and keys
    one: str  # of its values, for people
    several: str
    unit: str = ""
    low: float = 0.0  # least and largest value
    high: float
    surer: Literal["larger", "smaller"]  # values of surer answers
    probability: bool = False  # whether a value is the probability that the answer is right
    # values of answers: (N, C) probabilities of classes to (N,); no repr, which would have the function's address
    of: Callable[[Shares], Shares] = field(repr=False)
    # values of answers by the largest of their probabilities, if all other classes are equally probable, and by C
    of_largest: Callable[[Shares, int], Shares] = field(repr=False)
    usual: tuple[float, ...]  # thresholds that a table shows where a user names none, the surest last
    searched: tuple[float, ...]  # thresholds that a search of exits tries where a user names none, the surest last
    swept: tuple[float, ...]  # thresholds that a sweep tries where a user names none, the surest last

    def __reduce__(self) -> tuple[Callable[[str], Measure], tuple[str]]:
        return measure_named, (self.name,)  # functions without a name cannot travel to another process

    @property
    def expected(self) -> str:
        """Its values, for faults."""
        unit = f" in {self.unit}," if self.unit else ""
        return f"{self.one}{unit} from {self.low:g} to {self.high:g}"

    @property
    def plural(self) -> str:
        """Several of its values, for faults."""
        return f"{self.several} from {self.low:g} to {self.high:g}{f' {self.unit}' if self.unit else ''}"

    @property
    def values(self) -> Number:
        """Its values in the column of a file."""
        import numpy as np

        from .columns import Number

        return Number(np.float64, self.low, self.high, self.expected)

    @property
    def reached(self) -> str:
        """Comparison of a value with a threshold that it reaches."""
        return ">=" if self.surer == "larger" else "<="

    @property
    def asked(self) -> str:
        """Words before a threshold that an answer must reach."""
        return f"from {self.one} of" if self.surer == "larger" else f"up to {self.one} of"

    def to_array(self, values: AnyValues) -> AnyValues:
        """Values of the measure as arrays hold them."""
        return values if self.surer == "larger" else 0.0 - values  # without the sign of a zero

    def to_file(self, values: AnyValues) -> AnyValues:
        """Values that arrays hold, as files hold them."""
        return self.to_array(values)  # turning back is the same

    def fits(self, threshold: Threshold) -> bool:
        """True if it is a threshold of this measure."""
        return threshold in WORDS or self.low <= float(threshold) <= self.high

    def stated(self, value: float) -> Threshold:
        """The threshold that an answer reaches if it reaches a value, which may lie out of bounds."""
        if value > self.high:
            return NEVER if self.surer == "larger" else "always"
        if value < self.low:
            return self.low if self.surer == "larger" else NEVER
        return value

    def least(self, threshold: Threshold) -> float:
        """The least value of an array that reaches a threshold."""
        return WORDS[threshold] if isinstance(threshold, str) else self.to_array(threshold)

    def threshold(self, least: float) -> Threshold:
        """The threshold that :meth:`least` turns into a value."""
        words: dict[float, Threshold] = {value: word for word, value in WORDS.items()}
        return words.get(least, self.to_file(least))


def _largest(shares: Shares) -> Shares:
    largest: Shares = shares.max(axis=1)
    return largest


CONFIDENCE = Measure(
    name="confidence", one="a confidence", several="confidences", high=1.0, surer="larger", probability=True,
    of=_largest, of_largest=lambda largest, _: largest,
    usual=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),  # as many as a line of a table has room for
    searched=(0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.99),  # PAME's ten
    swept=(0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
)  # fmt: skip
"""The largest probability.

PAME tries ten confidence thresholds (Section 6.1) but does not print them.  They lie 0.05 apart (Section 7.6); its
earliest candidates keep the precision but are slow, so the last one is high.
"""


def _entropy(shares: Shares) -> Shares:
    import numpy as np

    total: Shares = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return np.maximum(total, 0.0)


def _entropy_of_largest(largest: Shares, classes: int) -> Shares:
    import numpy as np

    p = np.clip(largest, 1 / classes, 1.0)
    rest = 1 - p
    others = np.log(np.where(rest > 0, rest, 1.0) / max(classes - 1, 1))
    return np.maximum(-p * np.log(p) - rest * others, 0.0)


_ENTROPIES = (1.5, 1.0, 0.7, 0.5, 0.3, 0.1, 0.03)
ENTROPY = Measure(
    name="entropy", one="an entropy", several="entropies", unit="nats", high=25.0, surer="smaller",
    of=_entropy, of_largest=_entropy_of_largest,
    usual=_ENTROPIES, searched=_ENTROPIES, swept=_ENTROPIES,
)  # fmt: skip
"""H = -sum y log y over the classes (Equation 4 of EdgeSP lacks the minus); at most the logarithm of their number,
which is below 25 for all that fit a memory."""


def _margin(shares: Shares) -> Shares:
    import numpy as np

    if shares.shape[1] < 2:
        return _largest(shares)
    second, first = np.partition(shares, -2, axis=1)[:, -2:].T
    difference: Shares = first - second
    return difference


def _margin_of_largest(largest: Shares, classes: int) -> Shares:
    import numpy as np

    return np.maximum(largest - (1 - largest) / max(classes - 1, 1), 0.0)


_MARGINS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)
MARGIN = Measure(
    name="margin", one="a margin", several="margins", high=1.0, surer="larger",
    of=_margin, of_largest=_margin_of_largest,
    usual=_MARGINS, searched=_MARGINS, swept=_MARGINS,
)  # fmt: skip
"""The largest probability less the second largest (Scheffer, Decomain, Wrobel: Active Hidden Markov Models for
Information Extraction, IDA 2001)."""

MEASURES: dict[str, Measure] = {measure.name: measure for measure in (CONFIDENCE, ENTROPY, MARGIN)}


def measure_named(name: str) -> Measure:
    """The measure of this name."""
    return MEASURES[name]


HIGHEST = max(measure.high for measure in MEASURES.values())
"""The largest value that any of them has."""

if TYPE_CHECKING:
    MeasureName = str
else:
    MeasureName = Literal[tuple(MEASURES)]
"""The name of a measure in a file."""


def show_threshold(threshold: Threshold) -> str:
    """A threshold as a user writes it."""
    return threshold if isinstance(threshold, str) else f"{threshold:g}"
