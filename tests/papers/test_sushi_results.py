"""SUSHI reproduced: what results/sushi holds, its bands, and every item in a reduced form."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import COMPILED, Run, result_rows, verdicts
from fluidb.papers.lab import Lab
from fluidb.papers.rows import Item
from fluidb.papers.sushi import PAPER
from fluidb.papers.sushi.readings import (
    MOBILENET,
    MOBILENET_BOARD,
    MOBILENET_IDEAL,
    RESNET,
    RESNET_BOARD,
    RESNET_IDEAL,
    Reading,
)
from fluidb.papers.sushi.scheduler import all_seeds, apart, latency, serve

RESULTS = Path(__file__).parents[2] / "results" / "sushi"
REDUCED = Lab(requests=1500, seeds=2)

Bands = dict[tuple[str, str, str, str], tuple[float, float]]

BANDS: Bands = {
    ("sushi_fig10", "latency saved, least", "potential, 20 x 36", "ResNet-50"): (4.5, 6.5),
    ("sushi_fig10", "latency saved, most", "potential, 20 x 36", "ResNet-50"): (6.5, 10.5),
    ("sushi_fig10", "latency saved, least", "potential, 80 x 9, smallest at 160", "MobileNet-V3"): (4, 7),
    ("sushi_fig10", "latency saved, most", "potential, 80 x 9, smallest at 160", "MobileNet-V3"): (18, 26),
    ("sushi_fig13", "off-chip energy saved, least", "ResNet-50, 3x3 layers", "ZCU104"): (11, 15),
    ("sushi_fig13", "off-chip energy saved, most", "ResNet-50, 3x3 layers", "ZCU104"): (48, 56),
    ("sushi_fig13", "off-chip energy saved, least", "MobileNet-V3", "potential"): (43, 52),
    ("sushi_fig13", "off-chip energy saved, most", "MobileNet-V3", "potential"): (74, 81),
    ("sushi_hits", "hit ratio", "ResNet-50, potential, 20 x 36", "STRICT_ACCURACY"): (0.60, 0.72),
    ("sushi_hits", "hit ratio", "MobileNet-V3, potential, 80 x 9, smallest at 160", "STRICT_ACCURACY"): (0.75, 0.86),
    ("sushi_fig16", "latency saved", "SUSHI", "ResNet-50, potential, 20 x 36"): (4, 8),
    ("sushi_fig16", "latency saved", "clairvoyant", "ResNet-50, potential, ideal utilisation"): (10, 12),
    ("sushi_fig16", "latency saved", "clairvoyant", "MobileNet-V3, potential, ideal utilisation, smallest at 160"):
        (22, 25),
}  # fmt: skip
"""Of the page that pins the paper down; bands of Fig. 16, of 21 and 25 % in the paper, on an array that layers do not
fill and on one that is never idle."""

NOT_EXPECTED = ("sushi_fig14", "sushi_fig16", "sushi_table5")
"""Items with a claim that cannot hold."""


@cache
def reduced(name: str) -> Item:
    return PAPER.reproduce(name, REDUCED)


def test_what_cannot_come_out_stands_first():
    """Above the first item: 21 %, the size of Table 5, the DPU and the CPU."""
    first = (RESULTS / "README.md").read_text().partition("## Table 1")[0]
    for text in ("SUSHI shortens ResNet-50", "the scheduler saves", "faster than a DPU", "faster than a CPU"):
        assert text in first
    for name in NOT_EXPECTED:
        assert not all(verdicts(RESULTS, name))


@pytest.mark.parametrize(("of", "band"), BANDS.items())
def test_bands_of_the_results(of, band):
    name, *key = of
    (found,) = [
        float(row["ours"]) for row in result_rows(RESULTS, name) if [row["quantity"], row["of"], row["at"]] == key
    ]
    assert band[0] <= found <= band[1]


@pytest.mark.skipif(not COMPILED, reason="serves thousands of requests; run compiled")
def test_claims_that_need_no_luck_hold_in_a_reduced_form():
    for name in ("sushi_fig11", "sushi_fig15", "sushi_table6"):
        assert [claim.statement for claim in reduced(name).claims if not claim.holds] == []
    peaks = {row.of: row for row in reduced("sushi_table3").rows if row.quantity == "peak"}
    assert [row.difference for row in peaks.values()] == pytest.approx([0.0] * 3, abs=1e-12)
    assert all(row.difference == 0 for row in reduced("sushi_table3").rows if row.unit == "KB" and row.paper)
    slack = reduced("sushi_queue").claims[0]
    assert slack.holds, slack.ours


def test_no_scheduler_is_better_than_one_that_knows_what_comes():
    """With its own queries ahead, and no queue, the clairvoyant choice saves most of the time."""
    saved: dict[str, dict[str, float]] = {}
    for row in result_rows(RESULTS, "sushi_fig16"):
        if row["quantity"] == "latency saved":
            saved.setdefault(row["at"], {})[row["of"]] = float(row["ours"])
    assert len(saved) == 7
    for by_contender in saved.values():
        best = by_contender.pop("clairvoyant")
        assert all(value <= best + 1e-9 for value in by_contender.values())


def test_the_results_tell_both_parts_of_what_end_to_end_figures_lack():
    """Our array, which layers do not fill, and more than Fig. 10 of the paper itself allows."""
    rows = result_rows(RESULTS, "sushi_fig16")
    ours = {(row["quantity"], row["of"], row["at"]): float(row["ours"]) for row in rows}
    page = " ".join((RESULTS.parents[1] / "docs" / "sushi.md").read_text().split())
    told = (RESULTS / "README.md").read_text().splitlines()

    def saved(of: str, reading: Reading) -> str:
        return f"{ours['latency saved', of, f'{reading.net}, {reading.name}']:.1f}"

    best = [saved("clairvoyant", reading) for reading in (RESNET_IDEAL, MOBILENET_IDEAL)]
    assert f"do not come out: the buffer saves {saved('SUSHI', RESNET)} and {saved('SUSHI', MOBILENET)} %" in page
    for reading, most, ideal in zip((RESNET, MOBILENET), ("7.92", "23.6"), best, strict=True):
        (line,) = [line for line in told if line.startswith(f"| SUSHI shortens {reading.net}")]
        assert f"| {saved('SUSHI', reading)} % | does not hold" in line
        assert f"at ideal utilisation it saves {ideal} %" in line
        assert f"exceeds the most that any SubNet saves in its own Fig. 10, {most} %" in line


def test_the_page_tells_what_the_buffer_saves():
    """With all that is shared on the chip within 1.5 points of Fig. 10; with the boards' buffers not."""
    page = " ".join((RESULTS.parents[1] / "docs" / "sushi.md").read_text().split())
    rows = {(row["quantity"][15:], row["of"], row["at"]): row for row in result_rows(RESULTS, "sushi_fig10")}

    def ends(reading: Reading, *, near: bool) -> str:
        least, most = (rows[end, reading.name, reading.net] for end in ("least", "most"))
        assert near == (max(abs(float(row["difference"])) for row in (least, most)) < 1.5)
        return f"{float(least['ours']):.1f} to {float(most['ours']):.1f} %"

    whole = f"{ends(RESNET, near=True)} of ResNet-50's latency, and {ends(MOBILENET, near=True)} of MobileNet-V3's"
    assert f"(Fig. 10) comes out if all that is shared stays on the chip: {whole}" in page
    boards = f"{ends(RESNET_BOARD, near=False)} and {ends(MOBILENET_BOARD, near=False)}"
    assert f"With the boards' buffers it is {boards}" in page


