"""SubGraphs of a SuperNet: the table of 7 SubNets x 500 SubGraphs, and the search of buffer and array."""

from __future__ import annotations

import numpy as np
from fluidb.dse.subgraphs.costs import SubNetArrays, capacity, compute_s, map_bytes, tabulate
from fluidb.dse.subgraphs.recipes import cut_to, make_recipes
from fluidb.dse.subgraphs.search import arrays_within, find_subgraphs, members_of
from fluidb.models.supernets import load_family
from fluidb.platforms import Accelerator, load_platform
from fluidb.tables.subgraphs import Maps, StageB, SubGraphCut, SubGraphOptions
from rounds import BenchmarkTable, Entrant, take_turns, timed

NUMPY, TABLE, SEARCH = "table, NumPy", "table, fluidb", "search of buffer and array, fluidb"


def with_numpy(work: SubNetArrays, chip: Accelerator, subgraphs: np.ndarray) -> np.ndarray:
    """Times by SubNet and SubGraph, a SubGraph at a time."""
    moved, compute = work.weights + map_bytes(work, chip, Maps.SPILLED), compute_s(work, chip)[0]
    time_s = np.empty((len(work.extents), len(subgraphs)))
    for m, box in enumerate(subgraphs):
        K, C, R = np.moveaxis(np.minimum(work.boxes, box), 1, 0)
        time_s[:, m] = np.maximum(compute, (moved - K * C * R**2) / chip.bytes_per_s).sum(axis=1)
    return time_s


def measure(rounds: int, columns: int = 500, step_kib: float = 36.0) -> BenchmarkTable:
    """Time of the table and of the search; NumPy must agree."""
    family, chip = load_family("ofa_mobilenet_v3"), load_platform("sushi-zcu104", kind=Accelerator)
    work, arrays = members_of(family).work, arrays_within(chip)
    names = [subnet.name for subnet in family.subnets]
    subgraphs = cut_to(make_recipes(work.boxes, names, list(SubGraphCut), columns, 0), capacity(chip))
    options = SubGraphOptions(columns=columns)

    def ours() -> np.ndarray:
        return tabulate(work, chip, subgraphs, Maps.SPILLED, StageB.EXPOSED).time_s[0, :, 1:]

    assert np.allclose(ours(), with_numpy(work, chip, subgraphs), rtol=1e-12, atol=0)
    rows = take_turns(
        [
            Entrant(NUMPY, timed(lambda: with_numpy(work, chip, subgraphs))),
            Entrant(TABLE, timed(ours), NUMPY, ours=True),
            Entrant(
                SEARCH,
                timed(lambda: find_subgraphs(family, chip, options, arrays=arrays, step_kib=step_kib)),
                ours=True,
            ),
        ],
        rounds,
    )
    sizes = int(chip.shared_kib // step_kib) + 1
    about = (
        f"{len(names)} SubNets of MobileNet-V3 and {columns} SubGraphs on {chip.title}; the search evaluates them with "
        f"{sizes} sizes of the persistent buffer and the {len(arrays)} arrays within {chip.dsps:,} DSPs that no other "
        "contains."
    )
    return BenchmarkTable("subgraphs", "SubGraphs of a SuperNet", about, rows)
