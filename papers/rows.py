"""Results of an experiment: figures and statements, each beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field

NEAR = 0.10
"""Within this share of the paper's figure, or as many hundred percentage points, ours counts as near."""

CALIBRATED, GIVEN, ASSUMED, PREDICTED = "calibrated", "given", "assumed", "predicted"
"""Basis of a figure of ours: a parameter was chosen by the paper's figure; the paper states our input; a number without
a source decides it; or none of these. Only a prediction is evidence."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    quantity: str  # e.g. "mean latency"
    of: str  # a contender, a design, a setting
    at: str  # a cell of a table, a panel of a figure
    unit: str  # "ms", "%", "/s", "GOP/s", "points", "x" or empty
    ours: float  # our value, or its mean over seeds
    low: float | None = None  # Student's 95 % interval over seeds
    high: float | None = None
    paper: float | None = None  # none where the paper only draws one
    x: float | None = None  # place on the horizontal axis of a figure
    basis: str = (
        ""  # CALIBRATED, GIVEN, ASSUMED or PREDICTED; empty in a paper of the user's that does not tell them apart
    )

    @property
    def in_points(self) -> bool:
        """True if the difference is one of percentage points rather than a ratio."""
        return self.unit in ("%", "points")

    @property
    def difference(self) -> float | None:
        """Ours less the paper's: percentage points where both are percentages, else percent of the paper's."""
        if self.paper is None:
            return None
        return self.ours - self.paper if self.in_points else 100 * (self.ours / self.paper - 1)

    @property
    def gap(self) -> str:
        """The difference as it is printed; empty where the paper prints no value."""
        return "" if self.difference is None else f"{self.difference:+.1f} {'points' if self.in_points else '%'}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper's text, and whether it holds here."""

    statement: str  # of the paper, in our words
    section: str
    paper: str  # figures with units
    ours: str
    holds: bool
    reason: str = ""  # of a difference, as far as we know
    basis: str = ""  # as of a row; empty if it is a prediction

    @property
    def worth(self) -> str:
        """Its basis as it is printed behind a verdict."""
        return f" ({self.basis})" if self.basis else ""


@dataclass(frozen=True, slots=True)
class Item:
    """A table, figure or study of the paper, reproduced."""

    name: str  # as in `fluidb reproduce NAME`
    title: str
    notes: list[str]  # for readers; where we part from the paper first
    rows: list[Row]
    axis: str = ""  # meaning and unit of x
    claims: list[Claim] = field(default_factory=list)  # of the paper about it
    picture: str = "lines"
    """``"lines"`` over ``x``, a panel for each quantity, or for each place if there is one quantity; ``"cells"``, the
    same with a panel for each quantity and place; ``"bars"``, for rows without ``x``; ``"dots"``, a line for each
    setting; ``"matrix"``, a field for each ``of`` and ``x``, a panel for each quantity and place."""
