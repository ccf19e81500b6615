"""What an experiment of a paper gives: figures and statements, each beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field

NEAR = 0.10
"""Within this share of the paper's figure, or as many hundred percentage points, ours counts as near."""

CALIBRATED, GIVEN, PREDICTED = "calibrated", "given", "predicted"
"""What our figure is worth beside the paper's: a parameter of ours was chosen by the paper's figure; the paper states
what we set; or neither."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes
    ----------
    quantity : str
        What it is, e.g. ``"mean latency"``.
    of : str
        Whose: a contender, a design, a setting.
    at : str
        Where: a cell of a table, a panel of a figure.
    unit : str
        ``"ms"``, ``"%"``, ``"/s"``, ``"GOP/s"``, ``"points"``, ``"x"`` or empty.
    ours : float
        Our value, or its mean over seeds.
    low, high : float or None
        Student's 95 % interval over seeds; ``None`` without seeds.
    paper : float or None
        The paper's value; ``None`` where it only draws one.
    x : float or None
        Place on a figure's horizontal axis; ``None`` in a table.
    basis : str
        :data:`CALIBRATED`, :data:`GIVEN` or :data:`PREDICTED`; empty in a paper that does not tell them apart.
    """

    quantity: str
    of: str
    at: str
    unit: str
    ours: float
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    x: float | None = None
    basis: str = ""

    @property
    def in_points(self) -> bool:
        """Whether the difference is one of percentage points rather than a ratio."""
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
    """A statement of the paper's text, and whether it holds here.

    Attributes
    ----------
    statement : str
        What the paper says, in our words.
    section : str
        Where.
    paper, ours : str
        Both figures, with units.
    holds : bool
        Whether ours says the same.
    reason : str
        Where it does not: why, as far as we know.
    """

    statement: str
    section: str
    paper: str
    ours: str
    holds: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A table, figure or study of the paper, reproduced.

    Attributes
    ----------
    name : str
        What ``fluidb reproduce`` calls it.
    title : str
        A line for people.
    notes : list of str
        What a reader must know, where we part from the paper first.
    rows : list of Row
        Its figures.
    axis : str
        What ``x`` is, with its unit.
    claims : list of Claim
        What the paper says of it, judged.
    picture : str
        ``"lines"`` over ``x``, a panel for each quantity, or for each place if there is one
        quantity; ``"cells"``, the same with a panel for each quantity and place; ``"bars"``,
        for rows without ``x``; ``"dots"``, a line for each setting; ``"matrix"``, a field for each
        ``of`` and ``x``, a panel for each quantity and place.
    """

    name: str
    title: str
    notes: list[str]
    rows: list[Row]
    axis: str = ""
    claims: list[Claim] = field(default_factory=list)
    picture: str = "lines"
