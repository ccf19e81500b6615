"""Fig. 5: the average latency over the number of devices, beside the baselines."""

from __future__ import annotations

import numpy as np

from ...dse.partition.baselines import run_in_turn
from ...tables.partition import FusionRule
from ..lab import Lab
from ..rows import ASSUMED, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .cluster import (
    ALL,
    CLOUD_GFLOP_S,
    EDGE_GFLOP_S,
    FITTED,
    NETWORKS,
    PRESETS,
    WAN_MBIT_S,
    cluster,
    network,
    over_devices,
    places,
)

SERVED = ("Edgent", "triple partition", "Edgent, free")
"""Curves that depend on a server."""


def edgesp_fig5(_: Lab) -> Item:
    """EdgeSP, MoDNN, Edgent and the triple partition over one to ten devices."""
    rows: list[Row] = []
    times: dict[tuple[str, str, str], list[float]] = {}
    for preset in PRESETS:
        for title, name in NETWORKS.items():
            at, curves = f"{preset}: {title}", _curves(name, preset)
            times |= {(preset, title, of): curve for of, curve in curves.items()}
            for of, curve in curves.items():
                basis = ASSUMED if of in SERVED else FITTED[preset] or PREDICTED
                places = ALL if len(curve) > 1 else (ALL[0], ALL[-1])
                values = curve if len(curve) > 1 else curve * 2
                rows += [
                    Row("average latency", of, at, "ms", 1e3 * t, x=float(n), basis=basis)
                    for n, t in zip(places, values, strict=True)
                ]
    free = "An Edgent that may send the input to its server at once is faster than everything else here"
    notes = [
        f"{free} ({_free(times)}). The curve shows an Edgent whose first stage stays on the end device.",
        (
            "The average is over the exits, which 40, 40 and 20 % of the samples take. MoDNN runs every layer on "
            "its own, without exits."
        ),
        "The curves of the paper have no numbers. Preset B was chosen by their flat end.",
        (
            f"We assume an edge server of {EDGE_GFLOP_S:g} GFLOP/s, a cloud of {CLOUD_GFLOP_S:,g} GFLOP/s, and "
            f"{WAN_MBIT_S:g} Mb/s to both."
        ),
    ]
    title = "Fig. 5: latency over the number of devices"
    return Item("edgesp_fig5", title, notes, rows, "devices", _claims(times), picture="cells")


def _curves(name: str, preset: str) -> dict[str, list[float]]:
    """Average times in seconds: by number of devices, or one where that does not matter."""
    cut, owner = network(name), cluster(preset).owner
    device, edge, cloud = places(preset)
    rates = [row.rate for row in cut.exits]
    return {
        "EdgeSP": [study.every.average_s for study in over_devices(name, preset)],
        "MoDNN": [study.every.average_s for study in over_devices(name, preset, FusionRule.LAYERWISE, exits=False)],
        "Edgent": [float(np.dot(rates, run_in_turn(cut, (device, edge, edge), owner)))],
        "triple partition": [float(np.dot(rates, run_in_turn(cut, (device, edge, cloud), owner)))],
        "Edgent, free": [float(np.dot(rates, run_in_turn(cut, (edge, edge, edge), owner)))],
    }


def _free(times: dict[tuple[str, str, str], list[float]]) -> str:
    """Times of an Edgent that sends the input, beside six devices of preset A."""
    parts = [
        f"{title}: {1e3 * times['A', title, 'Edgent, free'][0]:.0f} ms, where six devices of preset A take "
        f"{1e3 * times['A', title, 'EdgeSP'][5]:.0f} ms"
        for title in NETWORKS
    ]
    return "; ".join(parts)


def _speedups(times: dict[tuple[str, str, str], list[float]], preset: str, of: str) -> dict[str, list[float]]:
    curves = {title: times[preset, title, of] for title in NETWORKS}
    return {title: [curve[0] / t for t in curve] for title, curve in curves.items()}


