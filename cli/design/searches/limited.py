"""What of a board a design is limited by, and what more of it would give, as `fluidb dse` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...render import percent, table
from ..problem import RESOURCES

if TYPE_CHECKING:
    from ....dse.npu.limited import Gain, LimitedBy
    from ....dse.npu.options import SearchOptions

MOST_MORE = 10.0
"""How many times more of a resource may be asked for."""


def parse_more(text: str | None) -> float | None:
    """How much more of each resource a user asks for, as a share."""
    from ....formats import InputError, parse_quantity

    if text is None:
        return None
    share = parse_quantity(text, {"%": 0.01}, "more", "10%")
    if share > MOST_MORE:
        raise InputError(f'more: expected at most {MOST_MORE:.0%}, found "{text}"; write e.g. 10%')
    return share


def limits_text(limits: LimitedBy, objective: float) -> str:
    """What a design is limited by, in one line."""
    from ....dse.npu.limited import BANDWIDTH, CYCLE, MEMORY, MORE_BANDWIDTH

    parts = []
    for key, sizes in limits.refuses.items():
        refused = ", ".join(f"{size} = {value}" for size, value in sizes.items())
        parts.append(f"{RESOURCES[key]} refuse{'s' * (key in (MEMORY, CYCLE))} {refused}")
    if gain := round(100 * (limits.with_bandwidth / objective - 1), 1):
        parts.append(f"{percent(MORE_BANDWIDTH, 0)} more {RESOURCES[BANDWIDTH]} gives {gain:+.1f} %")
    return "; ".join(parts) or "nothing of the board: larger sizes fit"


def limits_record(limits: LimitedBy) -> dict[str, Any]:
    """The same for JSON."""
    from ....dse.npu.limited import MORE_BANDWIDTH

    refusals = [{"resource": key, "refuses": sizes} for key, sizes in limits.refuses.items()]
    return {
        "limited_by": refusals,
        "with_more_bandwidth": {"share": MORE_BANDWIDTH, "objective": limits.with_bandwidth},
    }


def more_text(gains: Sequence[Gain], share: float, options: SearchOptions) -> Iterator[str]:
    """The best design with more of each resource."""
    rows = [
        ("all of these" if gain is gains[-1] else RESOURCES[gain.keys[0]], gain.best.tile,
         options.text(gain.best.objective), f"{100 * (gain.ratio - 1):+.2f} %")
        for gain in gains
    ]  # fmt: skip
    yield table([f"with {percent(share, 0)} more", "design", "objective", "to the best"], rows)


def more_record(gains: Sequence[Gain], share: float) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [{"resources": list(gain.keys), "share": share, **gain.best.model_dump()} for gain in gains]
