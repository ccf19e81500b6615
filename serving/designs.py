"""Networks on one device: the tables of all are times of one NPU, or of the same cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..formats import InputError
from ..models import NETWORKS
from ..platforms import PLATFORMS
from ..tables.latency import LatencyTable


class NamedTable(NamedTuple):
    """A latency table of a network, its name or folder for faults, and the network's part of the requests."""

    name: str
    table: LatencyTable
    share: float


def check_one_npu(tables: Sequence[NamedTable]) -> None:
    """Refuse latency tables that are of different designs.

    Tables that state no design, of a device or measured, are not compared.
    """
    designed = [(each, each.table.npus) for each in tables if each.table.npus]
    for other, npus in designed[1:]:
        first, expected = designed[0]
        for one, two in zip(expected, npus, strict=False):  # other numbers of cores are refused where they serve
            if one != two:
                raise InputError(
                    f"networks: expected times of one NPU, found {one} in {first.name}, and {two} in {other.name}; "
                    f"search one for all with {_search([each for each, _ in designed], one.board)}, then "
                    "`fluidb latency` of each"
                )


def _search(tables: Sequence[NamedTable], board: str) -> str:
    """The command that finds one design for the networks of tables, which know no files but only their names."""
    shares: dict[str, float] = {}
    for each in tables:
        shares[each.table.network] = shares.get(each.table.network, 0.0) + each.share
    parts = ",".join(f"{share:g}" for share in shares.values())
    own = [name for name in shares if name not in NETWORKS.names()] + [board] * (board not in PLATFORMS.names())
    files = f" (your files in place of {', '.join(own)})" if own else ""
    return f"`fluidb dse {','.join(shares)} {board} --together --shares {parts}`{files}"
