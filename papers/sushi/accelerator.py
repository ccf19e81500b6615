"""The accelerator by itself: Tables 1 and 3, Figs. 10 to 14."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...dse.subgraphs.costs import capacity, tabulate
from ...dse.subgraphs.explanation import explain_pair
from ...dse.subgraphs.recipes import cut_to, make_recipes
from ...dse.subgraphs.search import Array, find_subgraphs, members_of, split
from ...formats.array_types import Floats
from ...platforms import Accelerator, load_platform
from ...tables.subgraphs import Layers, Maps, StageB, SubGraphCut, SubGraphOptions
from ..lab import Lab
from ..rows import CALIBRATED, GIVEN, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .readings import (
    BOARD_MB,
    CHOSEN,
    MOBILENET,
    MOBILENET_224,
    MOBILENET_BOARD,
    MOBILENET_IDEAL,
    RESNET,
    RESNET_BOARD,
    RESNET_IDEAL,
    RESNET_WIDE,
    SHARED_MB,
    Reading,
    saved,
)

BOARDS = {"ZCU104": "sushi-zcu104", "U50": "sushi-u50"}
NO_DPU = "the DPU is closed: we know neither its layout of a layer nor its compiler's schedule, and model neither"


def _chip(name: str) -> Accelerator:
    return load_platform(name, kind=Accelerator)


def _ends(
    quantity: str, of: str, at: str, values: list[float], printed: list[float] | None, basis: str, unit: str = "%"
) -> list[Row]:
    """The smallest and the largest of some values, beside the paper's range."""
    low, high = printed or (None, None)
    ends = (("least", min(values), low), ("most", max(values), high))
    return [Row(f"{quantity}, {end}", of, at, unit, ours, paper=paper, basis=basis) for end, ours, paper in ends]


def sushi_table1(_: Lab) -> Item:
    """The widths of buffers that the formulas of Table 1 ask for."""
    rows = []
    for board, name in BOARDS.items():
        chip = _chip(name)
        word = chip.word_bits // 8
        off_chip = round(chip.bytes_per_s / chip.clock_hz)
        window = 9 * chip.C_P * word  # C_P R S words of a 3x3 window; weights pass through the rows in the same way
        widths = {
            "distinct": math.lcm(off_chip, window),
            "streaming": math.lcm(off_chip, window),
            "line": window,
            "output": chip.K_P * word,
            "persistent": math.lcm(off_chip, window),
        }
        rows += [Row("width", buffer, board, "bytes/cycle", float(width)) for buffer, width in widths.items()]
    notes = [
        (
            "The paper prints the formulas and no numbers. These numbers are ours, for the boards' bandwidth, clock "
            "and array."
        ),
        (
            'We read the "demanded on-chip bandwidth" of the array as the bandwidth of one row of engines, through '
            "which the other rows get weights and activations (Section 4.2.1)."
        ),
    ]
    return Item("sushi_table1", "Table 1: bandwidth of the on-chip buffers", notes, rows, picture="bars")


def sushi_table3(_: Lab) -> Item:
    """Buffers of ZCU104 with and without a persistent one, and peaks."""
    printed, chip = PUBLISHED["table3"], _chip("sushi-zcu104")
    rows = []
    for column, (of, buffers) in enumerate({"without": split(chip, 0.0), "with": chip}.items()):
        sizes = {
            "distinct": 2 * buffers.distinct_kib,
            "streaming": buffers.streaming_kib,
            "persistent": buffers.persistent_kib,
            "together": buffers.shared_kib,
            "block_ram": buffers.output_kib + buffers.other_kib,
        }
        basis = GIVEN if of == "with" else PREDICTED
        for name, size in sizes.items():
            paper = printed[name][column]
            same = paper or None  # no ratio to a buffer of 0
            rows.append(Row(name.replace("_", " "), f"{of} PB", "ZCU104", "KB", size, paper=same, basis=basis))
    for name, paper in PUBLISHED["peak"].items():
        basis = GIVEN if name == "sushi-u50" else CALIBRATED
        rows.append(Row("peak", name, "100 MHz", "GFLOP/s", _chip(name).peak_gop_s, paper=paper, basis=basis))
    notes = [
        "Without the persistent buffer the other two buffers share its memory, in the same proportion as with it.",
        "The products K_P C_P of ZCU104 and of Fig. 10 follow from the peak. The paper prints 16 x 32 for U50.",
    ]
    return Item("sushi_table3", "Table 3: buffers, and the peaks of Table 2", notes, rows, picture="bars")


