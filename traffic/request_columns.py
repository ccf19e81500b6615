"""The columns of requests beside ids, arrivals, exits and answers: one declaration each.

A new column is an entry of ``REQUEST_COLUMNS``, a stream of random numbers in ``randomness.py`` and an attribute of
:class:`.trace.Trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .columns import Number
from .distributions import FORMS, Objective, parse_distribution
from .predictions import parse_prediction
from .randomness import ACCURACIES, PREDICTED_DEPTHS, PREDICTED_WIDTHS, SLOS, STEPS, WIDTHS
from .times import MAX_ARRIVAL_S
from .widths import parse_steps, parse_widths


class Drawing(Protocol):
    """A rule by which the values of a column are drawn."""

    def draw(self, random: np.random.Generator, of: Any, /) -> NDArray[Any]:
        """Values for ``of``: a number of requests, or the values of the column that this one follows."""


Columns = Mapping[str, Drawing]
"""Columns to draw, by :attr:`RequestColumn.key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumn:
    """A column of requests."""

    name: str  # in a file, and of the attribute of a trace
    values: Number  # type and bounds
    key: str  # the parameter, option and scenario key that draws it
    read: Callable[[Any, str], Drawing]  # from what the key states, and the name of the key for faults
    stream: int  # of random numbers
    heading: str  # in a list of what was drawn
    kind: type[str | float] = str  # of what the key states
    help: str = ""  # of the option, where only commands that draw columns have it
    metavar: str = "DISTRIBUTION"
    follows: tuple[str, ...] = ()  # columns of a trace; it is drawn from the first that the trace has
    lacking: str = ""  # fault if it follows from values that a trace does not have
    carried: bool = False  # among the arrays that policies read
    reported: bool = False  # beside what happened to each request


SLO = Number(np.float64, 1e-12, MAX_ARRIVAL_S, "seconds > 0")
ACCURACY = Number(np.float64, 0, 1, "an accuracy from 0 to 1")
PREDICTION = Number(np.float64, -1e9, 1e9, "a number")

REQUEST_COLUMNS = (
    RequestColumn(
        name="slo_s",
        values=SLO,
        key="slo",
        read=partial(parse_distribution, bounds=SLO, example="uniform:10ms,40ms", durations=True),
        stream=SLOS,
        heading="SLOs",
    ),
    RequestColumn(
        name="steps",
        values=Number(np.int64, 1, 10**6, "a number of steps, at least 1"),
        key="steps",
        read=parse_steps,
        stream=STEPS,
        help="Draw steps from widths: ratio=1.08,relative=0.205,absolute=1.5,high=103.",
        metavar="KEY=VALUE,...",
        heading="steps",
        follows=("width",),
        lacking="expected widths, which steps follow from, found none; draw the column width too",
    ),
    RequestColumn(
        name="width",
        values=Number(np.float64, 1e-9, 1e9, "a width > 0 and <= 1e9"),
        key="width",
        read=parse_widths,
        stream=WIDTHS,
        help="Draw widths: lognormal:mean=39,sd=19,low=6,high=256,multiple=8 or shares:64=0.3,96=0.7.",
        metavar="lognormal:...|shares:...",
        heading="widths",
        carried=True,
    ),
    RequestColumn(
        name="predicted_depth",
        values=PREDICTION,
        key="predict_depth",
        read=parse_prediction,
        stream=PREDICTED_DEPTHS,
        kind=float,
        heading="predicted depth",
        follows=("steps", "exits"),
        lacking="expected a column exit or steps to predict, found neither; where exits are drawn later, they are "
        "predicted there",
        carried=True,
    ),
    RequestColumn(
        name="predicted_width",
        values=PREDICTION,
        key="predict_width",
        read=parse_prediction,
        stream=PREDICTED_WIDTHS,
        help="Predict widths, with this correlation, -1 to 1.",
        metavar="RHO",
        kind=float,
        heading="predicted width",
        follows=("width",),
        lacking="expected widths to predict, found none; draw the column width too",
        carried=True,
    ),
    RequestColumn(
        name="min_accuracy",
        values=ACCURACY,
        key="min_accuracy",
        read=partial(parse_distribution, bounds=ACCURACY, example="uniform:0.75,0.79"),
        stream=ACCURACIES,
        help=f"Accuracy asked for: a value, {', '.join(f'{form}:{shape}' for form, (shape, _) in FORMS.items())}.",
        heading="accuracy asked for",
        carried=True,
        reported=True,
    ),
)  # fmt: skip
"""In the order of a file."""


def parse_slo(text: str, what: str = "slo") -> Objective:
    """Read a latency objective: a duration such as ``200ms``, or a distribution of durations."""
    stated = parse_distribution(text, what, bounds=SLO, example="uniform:10ms,40ms", durations=True)
    return stated if stated.single is None else stated.single
