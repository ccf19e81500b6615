"""The form of a device that is an engine of known shape: pixels by input channels by output channels in a cycle."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .device import MAX_BATCH, Device, Seconds

MOST = 4096
"""Pixels or channels side by side, at most."""

Side = Annotated[int, Field(ge=1, le=MOST)]
Amount = Annotated[float, Field(ge=1e-6, le=1e6)]
Ratio = Annotated[float, Field(ge=1e-3, le=1e3)]

WINOGRAD = 2.25
"""Products of a 3x3 window for each of Winograd's form: 36 for 16 (F(2x2, 3x3); Lavin and Gray, CVPR 2016)."""

WINOGRAD_WEIGHTS = 16 / 9
"""Weights of that form for each of the window."""


class Engine(Device):
    """An engine that works on one layer after the other, and on one sample after the other (``docs/your-own.md``).

    Attributes
    ----------
    pixels, input_channels, output_channels : int
        Output pixels, input channels and output channels that a cycle multiplies and accumulates side by side.
    pixel_tiles : str
        Pixels side by side lie in one ``line`` of the map or anywhere in the ``map``, so that the last tile of each has
        empty places; or they ``stream``: no place is empty, not even in a layer with one output pixel.
    inner_tiles : str
        Input channels side by side belong to one ``position`` of the window; or, where a position has fewer of them,
        to one ``line`` of it, or to the whole ``window``.
    fill_cycles : int
        Cycles that are lost whenever the array begins a tile of what stays in it: of outputs, or of weights if it takes
        one pixel at a time.
    depthwise_pixels, depthwise_channels : int, optional
        Pixels and channels of a cycle of a unit for depthwise layers; without one they run as other groups do.
    winograd : bool
        Whether 3x3 windows of stride 1 run in Winograd's form, whose weights are more.
    windows_extended : bool
        Whether the weights of a window with a stride are stored for a whole multiple of it, e.g. 7x7 with stride 2
        as 8x8.
    additions_fused, pools_fused : bool
        Whether a residual addition, or a pool, is part of the layer that makes its last input; else it is a layer.
    linear_over_pixels : bool
        Whether outputs of a fully connected layer, whose map is one pixel, also take the places of other pixels.
    added_per_cycle, pooled_per_cycle : float, optional
        Words that an addition, or a layer without products of another kind, reads and writes in a cycle; without it
        only their transfers take time.
    maps_on_chip_kib, weights_on_chip_kib : float, optional
        Maps of a layer, and weights of a network from its first layer on, that stay on the chip, in KiB: what does not
        fit moves.
    linear_batch : int
        Samples of a batch for which the weights of a fully connected layer are read once.
    clock_mhz : float
        Clock of the engine.
    macs_per_dsp : int
        Multiply-accumulates that a DSP does in a cycle of that clock: more where its own is a multiple.
    word_bits : int
        Width of activations and weights.
    bandwidth_gb_s : float
        Peak off-chip bandwidth in 1e9 bytes per second.
    effective_gb_s : float, optional
        Bandwidth that the engine gets; the peak if not stated.  It and the next four are what
        ``fluidb calibrate`` fits.
    effective_mhz : float, optional
        Clock with which the engine would compute as fast without pauses; its clock if not stated.
    not_hidden : float
        Share of the shorter of a layer's computing and moving that does not overlap with the longer.
    layer_s, inference_s : float
        Fixed times of a layer and of an inference, in seconds.
    contention : float, optional
        With several such engines on one memory, the share of each one's transfers that waits for another engine's
        transfers at that time; if not stated, the share of the peak that one engine gets.
    measured_low, measured_high, measured_confidence : float, optional
        Between which multiples of its predicted time a network takes, and how likely it does: what ``fluidb
        calibrate`` found in networks that were not fitted.
    measured_error : str, optional
        Stated as ``not known`` by ``fluidb calibrate`` in place of these if there were too few networks.
    """

    form: ClassVar[str] = "engine"
    kind: ClassVar[str] = "engine"
    listed_as: ClassVar[str] = "engines"
    headers: ClassVar[tuple[str, ...]] = ("engine", "MACs a cycle", "DSPs", "bits", "MHz", "GB/s", "")
    schema_: Literal["fluidb.engine/1"] = Field("fluidb.engine/1", alias="schema")  # type: ignore[assignment]  # a kind of its own
    no_numbers: ClassVar[set[str]] = Device.no_numbers | {"b_max"}

    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 8
    pixels: Side
    input_channels: Side
    output_channels: Side
    pixel_tiles: Literal["line", "map", "stream"] = "map"
    inner_tiles: Literal["position", "line", "window"] = "window"
    fill_cycles: Annotated[int, Field(ge=0, le=10**6)] = 0
    depthwise_pixels: Side | None = None
    depthwise_channels: Side | None = None
    winograd: bool = False
    windows_extended: bool = False
    additions_fused: bool = True
    pools_fused: bool = False
    linear_over_pixels: bool = False
    added_per_cycle: Amount | None = None
    pooled_per_cycle: Amount | None = None
    maps_on_chip_kib: Amount | None = None
    weights_on_chip_kib: Amount | None = None
    linear_batch: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 1
    clock_mhz: Amount
    macs_per_dsp: Annotated[int, Field(ge=1, le=64)] = 1
    word_bits: Annotated[int, Field(ge=1, le=64)]
    bandwidth_gb_s: Amount
    effective_gb_s: Amount | None = None
    effective_mhz: Amount | None = None
    not_hidden: Annotated[float, Field(ge=0, le=1)] = 0.0
    layer_s: Seconds = 0.0
    inference_s: Seconds = 0.0
    contention: Annotated[float | None, Field(ge=0, le=1)] = None
    measured_low: Ratio | None = None
    measured_high: Ratio | None = None
    measured_confidence: Annotated[float | None, Field(gt=0, lt=1)] = None
    measured_error: Literal["not known"] | None = None
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        for pair in (("depthwise_pixels", "depthwise_channels"), ("measured_low", "measured_high")):
            low, high = (getattr(self, key) for key in pair)
            if (low is None) != (high is None):
                raise ValueError(f"{', '.join(pair)}: expected both or neither")
        if self.effective_gb_s is not None and self.effective_gb_s > self.bandwidth_gb_s:
            raise ValueError(
                f"effective_gb_s: expected at most bandwidth_gb_s, {self.bandwidth_gb_s:g}, "
                f"found {self.effective_gb_s:g}"
            )
        if self.effective_mhz is not None and self.effective_mhz > self.clock_mhz:
            raise ValueError(
                f"effective_mhz: expected at most clock_mhz, {self.clock_mhz:g}, found {self.effective_mhz:g}"
            )
        if self.measured_low is not None and self.measured_high is not None and self.measured_low > self.measured_high:
            raise ValueError("measured_low: expected at most measured_high, found more")
        if self.measured_low is None and self.measured_confidence is not None:
            raise ValueError("measured_confidence: expected beside measured_low and measured_high only")
        if self.measured_low is not None and self.measured_error is not None:
            raise ValueError("measured_error: expected none beside measured_low and measured_high")
        return self

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of a cycle in which every unit is busy."""
        return self.pixels * self.input_channels * self.output_channels

    @property
    def clock_hz(self) -> float:
        """Cycles per second."""
        return self.clock_mhz * 1e6

    @property
    def cycles_per_s(self) -> float:
        """Cycles of computing in a second."""
        return 1e6 * (self.effective_mhz or self.clock_mhz)

    @property
    def bytes_per_s(self) -> float:
        """Bytes moved off chip in a second."""
        return 1e9 * (self.effective_gb_s or self.bandwidth_gb_s)

    @property
    def share_of_memory(self) -> float:
        """Share of its transfers that waits for another engine's transfers at that time."""
        return self.bytes_per_s / (1e9 * self.bandwidth_gb_s) if self.contention is None else self.contention

    @property
    def measured(self) -> list[float] | Literal["not known"] | None:
        """Between which multiples of its predicted time a network takes, if the engine was calibrated."""
        if self.measured_low is None or self.measured_high is None:
            return self.measured_error
        return [self.measured_low, self.measured_high]

    def with_error(self, error: tuple[float, float, float] | None) -> Self:
        """The engine with the ends of its error and their confidence, or with an error that is not known."""
        low, high, confidence = error or (None, None, None)
        keys = {"measured_low": low, "measured_high": high, "measured_confidence": confidence}
        return self.model_copy(update={**keys, "measured_error": None if error else "not known"})

    @property
    def shape(self) -> str:
        """Its multiply-accumulates of a cycle as text."""
        return f"{self.pixels} x {self.input_channels} x {self.output_channels}"

    @property
    def dsps(self) -> int:
        """DSPs that its multiply-accumulates take."""
        return -(-self.macs_per_cycle // self.macs_per_dsp)

    @property
    def row(self) -> tuple[str, ...]:
        """Its main facts as text."""
        numbers = f"{self.dsps:,}", str(self.word_bits), f"{self.clock_mhz:g}", f"{self.bandwidth_gb_s:g}"
        return self.name, self.shape, *numbers, self.title

    @property
    def summary(self) -> str:
        """Its main facts in a line."""
        size = f"{self.shape} MACs a cycle in {self.dsps:,} DSPs, {self.word_bits} bits"
        return f"{self.form}, {size}, {self.clock_mhz:g} MHz, {self.bandwidth_gb_s:g} GB/s"