def sushi_fig10(_: Lab) -> Item:
    """Time of each SubNet saved by the persistent buffer."""
    rows = []
    resnets = (RESNET, RESNET_WIDE, RESNET_BOARD, RESNET_IDEAL)
    for reading in (*resnets, MOBILENET, MOBILENET_224, MOBILENET_BOARD, MOBILENET_IDEAL):
        basis = CALIBRATED if reading in CHOSEN else PREDICTED
        savings = saved(reading.subgraphs().time_s)
        rows += _ends("latency saved", reading.name, reading.net, savings, PUBLISHED["fig10"][reading.net], basis)
    claims = []
    for reading in (RESNET, MOBILENET):
        table = reading.subgraphs()
        savings = saved(table.time_s)
        least = min(range(len(savings)), key=lambda i: table.subnets[i].bytes)
        claims.append(
            Claim(f"A small {reading.net} saves relatively more", "5.2", "the first bar saves most",
                  f"{table.subnets[least].name} saves {savings[least]:.1f} %; the mean of all is "
                  f"{np.mean(savings):.1f} %",
                  savings[least] == max(savings), basis=CALIBRATED)
        )  # fmt: skip
    notes = [
        (
            f"In *potential*, all that SubNets share ({SHARED_MB['ResNet-50']:g} and {SHARED_MB['MobileNet-V3']:g} "
            "MB) is resident; without a buffer it is fetched before each query. In *board*, as much is resident as "
            f"{BOARD_MB:g} MB hold."
        ),
        (
            "With a board's buffer ResNet-50 saves much less than the figure shows, so that the figure shows the "
            "potential."
        ),
        "MobileNet-V3's range comes out only if its smallest SubNet has an input of 160 x 160.",
        (
            "At ideal utilisation no engine is ever idle. So computing takes less time, and fetching is a larger "
            "share of it."
        ),
    ]
    return Item("sushi_fig10", "Fig. 10: latency with and without SubGraph Stationary", notes, rows, claims=claims,
                picture="dots")  # fmt: skip


def sushi_fig11(_: Lab) -> Item:
    """Layers that wait for off-chip memory, before and after."""
    rows, claims = [], []
    for reading in (RESNET, MOBILENET):
        table, before, after = reading.subgraphs(), [], []
        for subnet in table.subnets:
            pair = explain_pair(table, subnet.name, table.subgraphs[1].name)
            counts = [int(pair.memory_bound(moved).sum()) for moved in (pair.bytes_empty, pair.bytes_resident)]
            for of, count in zip(("without", "with"), counts, strict=True):
                share = 100 * count / len(pair.layers)
                rows.append(Row("memory-bound layers", f"{of} PB", f"{reading.net} {subnet.name}", "%", share))
            before.append(counts[0])
            after.append(counts[1])
        claims.append(
            Claim(f"Layers of {reading.net} move from memory-bound to compute-bound", "5.2", "they do",
                  f"{sum(before)} memory-bound layers of all SubNets become {sum(after)}", sum(after) < sum(before))
        )  # fmt: skip
    notes = ["The reading is *potential*. `fluidb explain DIR --plot` draws the roofline of a SubNet before and after."]
    return Item("sushi_fig11", "Fig. 11: roofline before and after", notes, rows, claims=claims, picture="bars")


def _shared_by_work(reading: Reading) -> float:
    """Bytes that all SubNets share for each 1,000 MACs of the mean SubNet."""
    return float(1e3 * 1e6 * SHARED_MB[reading.net] / reading.macs.mean())


def _saved_by_size(start: Reading, bandwidth: float, sizes: Sequence[float], arrays: Sequence[Array]) -> Floats:
    """Mean time saved with the common part of all SubNets resident, in %, by array and size of the buffer in MB."""
    members, savings = members_of(start.family, start.layers), []
    recipes = make_recipes(members.work.boxes, members.names, [SubGraphCut.UNIFORM], 1, 0)
    for size in sizes:
        chip = replace(start, megabytes=size, bandwidth_gb_s=bandwidth).accelerator
        shared = cut_to(recipes, capacity(chip))
        pairs = tabulate(members.work, chip, shared, start.maps, StageB.EXPOSED, arrays)
        savings.append(100 * (1 - pairs.time_s[:, :, 1] / pairs.time_s[:, :, 0]).mean(axis=1))
    return np.array(savings).T


