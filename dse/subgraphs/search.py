"""The search of SubGraphs, and of the size of the buffer that keeps one (SUSHI, Sections 3.2 and 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...formats import AnyPath, InputError, OwnFolder, table_text, validate
from ...formats.array_types import Floats, Ints
from ...models import Exit
from ...models.supernets import Family
from ...models.supernets.layout import subnet_file
from ...models.supernets.sharing import Extents, Slot, extents_of, slots_of, weights_in
from ...platforms import Accelerator
from ...platforms.accelerator import DPE_MACS
from ...tables.files import LATENCY_FILE, SUBGRAPHS_FILE
from ...tables.latency import LatencyTable
from ...tables.reuse import Reuse, SubNetEntry
from ...tables.subgraphs import (
    EMPTY,
    BufferChoice,
    CountedLayer,
    Layers,
    SubGraph,
    SubGraphGoal,
    SubGraphOptions,
    SubGraphTable,
    SubNetLayers,
)
from .costs import KIB, Pairs, SubNetArrays, capacity, tabulate
from .recipes import Recipes, cut_to, make_recipes

SUBGRAPHS_FOLDER = OwnFolder("SubGraphs of a SuperNet", SUBGRAPHS_FILE, {SUBGRAPHS_FILE, LATENCY_FILE})

STEP_KIB = 36.0
"""Usual step of a search of the persistent buffer: an UltraRAM."""
MAX_SIZES = 10_000
"""Most sizes of a persistent buffer that are searched."""

Array = tuple[int, int]
"""K_P and C_P."""

Mean = TypeVar("Mean", float, Floats)


class Members(NamedTuple):
    """The SubNets of a family, by the layers that count."""

    slots: list[Slot]
    names: list[str]
    extents: list[Extents]
    work: SubNetArrays


def members_of(family: Family, layers: Layers = Layers.ALL) -> Members:
    """The SubNets of a family."""
    file, path, members = family.file, family.path, family.members()
    slots = slots_of(file, path, leave_out=file.uncounted if layers is Layers.PAPER else ())
    if layers is Layers.WINDOWS:
        slots = [slot for slot in slots if slot.side == 3 and not slot.depthwise]
    if not slots:
        raise InputError(f"layers: expected layers of {file.name} that count, found none with {layers}")
    extents = [extents_of(subnet_file(file, subnet, path), slots, path) for subnet in members]
    return Members(
        slots,
        [subnet.name for subnet in members],
        extents,
        SubNetArrays(
            np.array([[each.K, each.C, each.R, each.Q] for each in extents]),
            np.array([each.inputs for each in extents]),
            np.array([each.outputs for each in extents]),
            np.array([slot.depthwise for slot in slots]),
        ),
    )


def arrays_within(accelerator: Accelerator) -> list[Array]:
    """The arrays within the DSPs that no other one contains: cycles never grow with K_P or C_P."""
    if accelerator.dsps is None:
        raise InputError(f"{accelerator.name}: a search of K_P and C_P needs dsps, which its file does not state")
    most = accelerator.dsps // DPE_MACS
    return [(K_P, most // K_P) for K_P in range(1, most + 1) if most == K_P or most // (K_P + 1) < most // K_P]


def split(accelerator: Accelerator, persistent_kib: float) -> Accelerator:
    """The same accelerator with another persistent buffer; the distinct and the streaming buffer share the rest."""
    if accelerator.shared_kib == accelerator.persistent_kib:
        raise InputError(f"{accelerator.name}: a search of the persistent buffer needs distinct_kib and streaming_kib")
    share = (accelerator.shared_kib - persistent_kib) / (accelerator.shared_kib - accelerator.persistent_kib)
    sizes = {
        "persistent_kib": persistent_kib,
        "streaming_kib": accelerator.streaming_kib * share,
        "distinct_kib": accelerator.distinct_kib * share,
    }
    return accelerator.model_copy(update=sizes)


def resize(accelerator: Accelerator, **sizes: float) -> Accelerator:
    """The same accelerator with other numbers, checked as the numbers of a file are."""
    content = accelerator.model_dump(by_alias=True) | sizes
    content["sources"] |= dict.fromkeys(sizes, "given by the user")
    return validate(Accelerator, content, Path(accelerator.name))


def find_subgraphs(
    family: Family,
    accelerator: Accelerator,
    options: SubGraphOptions | None = None,
    *,
    arrays: Sequence[Array] = (),
    step_kib: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SubGraphTable:
    """Tabulate every SubNet with every SubGraph, for the best of ``arrays`` and of the persistent buffers by step.

    Without ``arrays`` or ``step_kib`` only the accelerator's own size is evaluated.  A design is as good as its best
    SubGraph for the goal; of equal designs the faster wins, then the one with the smaller buffer, then the first.
    """
    options = options or SubGraphOptions()
    members = members_of(family, options.layers)
    recipes = make_recipes(members.work.boxes, members.names, options.cuts, options.columns, options.seed)
    arrays = list(arrays) or [(accelerator.K_P, accelerator.C_P)]
    sizes = [accelerator] if step_kib is None else _sizes(accelerator, step_kib)
    rated: list[list[BufferChoice]] = []
    for done, size in enumerate(sizes, 1):
        fitting = [pair for pair in arrays if _tile_kib(size, pair) <= size.distinct_kib]
        if fitting:
            rated.append(_rate(members.work, size, recipes, options, fitting))
        if progress:
            progress(done, len(sizes))
    if not rated:
        raise InputError(
            f"{accelerator.name}: distinct_kib: expected room for a tile of {arrays[0][0]} x {arrays[0][1]} DPEs, "
            f"{_tile_kib(accelerator, arrays[0]):.3g} KiB, found {accelerator.distinct_kib:g} KiB"
        )

    def loss(choice: BufferChoice) -> tuple[float, float]:
        return _losses(choice.time_s, choice.off_chip_bytes, choice.hit_ratio, options.goal)

    fastest = [min(row, key=loss) for row in rated]
    best = min(fastest, key=loss)
    sides = ("K_P", "C_P", "persistent_kib", "streaming_kib", "distinct_kib")
    chosen = accelerator.model_copy(update={key: getattr(best, key) for key in sides})
    listed = fastest if step_kib is not None else rated[0]
    return _table(family, chosen, options, members, recipes, listed if len(listed) > 1 else [])


def _sizes(accelerator: Accelerator, step_kib: float) -> list[Accelerator]:
    """The accelerator with every size of its persistent buffer."""
    shared_kib = accelerator.shared_kib
    if shared_kib > MAX_SIZES * step_kib:
        least = shared_kib / MAX_SIZES
        raise InputError(
            f"step_kib: expected at least {least:.3g} KiB, for {MAX_SIZES:,} sizes, found {step_kib:g} KiB"
        )
    return [split(accelerator, step_kib * number) for number in range(int(shared_kib // step_kib) + 1)]


def _tile_kib(accelerator: Accelerator, array: Array) -> float:
    """Memory of the weights that an array holds at once."""
    return DPE_MACS * array[0] * array[1] * accelerator.word_bits / 8 / KIB


def _means(pairs: Pairs) -> tuple[Floats, Floats, Floats]:
    """Time by array and SubGraph, off-chip bytes and hit ratio by SubGraph: means over the SubNets."""
    return pairs.time_s.mean(axis=1), pairs.off_chip_bytes.mean(axis=0), pairs.hit_ratio.mean(axis=0)


def _losses(time_s: Mean, moved: Mean, hits: Mean, goal: SubGraphGoal) -> tuple[Mean, Mean]:
    """The minimised value, and the time, which decides among equals."""
    return {SubGraphGoal.LATENCY: time_s, SubGraphGoal.ENERGY: moved, SubGraphGoal.HIT_RATIO: -hits}[goal], time_s


def _best(time_s: Floats, moved: Floats, hits: Floats, goal: SubGraphGoal) -> int:
    """The best SubGraph by its means on an array; the empty one only if there is no other."""
    first, second = _losses(time_s[1:], moved[1:], hits[1:], goal)
    order = np.lexsort((second, first))
    return 1 + int(order[0]) if len(order) else 0


def _rate(
    work: SubNetArrays, accelerator: Accelerator, recipes: Recipes, options: SubGraphOptions, arrays: list[Array]
) -> list[BufferChoice]:
    """The best SubGraph of one size of the buffers, for each array."""
    subgraphs = cut_to(recipes, capacity(accelerator))
    pairs = tabulate(work, accelerator, subgraphs, options.maps, options.stage_b, arrays)
    time_s, moved, hits = _means(pairs)
    rated = []
    for array, (K_P, C_P) in enumerate(arrays):
        j = _best(time_s[array], moved, hits, options.goal)
        rated.append(
            BufferChoice(
                K_P=K_P,
                C_P=C_P,
                persistent_kib=accelerator.persistent_kib,
                streaming_kib=accelerator.streaming_kib,
                distinct_kib=accelerator.distinct_kib,
                time_s=float(time_s[array, j]),
                saved=float(1 - time_s[array, j] / time_s[array, 0]),
                off_chip_bytes=float(moved[j]),
                hit_ratio=float(hits[j]),
            )
        )
    return rated


def _table(
    family: Family,
    accelerator: Accelerator,
    options: SubGraphOptions,
    members: Members,
    recipes: Recipes,
    sizes: list[BufferChoice],
) -> SubGraphTable:
    """The table of one accelerator; of equal SubGraphs the first one stays."""
    cut = cut_to(recipes, capacity(accelerator))
    distinct = {box.tobytes(): m for m, box in reversed(list(enumerate(cut))) if box.any()}
    kept = sorted(distinct.values())
    size = accelerator.word_bits / 8
    pairs = tabulate(members.work, accelerator, cut[kept], options.maps, options.stage_b)
    time_s, moved, hits = _means(pairs)
    empty = SubGraph(name=EMPTY, bytes=0.0, **_lists(np.zeros_like(members.work.boxes[0])))
    subgraphs = [
        SubGraph(
            name=f"G{number}", of=recipes.of[m], cut=recipes.cuts[m], bytes=weights_in(cut[m]) * size, **_lists(cut[m])
        )
        for number, m in enumerate(kept, 1)
    ]
    return SubGraphTable(
        supernet=family.file.name,
        accelerator=accelerator,
        options=options,
        accuracies=family.accuracies,
        layers=[CountedLayer(name=slot.name, depthwise=slot.depthwise) for slot in members.slots],
        subnets=[
            SubNetLayers(
                name=subnet.name,
                accuracy=subnet.accuracy,
                bytes=float(extents.weights.sum() * size),
                macs=int(extents.macs.sum()),
                **{key: values.tolist() for key, values in extents._asdict().items()},
            )
            for subnet, extents in zip(family.subnets, members.extents, strict=True)
        ],
        subgraphs=[empty, *subgraphs],
        time_s=pairs.time_s[0].tolist(),
        off_chip_bytes=pairs.off_chip_bytes.tolist(),
        resident_bytes=pairs.resident_bytes.tolist(),
        hit_ratio=pairs.hit_ratio.tolist(),
        refill_s=[subgraph.bytes / accelerator.bytes_per_s for subgraph in (empty, *subgraphs)],
        best=_best(time_s[0], moved, hits, options.goal),
        sizes=sizes,
    )


def _lists(box: Ints) -> dict[str, Any]:
    return dict(zip("KCR", box.tolist(), strict=True))


def latency_table(table: SubGraphTable) -> LatencyTable:
    """The latency table that policies read: a variant for each SubNet in each state."""
    latency = LatencyTable(
        network=table.supernet,
        platform=table.accelerator.name,
        exits=[Exit(name=table.layers[-1].name, rate=1.0)],
        subnets=[SubNetEntry(name=subnet.name, accuracy=subnet.accuracy) for subnet in table.subnets],
        states=[subgraph.name for subgraph in table.subgraphs],
        reuse=_reuse(table),
        b_max=1,
        stage_s=[[[row[state]]] for state in range(len(table.subgraphs)) for row in table.time_s],
    )
    return latency.derived_from(table)


def _reuse(table: SubGraphTable) -> Reuse:
    """Figures of the pairs for a scheduler, by state and SubNet."""
    subnets, states = table.vectors()
    energy_pj = table.accelerator.off_chip_pj_per_byte
    return Reuse(
        refill_s=table.refill_s,
        refill_bytes=[subgraph.bytes for subgraph in table.subgraphs],
        overlap=(states @ subnets.T).tolist(),
        content=(states**2).sum(axis=1).tolist(),
        hit_ratio=np.array(table.hit_ratio).T.tolist(),
        off_chip_bytes=np.array(table.off_chip_bytes).T.tolist(),
        joules_per_byte=None if energy_pj is None else 1e-12 * energy_pj,
    )


def write_subgraphs(table: SubGraphTable, folder: AnyPath, *, replace: bool = False) -> None:
    """Write SubGraphs and their latency table into a folder of their own, whole or not at all."""
    files = {SUBGRAPHS_FILE: table_text(table), LATENCY_FILE: table_text(latency_table(table))}
    SUBGRAPHS_FOLDER.write(folder, files, replace=replace)
