"""The effect of the rules of Algorithms 1 and 2: the layers that are fused, and the tolerance of the shares."""

from __future__ import annotations

from itertools import product

from ...dse.partition.explanation import explain_partition
from ...dse.partition.study import study
from ...tables.partition import FusionRule, PartitionOptions
from ..lab import Lab
from ..rows import PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .cluster import FITTED, NETWORKS, PRESETS, cluster, network, over_devices

ZETAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
DEEP = "ResNet-101-224"
SIX = PUBLISHED["devices"]


def edgesp_rules(_: Lab) -> Item:
    """The speed-up of six devices by the rule that fuses layers."""
    studies = {
        (preset, title, rule): over_devices(name, preset, rule, (SIX,))[0]
        for preset, (title, name), rule in product(PRESETS, NETWORKS.items(), FusionRule)
    }
    speedups = {key: studied.speedup or 0.0 for key, studied in studies.items()}
    rows = [
        Row(f"speed-up of six devices, preset {by}", title, str(rule), "x", value, basis=FITTED[by] or PREDICTED)
        for (by, title, rule), value in speedups.items()
    ]
    worst = min(PRESETS, key=lambda preset: speedups[preset, DEEP, FusionRule.PAPER])
    deep = speedups[worst, DEEP, FusionRule.PAPER], speedups[worst, DEEP, FusionRule.LAYERWISE]
    twice = [
        100 * explain_partition(studies[worst, DEEP, rule].every).twice_share
        for rule in (FusionRule.PAPER, FusionRule.MARGINAL)
    ]
    fused = [
        speedups["A", title, FusionRule.MARGINAL] > speedups["A", title, FusionRule.LAYERWISE] for title in NETWORKS
    ]
    gap = max(
        speedups[p, t, FusionRule.OPTIMAL] / speedups[p, t, FusionRule.MARGINAL] - 1 for p in PRESETS for t in NETWORKS
    )
    claims = [
        Claim("Algorithm 2 minimises the latency", "3.3", "less than layer by layer",
              f"ResNet-101, preset {worst}: {deep[0]:.2f} times as fast as one device; layer by layer, {deep[1]:.2f} "
              "times",
              deep[0] >= deep[1],
              f"{twice[0]:.0f} % of its rows are computed more often than needed, {twice[1]:.0f} % with `marginal`"),
        Claim("Fused blocks are faster than layer by layer", "3.2", "faster",
              f"by the rule marginal in {sum(fused)} of {len(fused)} networks, preset A", all(fused)),
    ]  # fmt: skip
    notes = [
        f"The rule `marginal` is at most {100 * gap:.1f} % slower than the best blocks (`optimal`).",
        (
            "The paper prints none of these figures. Its rule is mended, as the printed one makes no block of more "
            "than two layers."
        ),
    ]
    title = "Which layers are fused: the rules beside each other"
    return Item("edgesp_rules", title, notes, rows, claims=claims, picture="bars")


def edgesp_zeta(_: Lab) -> Item:
    """The average time of six devices over the tolerance of Algorithm 1."""
    rows: list[Row] = []
    most: dict[tuple[FusionRule, float], float] = {}
    for rule in (FusionRule.OPTIMAL, FusionRule.MARGINAL):
        for preset in PRESETS:
            for title, name in NETWORKS.items():
                times = {}
                for zeta in ZETAS:
                    options = PartitionOptions(rule=rule, zeta=zeta)
                    (studied,) = study(network(name), cluster(preset), options, [SIX])
                    times[zeta] = studied.every.average_s
                for zeta, time_s in times.items():
                    slower = 100 * (time_s / times[ZETAS[0]] - 1)
                    most[rule, zeta] = max(slower, most.get((rule, zeta), 0.0))
                    at = f"{rule}, preset {preset}"
                    rows.append(Row("slower than at 0.02", title, at, "%", slower, x=zeta, basis=PREDICTED))
    small, large = most[FusionRule.OPTIMAL, 0.2], most[FusionRule.OPTIMAL, 0.4]
    claims = [
        Claim("zeta is a share of the time of a block that may be waited for", "3.3", "10 % in the example",
              f"with the best blocks, 0.2 adds up to {small:.1f} % and 0.4 up to {large:.1f} % to the whole time",
              small < 10),
    ]  # fmt: skip
    notes = [
        "The paper does not state the zeta that it uses; ours is 0.1.",
        (
            "`marginal` decides unit by unit, so that a small change of times can lead to other blocks. `optimal` "
            "is steady."
        ),
    ]
    return Item("edgesp_zeta", "The tolerance of Algorithm 1", notes, rows, "zeta", claims, picture="lines")
