"""EdgeSP's four networks, its blocks, shares and speed-ups in plain loops, written from EdgeSP alone."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import floor
from typing import Any

GHZ = (1.5, 1.5, 1.0, 1.0, 0.8, 0.8)
"""Table 1, in its order."""
RATES = {
    "A": [2.8e9 * ghz * (1 if n < 2 else 3) for n, ghz in enumerate(GHZ)],
    "B": [2.4e9 * ghz for ghz in GHZ],
}
"""Operations a second of both presets."""
BYTES_S = 100e6 / 8
ZETA = 0.1
LEAVE = (0.4, 0.4, 0.2)

Layer = dict[str, Any]
Unit = tuple[list[Layer], ...]
"""Layers that are never cut apart: a chain, or two of which the ends are added; an empty one passes the map on."""


class Net:
    """Units one behind the other; maps are squares, as (side, channels)."""

    def __init__(self, side: int, classes: int) -> None:
        self.shape, self.classes, self.tail = (side, 3), classes, 0
        self.units: list[Unit] = []

    def layer(self, source: tuple[int, int], kernel: int, stride: int, pad: int, out: int = 0) -> Layer:
        """A convolution with ``out`` channels, or a pool; with the operations of a row (Equation 2)."""
        side, channels = source
        height = (side + 2 * pad - kernel) // stride + 1
        taps = kernel * kernel * channels
        row = 2 * height * (taps + 1) * out if out else height * channels * kernel * kernel
        return {"in": source, "k": kernel, "s": stride, "p": pad, "out": (height, out or channels), "row": row,
                "conv": bool(out)}  # fmt: skip

    def unit(self, *paths: list[Layer]) -> None:
        self.units.append(paths)
        self.shape = paths[0][-1]["out"]

    def one(self, *window: int) -> None:
        self.unit([self.layer(self.shape, *window)])

    def bottleneck(self, width: int, stride: int, project: bool) -> None:
        a = self.layer(self.shape, 1, 1, 0, width)
        b = self.layer(a["out"], 3, stride, 1, width)
        c = self.layer(b["out"], 1, 1, 0, 4 * width)
        side = [self.layer(self.shape, 1, stride, 0, 4 * width)] if project else []
        self.unit([a, b, c], side)


def alexnet() -> Net:
    net = Net(32, 10)
    for out, pool in ((64, 1), (192, 1), (384, 0), (256, 0), (256, 1)):
        net.one(3, 1, 1, out)
        if pool:
            net.one(2, 2, 0)
    net.tail = 2 * (4 * 4 * 256 + 1) * 10
    return net


def resnet(deep: int, side: int, classes: int) -> Net:
    net = Net(side, classes)
    if side == 224:
        net.one(7, 2, 3, 64)
        net.one(3, 2, 1)
    else:
        net.one(3, 1, 1, 64)
    for group, count in enumerate((3, 4, deep, 3)):
        for number in range(count):
            net.bottleneck(64 << group, 2 if group and not number else 1, not number)
    net.tail = net.shape[0] ** 2 * 2048 + 2 * 2049 * classes
    return net


def networks() -> list[Net]:
    """Networks of Fig. 5; the paper does not say on which images ResNet-50 runs."""
    return [alexnet(), resnet(6, 32, 10), resnet(6, 224, 1000), resnet(23, 224, 1000)]


def work(unit: Unit) -> int:
    return sum(layer["row"] * layer["out"][0] for path in unit for layer in path if layer["conv"])


def exits(net: Net) -> tuple[int, int]:
    """Units after which the exits are: nearest to 1/2 and 3/4 of the convolutions' operations."""
    done = [sum(map(work, net.units[: n + 1])) for n in range(len(net.units))]
    first = min(range(len(done) - 2), key=lambda n: abs(done[n] / done[-1] - 0.5))
    return first + 1, min(range(first + 1, len(done) - 1), key=lambda n: abs(done[n] / done[-1] - 0.75)) + 1


def rows_of(units: list[Unit], first: int, end: int) -> tuple[int, int, int]:
    """Rows of the input that output rows need, and the operations to compute them."""
    flops = 0
    for unit in reversed(units):
        needs = []
        for path in unit:
            low, high = first, end
            for layer in reversed(path):
                flops += layer["row"] * (high - low)
                low = max(0, low * layer["s"] - layer["p"])
                high = min(layer["in"][0], (high - 1) * layer["s"] - layer["p"] + layer["k"])
            needs.append((low, high))
        first, end = min(low for low, _ in needs), max(high for _, high in needs)
    return first, end, flops