def _plain_speedup(name: str, preset: str, count: int) -> float:
    """Speed-up of fused blocks without exits."""
    alone, every = over_devices(name, preset, counts=(1, count), exits=False)
    return alone.every.average_s / every.every.average_s


def _claims(times: dict[tuple[str, str, str], list[float]]) -> list[Claim]:
    six = PUBLISHED["devices"]
    low, high = PUBLISHED["speedup"]
    claims = []
    for preset in PRESETS:
        mine, theirs = (_speedups(times, preset, of) for of in ("EdgeSP", "MoDNN"))
        at_six = [curve[six - 1] for curve in mine.values()]
        claims.append(
            Claim(f"Speed-ups of {six} devices, preset {preset}", "1", f"{low:g} to {high:g}",
                  ", ".join(f"{value:.2f}" for value in at_six), low <= min(at_six) and max(at_six) <= high,
                  basis=FITTED[preset])
        )  # fmt: skip
        slower = [
            f"{title} with {n}" for title in NETWORKS for n in ALL
            if times[preset, title, "EdgeSP"][n - 1] >= times[preset, title, "MoDNN"][n - 1]
        ]  # fmt: skip
        claims.append(
            Claim(f"EdgeSP is faster than MoDNN for any number of devices, preset {preset}", "4.2", "always",
                  "always" if not slower else f"not for {', '.join(slower)}", not slower, basis=FITTED[preset])
        )  # fmt: skip
        behind = [
            (title, n) for title in NETWORKS for n in range(2, six + 1) if mine[title][n - 1] <= theirs[title][n - 1]
        ]
        plain = [_plain_speedup(NETWORKS[title], preset, n) > theirs[title][n - 1] for title, n in behind]
        claims.append(
            Claim(f"EdgeSP has the higher speed-up over one device, preset {preset}", "4.2", "always",
                  f"not for {', '.join(f'{title} with {n}' for title, n in behind)}" if behind else "always",
                  not behind,
                  f"without exits, which MoDNN does not have, EdgeSP's is higher in {sum(plain)} of {len(plain)} cases",
                  FITTED[preset])
        )  # fmt: skip
        servers = {
            title: min(times[preset, title, of][0] for of in ("Edgent", "triple partition")) for title in NETWORKS
        }
        first = {
            title: next((n for n in ALL if times[preset, title, "EdgeSP"][n - 1] < servers[title]), 0)
            for title in NETWORKS
        }
        claims.append(
            Claim(f"With more than five devices EdgeSP is faster than Edgent and the triple partition, preset {preset}",
                  "4.2", "from six on", "from " + ", ".join(f"{n} ({title})" for title, n in first.items()),
                  all(0 < n <= PUBLISHED["faster_from"] for n in first.values()), basis=ASSUMED)
        )  # fmt: skip
        gains = {title: 1 - np.array(times[preset, title, "EdgeSP"][1:]) / times[preset, title, "EdgeSP"][:-1]
                 for title in NETWORKS}  # fmt: skip
        early = float(np.mean([gain[: six - 1].mean() for gain in gains.values()]))
        late = float(np.mean([gain[six - 1 :].mean() for gain in gains.values()]))
        claims.append(
            Claim(f"A device beyond the first {six} gains little, preset {preset}", "4.2", "flatter",
                  f"each gains {100 * early:.0f} % up to {six}, then {100 * late:.1f} %", late < early / 2,
                  basis=FITTED[preset])
        )  # fmt: skip
        falls = [f"{title} with {at + 2}" for title, gain in gains.items() for at in np.flatnonzero(gain < 0)]
        claims.append(
            Claim(f"Too many devices are not justified: one more can cost time, preset {preset}", "4.2", "yes",
                  ", ".join(falls) or "never up to ten", bool(falls),
                  f"the average gain of a device beyond {six} is {100 * late:.1f} %", FITTED[preset])
        )  # fmt: skip
    return claims