def sushi_fig12(_: Lab) -> Item:
    """Time saved by size of the buffer, bandwidth and array."""
    arrays, bandwidths = ((12, 12), (16, 32), (20, 36)), (9.6, 19.2, 38.4)
    sizes = (0.25, 0.5, 1.0, BOARD_MB, 2.9, 5.0, SHARED_MB["ResNet-50"])
    rows, most = [], {}
    grid: dict[str, list[float]] = {"buffer": [], "bandwidth": [], "array": []}
    for start in (RESNET, MOBILENET_224):
        savings = np.stack([_saved_by_size(start, bandwidth, sizes, arrays) for bandwidth in bandwidths], axis=1)
        for by_bandwidth, (K_P, C_P) in zip(savings, arrays, strict=True):
            for values, bandwidth in zip(by_bandwidth, bandwidths, strict=True):
                name = f"{K_P} x {C_P}, {bandwidth:g} GB/s"
                rows += [
                    Row("time saved", name, start.net, "%", float(value), x=size, basis=PREDICTED)
                    for size, value in zip(sizes, values, strict=True)
                ]
        most[start.net] = float(savings.max())
        grid["buffer"].append(float(np.diff(savings, axis=2).min()))
        grid["bandwidth"].append(float(-np.diff(savings, axis=1).max()))
        grid["array"].append(float(np.diff(savings, axis=0).min()))
    claims = [
        Claim(f"{more} saves more time", "5.3.4", "it does", f"the least step is {min(grid[key]):+.2f} points",
              min(grid[key]) >= -1e-9)
        for key, more in (("buffer", "A larger persistent buffer"), ("bandwidth", "Less bandwidth"),
                          ("array", "A larger array"))
    ]  # fmt: skip
    resnet, mobilenet = most["ResNet-50"], most["MobileNet-V3"]
    shared = [_shared_by_work(reading) for reading in (MOBILENET_224, RESNET)]
    claims.append(
        Claim("MobileNet-V3 gains less than ResNet-50", "5.3.4", "less", f"at most {mobilenet:.1f} and {resnet:.1f} %",
              mobilenet < resnet,
              f"its SubNets share {shared[0]:.1f} bytes for each 1,000 MACs, and ResNet-50's share {shared[1]:.1f}; "
              "the paper gives no numbers here")
    )  # fmt: skip
    chip = _chip("sushi-zcu104")
    sized = find_subgraphs(RESNET.family, chip, SubGraphOptions(columns=30), step_kib=chip.shared_kib / 16).sizes
    best = min(sized, key=lambda size: size.time_s)
    notes = [
        "Savings are means over the SubNets. What all of them share is resident, cut to the size of the buffer.",
        (
            f"ZCU104 has {chip.shared_kib:g} KB for all buffers. The fastest split (30 SubGraphs, steps of a "
            f"sixteenth) gives {best.persistent_kib:g} KB to the persistent buffer; the paper gives it 1728 KB."
        ),
    ]
    return Item("sushi_fig12", "Fig. 12: exploration of the accelerator", notes, rows,
                "persistent buffer, MB", claims, picture="lines")  # fmt: skip


def sushi_fig13(_: Lab) -> Item:
    """The boards: time and off-chip energy with and without the buffer."""
    rows, least_s = [], {}
    over_cpu = [value for pair in PUBLISHED["fig13"].values() for ends in pair.values() for value in ends]
    least, most = min(over_cpu), max(over_cpu)
    for board, name in BOARDS.items():
        table = Reading("board", "ResNet-50", chip=name, layers=Layers.WINDOWS, maps=Maps.ONCE).subgraphs()
        printed = PUBLISHED["fig13"][board]
        ratios = [with_ / without for with_, without in zip(printed["with"], printed["without"], strict=True)]
        speedups = [row[0] / row[1] for row in table.time_s]
        rows += _ends(
            "speed-up by the buffer", "ResNet-50, 3x3 layers", board, speedups, sorted(ratios), PREDICTED, "x"
        )
        # energies have the same ratio as bytes: the energy of a byte cancels
        rows += _ends("off-chip energy saved", "ResNet-50, 3x3 layers", board, saved(table.off_chip_bytes),
                      PUBLISHED["energy"]["ResNet-50"], CALIBRATED)  # fmt: skip
        least_s[board] = min(row[1] for row in table.time_s)
    potential = Reading("potential", "MobileNet-V3", SHARED_MB["MobileNet-V3"], layers=Layers.PAPER, maps=Maps.ONCE)
    rows += _ends("off-chip energy saved", "MobileNet-V3", "potential", saved(potential.subgraphs().off_chip_bytes),
                  PUBLISHED["energy"]["MobileNet-V3"], CALIBRATED)  # fmt: skip
    claims = [
        Claim("The smallest SubNet is slower on U50 than on ZCU104", "5.4.2", "slower",
              f"{1e3 * least_s['U50']:.2f} and {1e3 * least_s['ZCU104']:.2f} ms", least_s["U50"] > least_s["ZCU104"],
              "the paper blames other users of the server's memory, which we do not model"),
        Claim("The boards are faster than a CPU", "5.4.2", f"{least:g} to {most:g} x", "not known", False,
              "the paper does not say how the CPU was programmed; we compare the ratio of the two bars instead"),
    ]  # fmt: skip
    notes = [
        (
            "We take the 3x3 convolutions of ResNet-50 with the boards' buffers, and chose these layers by the energy "
            "that is saved. A map counts when it is read, if it is larger than the streaming buffer."
        ),
        (
            "The paper's speed-up by the buffer is the ratio of its speed-ups over the CPU with and without the "
            "buffer, for the least and for the largest speed-ups."
        ),
    ]
    return Item("sushi_fig13", "Fig. 13: latency and energy on the boards", notes, rows, claims=claims, picture="dots")


def sushi_fig14(_: Lab) -> Item:
    """The comparison with a DPU, which cannot be reproduced."""
    claim = Claim("SushiAccel is faster than a DPU, layer by layer", "5.5",
                  f"{PUBLISHED['fig14']['over_dpu']:g} % on average", "not known", False, NO_DPU)  # fmt: skip
    return Item(
        "sushi_fig14",
        "Fig. 14: comparison with Xilinx's DPU",
        ["This comparison cannot be reproduced."],
        [],
        claims=[claim],
    )
