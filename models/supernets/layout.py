"""From a SubNet to an ordinary network: the layers of each part, in execution order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...formats import validate
from ..schema import NetworkFile
from .schema import FixedPart, StageBlocks, SubNet, SuperNetFile
from .space import full

Op = dict[str, Any]


def divisible(value: float, divisor: int) -> int:
    """The multiple of the divisor nearest to a number of channels, at least nine tenths of it (``make_divisible``).

    It is for channels that a ratio gives; a number that the file states stays as it is.
    """
    near = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near


def subnet_file(file: SuperNetFile, subnet: SubNet, path: Path) -> NetworkFile:
    """The network of a SubNet, in which layers that two SubNets share have the same name; ``path`` is for faults."""
    asked = full(file, subnet, path)
    values = {key: iter(getattr(asked, key)) for key in ("d", "e", "k", "w")}
    layers: list[Op] = []
    channels = file.input.channels
    for part in file.parts:
        out = part.out
        if out is not None and part.width:
            out = divisible(out * next(values["w"]), file.divisor)
        if isinstance(part, FixedPart):
            layers.append(_fixed(part, out))
            channels = out or channels
            continue
        blocks = max(0, part.base + (next(values["d"]) if len(part.depth) > 1 else part.depth[0]))
        for slot in range(part.slots):
            expand = next(values["e"]) if len(part.expand) > 1 else part.expand[0]
            kernel = next(values["k"]) if len(part.kernel) > 1 else part.kernel[0]
            if slot < blocks:
                before = layers[-1]["name"] if layers else "input"
                made = _Block(part, slot, channels, out or channels, expand, kernel, file.divisor)
                layers += made.layers(before)
                channels = made.out
    side = {"height": asked.r, "width": asked.r} if asked.r is not None else {}
    content = {
        "schema": "fluidb.network/1",
        "name": f"{file.name}:{subnet.name}",
        "title": f"{file.title}, SubNet {subnet.name}",
        "input": {**file.input.model_dump(), **side},
        "layers": layers,
        "sources": {key: text for key, text in file.sources.items() if key != "accuracies"},
    }
    return validate(NetworkFile, content, path)


def _fixed(part: FixedPart, out: int | None) -> Op:
    if part.part == "globalavgpool":
        return {"name": part.name, "op": part.part}
    if part.part == "linear":
        return {"name": part.name, "op": part.part, "out": out}
    window = {"kernel": part.kernel, "stride": part.stride, "pad": part.kernel // 2}
    return {"name": part.name, "op": part.part, **window} | ({} if out is None else {"out": out})


class _Block:
    """One block of a stage."""

    def __init__(
        self, stage: StageBlocks, slot: int, channels: int, out: int, expand: float, kernel: int, divisor: int
    ) -> None:
        self.stage, self.channels, self.out, self.kernel, self.divisor = stage, channels, out, kernel, divisor
        self.name = f"{stage.name}.{slot}"
        self.first, self.stride = slot == 0, stage.stride if slot == 0 else 1
        # a bottleneck counts its middle channels from its output, an inverted block from its input
        whole = out if stage.block == "bottleneck" else channels
        self.middle = whole if expand == 1 else divisible(round(whole * expand), divisor)

    def layers(self, before: str) -> Sequence[Op]:
        """Its layers, which read the layer ``before``."""
        return list(getattr(self, f"_{self.stage.block}")(before))

    def _conv(self, name: str, out: int, kernel: int = 1, stride: int = 1, **more: Any) -> Op:
        shape = {"out": out, "kernel": kernel, "stride": stride, "pad": kernel // 2}
        return {"name": f"{self.name}.{name}", "op": "conv", **shape, **more}

    def _add(self, last: str, before: str) -> Op:
        return {"name": self.name, "op": "add", "from": [f"{self.name}.{last}", before]}

    def _residual(self, before: str) -> Iterator[Op]:
        yield self._conv("conv", self.out, self.kernel, self.stride)
        if self.stride == 1 and self.out == self.channels:
            yield self._add("conv", before)

    def _bottleneck(self, before: str) -> Iterator[Op]:
        shortcut = before
        if self.first:
            if self.stride > 1:
                window = {"kernel": self.stride, "stride": self.stride, "ceil": True}
                yield {"name": f"{self.name}.pool", "op": "avgpool", "from": before, **window}
            shortcut = f"{self.name}.shortcut"
            yield self._conv("shortcut", self.out) | ({} if self.stride > 1 else {"from": before})
        yield self._conv("conv1", self.middle) | {"from": before}
        yield self._conv("conv2", self.middle, self.kernel, self.stride)
        yield self._conv("conv3", self.out)
        yield self._add("conv3", shortcut)

    def _inverted(self, before: str) -> Iterator[Op]:
        if self.stage.expand != [1.0]:
            yield self._conv("expand", self.middle)
        yield self._conv("depthwise", self.middle, self.kernel, self.stride, groups=self.middle)
        if self.stage.se:
            yield {"name": f"{self.name}.se.pool", "op": "globalavgpool"}
            yield {"name": f"{self.name}.se.fc1", "op": "linear", "out": divisible(self.middle // 4, self.divisor)}
            yield {"name": f"{self.name}.se.fc2", "op": "linear", "out": self.middle}
            gate = [f"{self.name}.depthwise", f"{self.name}.se.fc2"]
            yield {"name": f"{self.name}.se.scale", "op": "memory", "from": gate, "rowwise": True}
        yield self._conv("project", self.out)
        if self.stride == 1 and self.out == self.channels:
            yield self._add("project", before)
