"""The latency table that schedulers read (Fluid Batching, Section III-B, Exit-Level Latency Prediction)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..formats import AnyPath, InputError, SparseRecord, Table, check_beside, check_folder, first_rows, read_table
from ..formats.array_types import Floats
from ..models import Exit
from ..models.network import thresholds_of
from ..platforms.device import MAX_BATCH, Lanes
from ..platforms.host import Host
from ..traffic.measures import Threshold
from .exit_plan import PlannedService
from .files import EXITS_FILE, LATENCY_FILE, MADE_FROM
from .hardware import BuiltNpu, Cores
from .layer_use import USES, LayerUse, Ratio, Seconds, SecondsOrNone, Segments, from_zero, scaled
from .reuse import Reuse, SubNetEntry


class LatencyTable(Table, SparseRecord):
    """The latency table as a file, ``fluidb.latency/2`` (``docs/file-formats.md``).

    Attributes
    ----------
    network, platform : str
        Names of the network, and of the board or device that runs it.
    exits : list of Exit
        In order of depth; the last is the end of the network.
    widths : list of float, optional
        Widths that the network was tabulated for, e.g. lengths of a sequence, the widest first.  A batch runs at one
        width, and serves requests up to it.
    subnets : list of SubNetEntry, optional
        Networks with shared weights; one of them serves a request.
    states : list of str, optional
        States of the device that change its times, e.g. what its persistent buffer holds; it begins in the first.
    reuse : Reuse, optional
        Weights that the states keep on chip, of those that SubNets share.
    b_max : int
        Batch sizes covered.
    layers : list of LayerUse
        Times layer by layer, with their causes, variant by variant; empty if only stages were measured.  They include
        the heads that run.
    stage_s : list of list of list of float, optional
        Times by variant, stage and b = 1..b_max, in seconds, of a table without layers.  With layers, the time of a
        stage is the sum of theirs.
    peak_macs_per_s : float, optional
        MACs a second with every unit busy; a table states both this and the causes of every layer's time, or neither.
    static_w : float, optional
        Power in watts that the hardware takes at all times, beside the energy of its layers.
    lanes : int
        Batches that may run side by side.
    load : list of float, optional
        Share of the device that a batch of b places takes, b = 0..b_max; stated if there are several lanes.  Batches
        that run side by side all take longer by the sum of their shares, if that is above 1.
    gather_s : list of list of float, optional
        Time to gather the remaining samples of a batch into a smaller one of b places, b = 0..b_max: at the input, and
        behind every exit but the last; 0 if not stated.
    wake_up_s : float, optional
        Time until a batch begins on a lane that was idle; 0 if not stated.
    host : Host, optional
        Fixed times of the host for each request; 0 if not stated.
    cores : Cores, optional
        Cores that share a memory.  Each is a lane; layers and stages have the times of every kind, one after the other,
        in place of variants.
    planned : PlannedService, optional
        Batch size and thresholds of a plan of exits, which hold where nothing else is asked for.
    measured : list of float or str, optional
        Of a calibrated engine: between which multiples of its predicted time a network takes, or ``not known``.
    measured_confidence : float, optional
        How likely it does, if that is stated.
    npus : list of BuiltNpu, optional
        The design that has the times, of each kind of cores; one if there are no cores.
    """

    schema_name: ClassVar[str] = "fluidb.latency/2"
    made_by: ClassVar[str] = "fluidb latency"

    network: str
    platform: str
    exits: Annotated[list[Exit], Field(min_length=1)]
    widths: Annotated[list[Annotated[float, Field(gt=0, le=1e9)]] | None, Field(min_length=1)] = None
    subnets: Annotated[list[SubNetEntry] | None, Field(min_length=1)] = None
    states: Annotated[list[str] | None, Field(min_length=1)] = None
    reuse: Reuse | None = None
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    layers: list[LayerUse] = []
    stage_s: list[list[list[Seconds]]] | None = None
    peak_macs_per_s: Annotated[float | None, Field(ge=1e-6, le=1e24)] = None
    static_w: Annotated[float | None, Field(ge=0, le=1e6)] = None
    lanes: Lanes = 1
    load: list[SecondsOrNone] | None = None
    gather_s: list[list[SecondsOrNone]] | None = None
    wake_up_s: SecondsOrNone | None = None
    host: Host | None = None
    cores: Cores | None = None
    planned: PlannedService | None = None
    measured: Annotated[list[Ratio], Field(min_length=2, max_length=2)] | Literal["not known"] | None = None
    measured_confidence: Annotated[float | None, Field(gt=0, lt=1)] = None
    npus: list[BuiltNpu] | None = None

    _repr_html_ = first_rows

    @model_validator(mode="after")
    def _every_stage(self) -> Self:
        if (self.stage_s is None) != bool(self.layers):
            raise ValueError("expected either layers or stage_s")
        stages = len(self.exits)
        if self.stage_s is not None:
            if [len(rows) for rows in self.stage_s] != [stages] * self.variants:
                raise ValueError(f"stage_s: expected {self.variants} variants of {stages} stages")
            if any(len(times_s) != self.b_max for rows in self.stage_s for times_s in rows):
                raise ValueError(f"stage_s: expected {self.b_max} times each, one for each batch size")
        if any(exit_.steps > 1 for exit_ in self.exits[:-1]):
            raise ValueError("exits: expected steps of the last exit only, as only the last stage repeats")
        if self.widths is not None and any(a <= b for a, b in pairwise(self.widths)):
            raise ValueError("widths: expected every width once, the widest first")
        if self.gather_s is not None and [len(row) for row in self.gather_s] != [self.b_max + 1] * len(self.exits):
            raise ValueError(
                f"gather_s: expected {len(self.exits)} rows, at the input and behind every exit but the last, of "
                f"{self.b_max + 1} times, one for each batch size from 0"
            )
        if self.measured is not None and (self.peak_macs_per_s is not None or self.stage_s is not None):
            raise ValueError("measured: expected only beside layers without causes, which an engine has")
        if self.host is not None:
            self.host.check_lanes(self.lanes)
        if self.reuse is not None:
            self.reuse.check(len(self.states or []), len(self.subnets or []))
        if self.cores is not None:
            self.cores.check(len(self.exits), self.b_max)
            if self.axes != (1, 1, 1) or self.load is not None or self.measured is not None:
                raise ValueError("cores: expected none beside widths, subnets, states, load or measured")
            if self.lanes != len(self.cores.of):
                raise ValueError("lanes: expected as many as cores")
        elif (self.load is None) != (self.lanes == 1):
            raise ValueError("load: expected if there are several lanes, and only then")
        if self.load is not None and len(self.load) != self.b_max + 1:
            raise ValueError(f"load: expected {self.b_max + 1} shares, one for each batch size from 0")
        kinds = 1 if self.cores is None else len(self.cores.names)
        if self.npus is not None and len(self.npus) != kinds:
            raise ValueError(f"npus: expected {kinds}, one for each kind of cores, found {len(self.npus)}")
        if self.planned is not None:
            self.planned.check(len(self.exits), self.b_max)
        return self

    @model_validator(mode="after")
    def _layers_and_causes(self) -> Self:
        caused = self.peak_macs_per_s is not None
        if self.layers:
            order = [(layer.variant, layer.stage) for layer in self.layers]
            stages, count = range(1, len(self.exits) + 1), len(self.layers) // self.variants
            first = [(layer.name, layer.stage, layer.role) for layer in self.layers[:count]]
            if order != sorted(order) or set(order) != {(v, s) for v in range(self.variants) for s in stages}:
                raise ValueError(f"layers: expected stages 1 to {len(self.exits)} in order, variant by variant")
            if [(layer.name, layer.stage, layer.role) for layer in self.layers] != first * self.variants:
                raise ValueError("layers: expected the same layers in every variant")
            if ("resume", 1) in {(layer.role, layer.stage) for layer in self.layers}:
                raise ValueError("layers: expected a resume behind an exit, found one in stage 1")
        elif caused:
            raise ValueError("peak_macs_per_s: expected beside layers only")
        columns = ("macs", *USES)
        if any((getattr(layer, name) is not None) != caused for layer in self.layers for name in columns):
            raise ValueError(
                f"layers: expected {', '.join(columns)} of each beside peak_macs_per_s, and not without it"
            )
        counted = {layer.energy_j is not None for layer in self.layers}
        if len(counted) > 1 or (self.static_w is not None and True not in counted):
            raise ValueError("layers: expected energy_j of each or of none, and static_w beside it only")
        for layer in self.layers:
            layer.check(self.b_max)
        return self

    def slower(self, factor: float, *, overheads: bool = False) -> LatencyTable:
        """The table if each layer or stage takes ``factor`` times as long, and with overheads gathers and waking up."""
        names = ("stage_s", "gather_s", "wake_up_s") if overheads else ("stage_s",)
        update = {name: scaled(factor, getattr(self, name)) for name in names}
        update["layers"] = [layer.model_copy(update={"time_s": scaled(factor, layer.time_s)}) for layer in self.layers]
        return self.model_copy(update={**update, "measured": None, "measured_confidence": None})

    @property
    def ends(self) -> list[float]:
        """The multiples of its times at the ends of the error of a calibrated engine; none if it has or knows none."""
        return self.measured if isinstance(self.measured, list) else []

    @property
    def unknown_error(self) -> str | None:
        """Why the error of a calibrated engine is not known, if it is not."""
        few = "its constants were fitted, and the other networks that were measured are too few, or differ too much"
        return f"not known: {few}" if self.measured == "not known" else None

    @property
    def thresholds(self) -> tuple[str, Sequence[Threshold]] | None:
        """Measure and thresholds by which samples leave: of its plan of exits, else of its network, if one has any."""
        plan = self.planned
        return thresholds_of(self.exits) if plan is None else (plan.measure, plan.thresholds)

    @property
    def axes(self) -> tuple[int, int, int]:
        """Numbers of states, SubNets and widths: 1 each if the table states none."""
        return len(self.states or [None]), len(self.subnets or [None]), len(self.widths or [None])

    @property
    def variants(self) -> int:
        """Forms in which a batch can run: every state with every SubNet and every width, in the order of :attr:`axes`.

        Cores have one for each kind of core.
        The width varies first: variant v has the places ``np.unravel_index(v, axes)``.  A policy that
        chooses no variant runs the first: the widest, the first SubNet, the first state.
        """
        return math.prod(self.axes) * (1 if self.cores is None else len(self.cores.names))

    @property
    def places(self) -> int:
        """Places where a sample may leave: the exits; the last counts once for each of its steps."""
        return len(self.exits) - 1 + self.exits[-1].steps

    @property
    def speedup(self) -> float:
        """Largest throughput with batches on several lanes, relative to one batch at a time; of cores a bound."""
        return max(side_by_side / self.slowdown(side_by_side) for side_by_side in range(1, self.lanes + 1))

    def slowdown(self, side_by_side: int) -> float:
        """Least factor by which each of several batches takes longer, at the batch size that loads least."""
        if self.load is None or side_by_side == 1:  # cores have no load: they may wait for words, or not
            return 1.0
        return max(1.0, side_by_side * min(self.load[1:]))

    @property
    def machine(self) -> str:
        """The kind of hardware in one word, as it is printed."""
        return "device" if self.peak_macs_per_s is None else "NPU"

    def array(self, variant: int = 0) -> Floats:
        """Times in seconds by (from exit, to exit, b), of a variant; a last stage that repeats runs once.

        Parameters
        ----------
        variant : int
            Its number, counted from 0.

        Returns
        -------
        (E + 1, E + 1, b_max + 1) ndarray of float64
            Zero where nothing runs: at b = 0, and from an exit to itself or back.
        """
        times_s: Floats = self.arrays()[variant]
        return times_s

    def arrays(self) -> Floats:
        """The times of :meth:`array` of every variant.

        Returns
        -------
        (V, E + 1, E + 1, b_max + 1) ndarray of float64
            By variant.
        """
        stage_s, ends = self.stage_array(), len(self.exits) + 1
        table = np.zeros((self.variants, ends, ends, self.b_max + 1))
        for i, j in combinations(range(ends), 2):
            table[:, i, j] = stage_s[:, i:j].sum(axis=1)
        return table

    def columns(self) -> dict[str, NDArray[Any]]:
        """Time from each exit (0 is the input) to each later one, by variant and batch size, as columns."""
        times = self.arrays()
        variant, begin, end, batch = np.indices(times.shape).reshape(4, -1)
        runs = (begin < end) & (batch > 0)
        columns = {"variant": variant, "from_exit": begin, "to_exit": end, "batch": batch, "time_s": times.ravel()}
        return {name: column[runs] for name, column in columns.items() if name != "variant" or self.variants > 1}

    def stage_array(self) -> Floats:
        """Times of the stages in seconds; each from exit to exit, with the heads that run.

        Returns
        -------
        (V, E, b_max + 1) ndarray of float64
            By variant, stage and batch size; zero at b = 0.
        """
        if self.stage_s is not None:
            return from_zero(np.array(self.stage_s))
        return self._sum_by_stage(self._by_layer([layer.time_s for layer in self.layers]))

    def _by_layer(self, column: list[list[float]]) -> Floats:
        """A column of the layers. Shapes: returns (V, L, b_max + 1)."""
        return from_zero(np.array(column).reshape(self.variants, -1, self.b_max))

    def _sum_by_stage(self, times_s: Floats) -> Floats:
        """Sums of the layers of each stage. Shapes: ``times_s`` (V, L, b_max + 1), returns (V, E, b_max + 1)."""
        stage = np.array([layer.stage for layer in self.layers[: times_s.shape[1]]])
        numbers = range(1, len(self.exits) + 1)
        return np.stack([times_s[:, stage == number].sum(axis=1) for number in numbers], axis=1)

    def pass_s(self) -> Floats:
        """Times in seconds from the input to the end, with all steps of a stage that repeats.

        Returns
        -------
        (V, b_max + 1) ndarray of float64
            By variant and batch size; zero at b = 0.
        """
        stage_s = self.stage_array()
        whole_s: Floats = stage_s.sum(axis=1) + (self.exits[-1].steps - 1) * stage_s[:, -1]
        return whole_s

    def gather_array(self) -> Floats:
        """Times in seconds to gather samples, by (place, b).

        Returns
        -------
        (P + 1, b_max + 1) ndarray of float64
            Zero where the table states none, and at the end.
        """
        table, last = np.zeros((self.places + 1, self.b_max + 1)), len(self.exits)
        if self.gather_s is not None:
            table[:last], table[last:-1] = self.gather_s, self.gather_s[-1]
        return table

    def segments(self, *, by_layer: bool) -> Segments:
        """The segments that a scheduler runs at a time.

        Parameters
        ----------
        by_layer : bool
            Whether segments are layers, if the table has their times; else they are stages, from exit to exit.

        Returns
        -------
        Segments
            Their times, the causes, and energies.
        """
        by_layer = by_layer and bool(self.layers)
        times_s = self._by_layer([layer.time_s for layer in self.layers]) if by_layer else self.stage_array()
        uses: list[Floats] = []
        if self.peak_macs_per_s is not None:
            macs = np.array([layer.macs for layer in self.layers], dtype=np.float64)
            uses = [np.outer(macs, np.arange(self.b_max + 1)).reshape(self.variants, -1, self.b_max + 1)]
            uses[0] /= self.peak_macs_per_s
            uses += [self._by_layer([getattr(layer, name) for layer in self.layers]) for name in USES]
            if not by_layer:
                uses = [self._sum_by_stage(use) for use in uses]
        energy_j = None
        if self.layers and self.layers[0].energy_j is not None:
            energy_j = self._by_layer([layer.energy_j or [] for layer in self.layers])
            energy_j = energy_j if by_layer else self._sum_by_stage(energy_j)
        numbers = range(1, len(self.exits) + 1)
        stage = [layer.stage for layer in self.layers[: times_s.shape[1]]] if by_layer else numbers
        return Segments(np.array(stage, dtype=np.int64), times_s, *uses)._replace(energy_j=energy_j)


_MAKERS = "`fluidb latency`, or of this machine with `fluidb measure`"


def _way_to_a_table(name: str) -> str:
    """How a latency table is made, for a fault: of a network or a platform that ships, by its name."""
    from ..models import NETWORKS
    from ..platforms import PLATFORMS

    if name in NETWORKS.names():
        return f"{name} is a network: run `fluidb dse {name} BOARD -o DIR`, then `fluidb latency DIR`"
    if name in PLATFORMS.names():
        return f"{name} is a platform: run `fluidb dse` or `fluidb latency` with a network and {name}"
    return f"make one with {_MAKERS}"


def read_latency(folder: AnyPath) -> LatencyTable:
    """Read the latency table of a folder, of a design or of a device.

    Parameters
    ----------
    folder : str or Path
        The folder of a design or of a device.

    Returns
    -------
    LatencyTable
        The table.

    Raises
    ------
    InputError
        If it is missing or damaged, or if a table in the folder that it was made from has changed.
    """
    check_folder(folder, "a folder with a latency table", _way_to_a_table(os.fspath(folder)))
    path = Path(folder, LATENCY_FILE)
    if not path.exists():
        raise InputError(f"{path}: not there; make it with {_MAKERS}")
    table = read_table(LatencyTable, path)
    check_beside(table, path, MADE_FROM)
    if table.planned is None and Path(folder, EXITS_FILE).exists():
        raise InputError(f"{path}: does not say how to serve the plan beside it; make both again with `fluidb exits`")
    return table
