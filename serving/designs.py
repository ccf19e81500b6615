"""Networks on one device: the tables of all are times of one NPU, or of the same cores."""

from __future__ import annotations

from collections.abc import Sequence

from ..formats import InputError
from ..tables.latency import LatencyTable


def check_one_npu(tables: Sequence[tuple[str, LatencyTable]]) -> None:
    """Refuse latency tables, each with its name or folder, that are of different designs.

    Tables that state no design, of a device or measured, are not compared.
    """
    designed = [(name, table.network, table.npus) for name, table in tables if table.npus]
    networks = ",".join(dict.fromkeys(network for _, network, _ in designed))
    for name, _, npus in designed[1:]:
        first, _, expected = designed[0]
        for one, other in zip(expected, npus, strict=False):  # other numbers of cores are refused where they serve
            if one != other:
                raise InputError(
                    f"networks: expected times of one NPU, found {one} in {first}, and {other} in {name}; search one "
                    f"for all with `fluidb dse {networks} {one.board} --together`, then `fluidb latency` of each"
                )