class Cluster:
    """Devices with their operations per second, and the bytes that they send.

    With ``own_image``, the owner of the image, the first device, sends no rows of it to itself.  With ``own_share``,
    each device already holds the same share of a block's input, the image included, as of its output, so that only the
    overlap is sent.
    """

    def __init__(self, rates: list[float], reading: str, *, own_image: bool = False, own_share: bool = False) -> None:
        self.rates, self.reading, self.own_image, self.own_share = rates, reading, own_image, own_share
        self.known: dict[Any, list[int]] = {}

    def times(self, units: list[Unit], cuts: list[int], held: list[int] | None) -> list[float]:
        """Time of each device for the rows between its cuts; ``held`` are the bounds of the input's rows.

        Without ``held`` the owner of the image sends every row.
        """
        (side, channels), height = units[0][0][0]["in"], units[-1][0][-1]["out"][0]
        found = []
        for k, (first, end) in enumerate(pairwise(cuts)):
            if first == end:
                found.append(0.0)
                continue
            low, high, flops = rows_of(units, first, end)
            sent = float(high - low)
            if self.reading == "halo":
                mine: list[Any] = [cut * side / height for cut in (first, end)] if self.own_share else []
                mine = mine or (held[k : k + 2] if held else [0, 0])
                sent -= max(0, min(high, mine[1]) - max(low, mine[0]))
            if self.own_image and k == 0 and not held:
                sent = 0.0
            found.append(flops / self.rates[k] + (4 * sent * side * channels / BYTES_S if len(self.rates) > 1 else 0))
        return found

    def shares(self, units: list[Unit], key: tuple[str, int, int]) -> list[int]:
        """Algorithm 1, corrected."""
        if key in self.known:
            return self.known[key]
        (side, _), height = units[0][0][0]["in"], units[-1][0][-1]["out"][0]
        exact = [height * rate / sum(self.rates) for rate in self.rates]
        width = [floor(part) for part in exact]
        for k in sorted(range(len(width)), key=lambda k: width[k] - exact[k])[: height - sum(width)]:
            width[k] += 1
        seen: set[tuple[int, ...]] = set()
        best: tuple[float, list[int]] | None = None
        while tuple(width) not in seen:
            seen.add(tuple(width))
            cuts = [0, *accumulate(width)]
            times = self.times(units, cuts, None if key[:2] == ("trunk", 0) else [cut * side // height for cut in cuts])
            if best is None or max(times) < best[0]:
                best = max(times), cuts
            active = [t for t, rows in zip(times, width, strict=True) if rows]
            mean = sum(active) / len(active)
            if all(abs(mean - t) <= ZETA * mean for t in active):
                break
            width[times.index(max(times))] -= 1
            width[times.index(min(times))] += 1
        assert best is not None
        self.known[key] = best[1]
        return best[1]

    def run(self, chain: str, units: list[Unit], first: int, end: int, held: Any) -> tuple[float, Any]:
        """Time of the blocks by the rule ``marginal``, and the shares of the last one."""

        def block(first: int, end: int, held: Any) -> tuple[float, list[int]]:
            cuts = self.shares(units[first:end], (chain, first, end))
            return max(self.times(units[first:end], cuts, held)), cuts

        total = 0.0
        while first < end:
            last = first + 1
            while last < end:
                time_s, cuts = block(first, last, held)
                if block(first, last + 1, held)[0] > time_s + block(last, last + 1, cuts)[0]:
                    break
                last += 1
            time_s, held = block(first, last, held)
            total, first = total + time_s, last
        return total, held

    def whole(self, shape: tuple[int, int], cuts: list[int], flops: int, host: int) -> float:
        """Gather a map on the host, and compute there."""
        rows = shape[0] - cuts[host + 1] + cuts[host]
        return 4 * rows * shape[0] * shape[1] / BYTES_S + flops / self.rates[host]

    def average(self, net: Net, *, strongest: bool = False) -> float:
        """Average time over the exits, with the fastest host; EdgeSP has the strongest device."""
        hosts = [self.rates.index(max(self.rates))] if strongest else range(len(self.rates))
        return min(self.average_on(net, host) for host in hosts)

    def average_on(self, net: Net, host: int) -> float:
        """Average time over the exits with this host."""
        self.known.clear()
        total, average, held, first = 0.0, 0.0, None, 0
        for number, (end, rate) in enumerate(zip((*exits(net), len(net.units)), LEAVE, strict=True)):
            time_s, held = self.run("trunk", net.units, first, end, held)
            total, first = total + time_s, end
            shape, flops, inside = net.shape, net.tail, held
            if number < 2:
                conv = net.layer(net.units[end - 1][0][-1]["out"], 3, 2, 1, 32)
                time_s, inside = self.run(f"branch {number}", [([conv],)], 0, 1, held)
                shape, flops = conv["out"], 2 * (conv["out"][0] ** 2 * 32 + 1) * net.classes
                total += time_s
            total += self.whole(shape, inside, flops, host)
            average += rate * total
        return average


def speedups(rates: list[float], reading: str, *, own_image: bool = False, own_share: bool = False) -> list[float]:
    """Speed-up of the devices over the first one, by network."""
    alone, every = (Cluster(some, reading, own_image=own_image, own_share=own_share) for some in (rates[:1], rates))
    return [alone.average(net) / every.average(net) for net in networks()]