def test_engines_without_tiles_are_never_idle():
    """An ideal array takes the time of the MACs alone, but for windows that are no multiple of nine."""
    for real, ideal in ((RESNET, RESNET_IDEAL), (MOBILENET, MOBILENET_IDEAL)):
        assert 95 < ideal.utilisation <= 100
        assert real.utilisation < 60
        assert ideal.accelerator.peak_gop_s == pytest.approx(real.accelerator.peak_gop_s)


def test_the_smallest_and_the_largest_subnet_are_asked_for():
    """Without a buffer; uniform values between theirs would ask for neither."""
    for reading in (RESNET, MOBILENET):
        table = reading.latency(1)
        nets = len(table.subnets or [])
        for mode, end in (("accuracy", 0), ("latency", nets - 1)):
            served = serve(table, apart(table, REDUCED, 0), f"mode={mode},graph=0").replay.variant % nets
            assert np.mean(served == end) > 0.7 / nets


@pytest.mark.skipif(not COMPILED, reason="serves thousands of requests; run compiled")
def test_the_default_choice_of_the_buffer_beats_the_nearest_and_what_all_share():
    def mean_ms(options: str) -> float:
        return float(latency([all_seeds(MOBILENET_BOARD, REDUCED, f"mode=accuracy,{options}")]).mean())

    assert mean_ms("q=8") < min(mean_ms("distance=l2"), mean_ms("graph=1"))


def test_the_command_prints_an_item(fluidb: Run):
    done = fluidb("reproduce", "sushi_hits", "--count", 200, "--seeds", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert "potential, 20 x 36" in done.stdout
    assert "predicted" in done.stdout
