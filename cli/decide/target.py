"""``fluidb target``: the thresholds that meet a latency target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from ..options import AsJson, TableFolder, argument, duration, option
from ..render import facts, ms, percent, plain, show, table

OBJECTIVE = "Best shares: the most samples at the latest exit, or the highest accuracy."


def command(
    directory: TableFolder,
    target: Annotated[str, argument("Largest mean latency of a sample that runs alone.", "DURATION")],
    samples: Annotated[Path, option("Confidences or entropies, and answers, at every exit.", "FILE")],
    objective: Annotated[Literal["latest", "accuracy"], option(OBJECTIVE)] = "latest",
    as_json: AsJson = False,
) -> None:
    """Find the thresholds that meet a latency target.

    Shares of the exits come from the target, and thresholds from the shares
    (EdgeSP, Section 3.4, `fluidb docs edgesp`). One half of the samples chooses, the
    other half checks.
    """
    from ...studies.latency_target import meet_target
    from ...traffic.measures import show_threshold

    target_s = duration(target, "DURATION")
    assert target_s is not None
    found = meet_target(directory, samples, target_s, objective=objective)
    thresholds = [item.threshold for item in found.exits[:-1] if item.threshold is not None]
    first = found.exits[0]
    late = None if found.feasible else f"{ms(target_s)} is less than exit 1 takes, {ms(first.time_s)}: all leave there"
    about = facts(
        {
            "network": f"{found.network} on {found.platform}",
            "target": f"{ms(target_s)} on average, by {objective}",
            "not feasible": late,
            "thresholds": f"--threshold {','.join(map(str, thresholds))} ({found.measure})" if thresholds else "none",
        }
    )
    exits = [
        (
            f"{number} {item.name}",
            ms(item.time_s),
            percent(item.accuracy),
            percent(item.wanted_share),
            "" if item.threshold is None else show_threshold(item.threshold),
            percent(item.chosen_share),
            percent(item.checked_share),
        )
        for number, item in enumerate(found.exits, 1)
    ]
    halves = [
        (name, f"{met.samples:,}", ms(met.mean_s), percent(met.accuracy))
        for name, met in (("that chose", found.chosen), ("others", found.checked))
    ]
    text = [
        about,
        table(["exit", "time", "accuracy", "wanted", found.measure, "leave", "leave of others"], exits),
        table(["samples", "", "mean latency", "accuracy"], halves),
    ]
    record = {"design": directory, "samples": samples, "objective": objective, **plain(found)}
    show(as_json, "fluidb.target-output/1", record, text)
