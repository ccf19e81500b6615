"""Figures that the paper's text states, judged one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...dse.npu.choices import Batching
from ...dse.npu.evaluation import Evaluator
from ...dse.npu.tiles import Tile
from ...formats.array_types import Floats
from ...models import load_network
from ...platforms import load_platform
from ...serving.networks import as_served
from ...serving.replay import simulate
from ...studies.comparison import Comparison
from ...studies.store import traffic
from ..lab import Lab, design, paper_options
from ..rows import NEAR, Claim, Item
from . import PUBLISHED
from .npu import BATCH, UNIFORM, fig10
from .traffic import fig1a


def _claim(key: str, ours: str, holds: bool, *, paper: str = "", **words: Any) -> Claim:
    """A statement of ``published.toml``, judged; ``words`` fill the gaps of the statement and of the reason."""
    said = PUBLISHED["claims"][key]
    paper = paper or said.get("text") or f"{said['value']:g} {said['unit']}"
    statement, reason = (said.get(name, "").format(**words) for name in ("statement", "reason"))
    return Claim(statement, said["section"], paper, ours, bool(holds), reason, said.get("basis", ""))


def _near_claim(key: str, ours: float, *, text: str = "", digits: int = 1, **words: Any) -> Claim:
    said = PUBLISHED["claims"][key]
    return _claim(key, text or f"{ours:.{digits}f} {said['unit']}", _near(ours, said["value"]), **words)


def _near(ours: float, paper: float) -> bool:
    return bool(abs(ours / paper - 1) <= NEAR)


def _registers() -> list[Claim]:
    claims = []
    for at, paper in PUBLISHED["fbcb_percent"].items():
        network, platform = at.split(" on ")
        design_table, fbcb = design(load_network(network), load_platform(platform), paper_options())
        ours = 100 * (design_table.register_share(fbcb) or 0.0)
        holds = int(100 * ours) == round(100 * paper)  # the paper truncates
        claims.append(_claim("registers", f"{ours:.3f} %", holds, paper=f"{paper:.2f} %", at=at))
    return claims


def _batch16() -> Claim:
    network, platform = load_network("resnet50").backbone(), load_platform("zcu104")
    options = paper_options(batching=Batching.ROW, stacking=False, b_max=16)
    rate = Evaluator(network, platform, options).cost(Tile(6832, 10, 172).array, traffic=False).gop_s[0, -1]
    return _near_claim("batch16", 1e3 * 2e-9 * network.macs * 16 / rate)


def _scheduler_calls(lab: Lab) -> Claim:
    scenario = lab.scenario("table2")
    point = scenario.points[0]
    calls = {}
    for contender in scenario.contenders:
        table = lab.engine(point, replace(contender, options=point.site.options(contender))).table
        served = traffic(point, as_served(table), scenario.file.seeds[0])
        calls[contender.name] = simulate(table, served, contender.policy).scheduler_calls
    products = len(point.site.npu.network.gemms)
    return _near_claim("scheduler_calls", calls["LazyBatching"] / calls["FluidB"], products=products)


def _mean(comparison: Comparison, name: str, metric: str, low: float, high: float) -> Floats:
    points = [point for point in comparison.points if point.rate_per_s is not None and low <= point.rate_per_s <= high]
    return np.array(
        [standing.metrics[metric].mean for point in points for standing in point.contenders if standing.name == name]
    )


def _sustained(lab: Lab, comparison: Comparison, board: str) -> list[Claim]:
    paper = PUBLISHED["claims"][f"sustained_{board}"]["value"]
    top = max(point.rate_per_s or 0.0 for point in comparison.points)
    rates = {
        standing.name: standing.metrics["processing_rate_per_s"].mean for standing in comparison.points[-1].contenders
    }
    ours = rates.pop("FluidB")
    best = max(rates, key=lambda name: rates[name])
    words: dict[str, Any] = {"rate": 0.0}
    if ours <= paper:
        scenario = lab.scenario("fig8")
        contender = scenario.contenders[-1]
        free = replace(contender, options=contender.options.model_copy(update={"memory_layers": False}))
        words["rate"] = lab.figures(scenario.points[-1], free, scenario.file.seeds)["processing_rate_per_s"].mean()
    lead = f"{ours:.1f} of {top:g} /s; the next is {best} with {rates[best]:.1f} /s"
    return [
        _claim(f"sustained_{board}", f"{ours:.1f} /s", ours > paper, **words),
        _claim("highest", lead, ours > rates[best], board=board),
    ]


def _utilisation(comparison: Comparison, board: str, low: float, high: float) -> Claim:
    fluid, serial = (
        _mean(comparison, name, "mac_share", low, high) / _mean(comparison, name, "busy_share", low, high)
        for name in ("FluidB", "SERIAL")
    )
    ours, points = 100 * float(np.mean(fluid / serial) - 1), 100 * float(np.mean(fluid - serial))
    text = f"{ours:.1f} %, or {points:.1f} points"
    return _near_claim(f"utilisation_{board}", ours, text=text, low=low, high=high)


def _high_utilisation(comparison: Comparison) -> Claim:
    fluid = next(standing for standing in comparison.points[-1].contenders if standing.name == "FluidB")
    return _near_claim("utilisation_high", 100 * fluid.metrics["mac_share"].mean / fluid.metrics["busy_share"].mean)


def _geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _gains(comparison: Comparison) -> list[Claim]:
    """The abstract's two gains, from LazyBatching's figures in Table II: the paper does not say how it averages."""
    claims = []
    for key, metric, printed in (
        ("latency_gain", "mean_latency_s", "mean_ms"),
        ("satisfaction_gain", "violation_rate", "late_percent"),
    ):
        means = [[standing.metrics[metric].mean for standing in point.contenders] for point in comparison.points]
        if min(map(min, means)) <= 0:
            few = "too few requests: a contender has nothing to divide by"
            claims.append(replace(_claim(key, "not known", False, own=0.0), reason=few))
            continue
        lines = PUBLISHED["table2"]
        own = _geometric_mean([line["LazyBatching"][printed] / line["FluidB"][printed] for line in lines])
        claims.append(_near_claim(key, _geometric_mean([lazy / fluid for lazy, fluid in means]), digits=2, own=own))
    return claims


def _attenuation(lab: Lab) -> list[Claim]:
    """Statements about Fig. 1a."""
    use = {(row.of, row.at): row.ours for row in fig1a(lab).rows}
    judged = []
    for board in ("zc706", "zcu104"):
        gain, left = (
            use[f"R-AdaptB-M, {label}", board] - use[f"SERIAL, {label}", board] for label in ("no exits", "4 exits")
        )
        ours = f"{gain:+.1f} points without exits, {left:+.1f} with"
        plain, shrunk = (use[f"R-AdaptB-M, {label}", board] for label in ("no exits", "4 exits"))
        judged.append(_claim("attenuation", ours, left < gain / 2, board=board, plain=plain, left=shrunk))
    return judged


def _npu(lab: Lab) -> list[Claim]:
    """Statements about Fig. 10."""
    rate = {(row.at, row.of, row.x): row.ours for row in fig10(lab).rows}
    judged = []
    for at in ("resnet50 on zc706", "inception_v3 on zcu104"):
        fluid, stacked = (rate[at, name, BATCH] for name in ("Fluid Batching", "with Stackable PEs"))
        uniform = {rate[at, name, BATCH]: name for name in reversed(UNIFORM)}
        best = max(uniform)
        lead = 100 * (fluid / best - 1)
        ours = f"{lead:.1f} % above {uniform[best]} at b = {BATCH}"
        judged.append(_claim("far_above", ours, lead >= 100 * NEAR, at=at))
        gains = [100 * (rate[at, "with Stackable PEs", b] / rate[at, "Fluid Batching", b] - 1) for b in (1, BATCH)]
        ours = f"{gains[0]:.1f} % at b = 1, {gains[1]:.1f} % at b = {BATCH}"
        judged.append(_claim("small_batches", ours, gains[0] > gains[1], at=at))
        if at.startswith("resnet50"):
            share = stacked / rate[at, "peak", BATCH]
            judged.append(_claim("peak", f"{100 * share:.1f} % of it at b = {BATCH}", _near(share, 1.0), at=at))
    return judged


def claims(lab: Lab) -> Item:
    """One line each, with a verdict."""
    fig7, fig8, table2 = (lab.compare(name) for name in ("fig7", "fig8", "table2"))
    judged = [
        *_registers(),
        _scheduler_calls(lab),
        _batch16(),
        *_sustained(lab, fig7, "zc706"),
        *_sustained(lab, fig8, "zcu104"),
        _utilisation(fig7, "zc706", 5.0, 18.0),
        _utilisation(fig8, "zcu104", 25.0, 35.0),
        _high_utilisation(fig7),
        *_gains(table2),
        *_attenuation(lab),
        *_npu(lab),
    ]
    notes = [f"A figure counts as reproduced if it is within {100 * NEAR:g} % of the paper's."]
    return Item("claims", "What the text says in figures", notes, [], claims=judged)
