"""Decisions of design time, Figs. 7 and 9 to 15, and the parts of the time of a batch (Fig. 17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...rules.exit_choice import CandidateVerdict
from ...rules.exit_log import Log
from ...rules.exit_thresholds import ExitGoal
from ...rules.exit_times import average_latency, bin_sizes, replay_exits, time_row
from ..lab import Lab, row
from ..rows import CALIBRATED, GIVEN, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .rehearsal import GLUE, IMAGENET, QNLI, SEEDS, SIZES, TASKS, PaperTask, Rehearsal, rehearse

MEDIUM = 32


def change(value: float, original: float) -> float:
    """In percent of the original."""
    return 100 * (value / original - 1)


def fate(verdict: CandidateVerdict) -> str:
    """What became of a candidate."""
    if verdict.outcome == "imprecise" and not verdict.setting.exits:
        return "no sample is sure enough to leave"
    return {
        "taken": "it is taken",
        "imprecise": "too little of the precision is kept",
        "slow": "too many batches are slow",
        "no gain": "too little time is saved",
        "longer": "another is faster",
    }[verdict.outcome]


def fates(verdicts: Sequence[CandidateVerdict], what: str) -> str:
    """What became of candidates, and of how many."""
    counts = Counter(map(fate, verdicts))
    return ", ".join(f"{text} ({count} of {len(verdicts)} {what})" for text, count in counts.most_common())


def all_seeds(task: PaperTask, lab: Lab, goal: ExitGoal) -> list[Rehearsal]:
    """A rehearsal for each seed."""
    return [rehearse(task, seed, lab, goal) for seed in lab.first(SEEDS)]


def pame_fig7(lab: Lab) -> Item:
    """The two matrices, one seed."""
    rows = []
    for task in (IMAGENET, GLUE):
        rehearsal = rehearse(task, 0, lab, ExitGoal(batch=min(SIZES)))
        step = rehearsal.choice.steps[0]
        for verdict in step.verdicts:
            if verdict.time_s is None or verdict.pattern is None:
                continue  # no thresholds keep the precision
            name = task.names[verdict.candidate - 1]
            batches = verdict.pattern.sum()
            for j in range(len(verdict.pattern)):
                time, share = verdict.time_s[j] / step.limit_s, verdict.pattern[j] / batches
                rows.append(Row("inference time", name, task.name, "% of t_0", 100 * time, x=float(j)))
                rows.append(Row("batching pattern", name, task.name, "% of batches", 100 * share, x=float(j)))
    notes = [
        (
            "Both matrices are of the first exit, n = 16, seed 0. Candidates at which no threshold keeps the precision "
            "have no row."
        ),
        (
            "The first matrix has the time of a batch by the number of its samples that move on. A batch above 100 "
            "% is slow."
        ),
    ]
    title = "Fig. 7: inference-time matrix and batching-pattern matrix"
    return Item("pame_fig7", title, notes, rows, "samples that move on", picture="matrix")


def pame_fig9(lab: Lab) -> Item:
    """Average and tail against the batch size."""
    rows, averages = [], dict[tuple[PaperTask, int], np.ndarray]()
    for task in TASKS:
        changes: dict[str, list[np.ndarray]] = {"change of the average": [], "change of the tail": []}
        for size in SIZES:
            replays = [rehearsal.judged for rehearsal in all_seeds(task, lab, ExitGoal(batch=size))]
            for quantity, key in (("change of the average", "average_s"), ("change of the tail", "tail_s")):
                values = np.array([change(getattr(replay, key), replay.original_s) for replay in replays])
                changes[quantity].append(values)
                basis = PREDICTED if task is QNLI else CALIBRATED
                rows.append(row(quantity, task.name, f"n = {size}", "%", values, x=size, basis=basis))
        printed = PUBLISHED["latency"].get(task.name)
        if printed:
            for quantity, key in (("change of the average", "average"), ("change of the tail", "tail")):
                mean = np.mean(changes[quantity], axis=0)
                rows.append(row(f"{quantity}, all n", task.name, "mean", "%", mean, printed[key], basis=CALIBRATED))
        averages |= {(task, size): values for size, values in zip(SIZES, changes["change of the average"], strict=True)}
    all_of_it, quantity = PUBLISHED["latency_of_all"], "change of the average, all n"
    mean = np.mean(list(averages.values()), axis=0)
    rows.append(row(quantity, "all tasks", "mean", "%", mean, all_of_it["average"], basis=CALIBRATED))
    (task, size), most = min(averages.items(), key=lambda pair: float(pair[1].mean()))
    basis = PREDICTED if task is QNLI else CALIBRATED
    at = f"{task.name}, n = {size}"
    rows.append(row("largest change of the average", "all tasks", at, "%", most, all_of_it["largest"], basis=basis))
    notes = [
        (
            "Changes are against the network without exits. The tail is the mean over batches of the last sample's "
            "latency."
        ),
        (
            "The paper prints means over tasks and n. We compare its image tasks with our ImageNet, and its NLP "
            "tasks with our GLUE."
        ),
        'The paper takes its mean and its largest gain ("up to") over nine tasks, and we take ours over three.',
    ]
    return Item("pame_fig9", "Fig. 9: average and tail latency", notes, rows, "batch size n", picture="lines")


def pame_fig10(lab: Lab) -> Item:
    """The exits that are found, and their number."""
    rows, claims = [], []
    for task in TASKS:
        printed = PUBLISHED["exits"][task.name]
        for size in SIZES:
            exits = [rehearsal.choice.exits for rehearsal in all_seeds(task, lab, ExitGoal(batch=size))]
            first = [task.names[places[0] - 1] if places else "none" for places in exits]
            hits = np.array([100.0 * (name == printed["first"]) for name in first])
            counts = np.array([float(len(places)) for places in exits])
            first_by, number_by = (CALIBRATED, PREDICTED) if task is IMAGENET else (PREDICTED, CALIBRATED)
            where = f"n = {size}"
            rows.append(row(f"first exit is {printed['first']}", task.name, where, "%", hits, 100.0, basis=first_by))
            number = printed["number"]
            rows.append(row("number of exits", task.name, where, "exits", counts, number, basis=number_by))
            names = ", ".join(f"{name} {count}" for name, count in Counter(first).most_common())
            most = Counter(first).most_common(1)[0][0]
            claims.append(
                Claim(
                    f"The first exit of {task.name} is {printed['first']}, n = {size}", "Fig. 10", printed["first"],
                    f"{names} of {len(first)} seeds", most == printed["first"], "the log is drawn, not the paper's",
                    "" if first_by == PREDICTED else first_by,
                )
            )  # fmt: skip
    notes = [
        (
            "The logs of GLUE and QNLI were calibrated by figures of two exits, so that the number of exits is no "
            "prediction."
        )
    ]
    return Item("pame_fig10", "Fig. 10: the exits that are found", notes, rows, claims=claims, picture="bars")


def _normalised(rehearsal: Rehearsal) -> tuple[float, float, float]:
    """Precision at the first exit, at the end, and of all samples, each as a share of that without exits."""
    log, choice = rehearsal.judged_by, rehearsal.choice
    own = log.scores[:, -1].mean()
    first, last = np.zeros(len(log.scores), dtype=bool), np.ones(len(log.scores), dtype=bool)
    for at, (place, setting) in enumerate(zip(choice.exits, choice.settings, strict=True)):
        leaves = last & (log.sureness[:, place - 1, setting.column] >= setting.threshold)
        first |= leaves if at == 0 else False
        last &= ~leaves
    at_first = log.scores[first, choice.exits[0] - 1].mean() if first.any() else own
    at_end = log.scores[last, -1].mean() if last.any() else own
    return 100 * at_first / own, 100 * at_end / own, 100 * rehearsal.judged.precision


def pame_fig11(lab: Lab) -> Item:
    """Share of the precision that is kept."""
    rows, overall = [], []
    for task in TASKS:
        values = np.array(
            [
                _normalised(rehearsal)
                for rehearsal in all_seeds(task, lab, ExitGoal(batch=MEDIUM))
                if rehearsal.choice.exits
            ]
        )
        for quantity, column in zip(("at the first exit", "at the end", "overall"), values.T, strict=True):
            rows.append(row(quantity, task.name, "precision", "%", column, basis=PREDICTED))
        overall.append(values[:, 2])
    mean, printed = np.mean(overall, axis=0), PUBLISHED["precision"]["overall"]
    rows.append(row("overall", "all tasks", "precision", "%", mean, printed, basis=PREDICTED))
    unguarded, least = np.concatenate(overall), 100 * ExitGoal(batch=MEDIUM).precision
    guarded = ExitGoal(batch=MEDIUM, guard=0.995)
    for task in TASKS:
        kept = 100 * np.array([rehearsal.judged.precision for rehearsal in all_seeds(task, lab, guarded)])
        rows.append(row("overall, guard 99.5 %", task.name, "precision", "%", kept, basis=PREDICTED))
    notes = [
        "A precision is a share of the precision without exits, on the half of the log that did not choose, n = 32.",
        (
            f"The loosest thresholds that just pass keep less than {least:g} % of it in "
            f"{np.sum(unguarded < least)} of {len(unguarded)} runs. A guard prevents this."
        ),
    ]
    return Item("pame_fig11", "Fig. 11: precision by exit", notes, rows, picture="bars")


def _alone(task: PaperTask, verdict: CandidateVerdict, fresh: Log, batch: int) -> dict[str, float]:
    """One exit alone: estimated by the matrices, and replayed on the other half of the log."""
    assert verdict.time_s is not None
    assert verdict.pattern is not None
    real = replay_exits(fresh, task.stage_s, batch, [verdict.candidate], [verdict.setting])
    sizes = bin_sizes(1, len(verdict.pattern) - 1, batch)
    average_s = average_latency(verdict.time_s, verdict.pattern, sizes, batch)
    tail_s = float(verdict.time_s @ verdict.pattern / verdict.pattern.sum())
    return {
        "average": change(real.average_s, real.original_s),
        "tail": change(real.tail_s, real.original_s),
        "slow": 100 * real.slow_share,
        "average error": 100 * abs(average_s / real.average_s - 1),
        "tail error": 100 * abs(tail_s / real.tail_s - 1),
    }


def pame_fig12(lab: Lab) -> Item:
    """The first exit at every position."""
    task, goal, printed = IMAGENET, ExitGoal(batch=MEDIUM), PUBLISHED["position"]
    by_place: dict[int, list[dict[str, float]]] = {}
    lost: dict[str, list[CandidateVerdict]] = {}
    for rehearsal in all_seeds(task, lab, goal):
        for verdict in rehearsal.choice.steps[0].verdicts:
            if verdict.time_s is None:
                lost.setdefault(task.names[verdict.candidate - 1], []).append(verdict)
            else:
                by_place.setdefault(verdict.candidate, []).append(
                    _alone(task, verdict, rehearsal.judged_by, goal.batch)
                )
    rows = []
    columns = {
        place: {key: np.array([alone[key] for alone in of_place]) for key in of_place[0]}
        for place, of_place in by_place.items()
    }
    for place, by_key in sorted(columns.items()):
        block = float(task.names[place - 1].removeprefix("H"))
        for key, unit in (("average", "%"), ("tail", "%"), ("slow", "%")):
            quantity = {"average": "change of the average", "tail": "change of the tail", "slow": "slow batches"}[key]
            basis = CALIBRATED if key == "slow" else PREDICTED
            rows.append(row(quantity, "one exit", "ImageNet", unit, by_key[key], x=block, basis=basis))
    slow = [
        task.names[place - 1] for place, by_key in sorted(columns.items()) if by_key["slow"].mean() > 100 * goal.slow
    ]
    fine = {place: by_key["average"].mean() for place, by_key in columns.items()}
    best = min((place for place in fine if task.names[place - 1] not in slow), key=fine.__getitem__, default=None)
    error = max(by_key[key].max() for by_key in columns.values() for key in ("average error", "tail error"))
    unfit = [name for at, name in enumerate(task.names, 1) if name in slow or at not in columns]
    reasons = [f"at {name} {fates(lost[name], 'seeds')}" for name in unfit if name not in slow]
    for place, name in enumerate(task.names, 1):
        if name in slow and name not in printed["slow"]:
            way = 100 * task.stage_s[0, place, goal.batch] / task.stage_s[0, -1, goal.batch]
            makes = f"{name} makes {columns[place]['slow'].mean():.1f} % of the batches slow"
            reasons.append(f"{makes}, as the way to it takes {way:.0f} % of the time without exits")
    at = next((by_key for place, by_key in columns.items() if task.names[place - 1] == "H13"), None)
    if at is not None:
        share = printed["slow_share"]
        rows.append(row("slow batches", "H13", "ImageNet", "%", at["slow"], share, basis=PREDICTED))
    claims = [
        Claim("H1, H4, H7 and H10 make too many batches slow", "7.3", ", ".join(printed["slow"]), ", ".join(unfit),
              unfit == printed["slow"], "; ".join(reasons), CALIBRATED),
        Claim("H13 has the lowest average latency of the other exits", "7.3", "H13",
              "none" if best is None else task.names[best - 1], best is not None and task.names[best - 1] == "H13",
              "the log is drawn, not the paper's", CALIBRATED),
        Claim("Estimated and real latencies differ by less than 5 %", "7.3", f"< {printed['error']:g} %",
              f"at most {error:.2g} %", bool(error < printed["error"])),
    ]  # fmt: skip
    notes = ["Batches have 32 samples. Each exit has its own thresholds, as if it were the only one."]
    title = "Fig. 12: latency with an exit at different positions, ImageNet"
    return Item("pame_fig12", title, notes, rows, "block that the exit follows", claims)


def pame_fig13(_: Lab) -> Item:
    """The green areas of the inference-time matrices."""
    rows, allowed = [], {}
    for task in (IMAGENET, GLUE):
        batch, stage_s = max(SIZES), task.stage_s
        for place, name in enumerate(task.names, 1):
            times = time_row(stage_s, 0, place, batch, 1, batch)
            most = int(np.flatnonzero(times <= stage_s[0, -1, batch])[-1]) if times[0] <= stage_s[0, -1, batch] else 0
            allowed[task.name, name] = most
            block = float(name.removeprefix("H"))
            rows.append(Row("allowed batch", task.name, "second stage", "", most, x=block, basis=PREDICTED))
    last, before = allowed["ImageNet", "H31"], allowed["ImageNet", "H28"]
    bert = {allowed["GLUE", name] for name in GLUE.names}
    claims = [
        Claim("H31 allows a larger second batch than H28, whose exit has a bridge", "7.4", "larger",
              f"{last} and {before}", last > before),
        Claim("BERT's boundary is flat, because batches are padded", "7.4", "flat",
              f"{min(bert)} to {max(bert)}", max(bert) - min(bert) <= max(SIZES) // 8, basis=GIVEN),
    ]  # fmt: skip
    notes = ["The figure shows the largest second batch with which a batch of 64 takes no longer than without exits."]
    title = "Fig. 13: batch sizes that are allowed for the second stage"
    return Item("pame_fig13", title, notes, rows, "block that the exit follows", claims)


def pame_fig14(lab: Lab) -> Item:
    """Samples that move on, by the precision to keep."""
    rows = []
    for precision in (0.98, 0.99, 0.995):
        label, moving = f"{100 * precision:g} %", []
        for task in TASKS:
            goal = ExitGoal(batch=MEDIUM, precision=precision)
            values = 100 * np.array([1 - rehearsal.judged.exit_shares[0] for rehearsal in all_seeds(task, lab, goal)])
            moving.append(values)
            rows.append(row("moving on", task.name, f"precision {label}", "%", values, basis=PREDICTED))
        printed, mean = PUBLISHED["moving_on"].get(label), np.mean(moving, axis=0)
        rows.append(row("moving on", "all tasks", f"precision {label}", "%", mean, printed, basis=PREDICTED))
    notes = [
        "Samples move on behind the first exit, n = 32. The paper's means are over nine tasks, and ours over three."
    ]
    return Item("pame_fig14", "Fig. 14: samples that move on", notes, rows, picture="bars")


def pame_fig15(lab: Lab) -> Item:
    """Gain of a second exit."""
    printed, goal = PUBLISHED["second_exit"], ExitGoal(batch=min(SIZES))
    gains: dict[str, list[float]] = {"average": [], "tail": []}
    seconds: list[str] = []
    later: list[CandidateVerdict] = []
    for rehearsal in all_seeds(QNLI, lab, goal):
        choice = rehearsal.choice
        one = replay_exits(rehearsal.judged_by, QNLI.stage_s, goal.batch, choice.exits[:1], choice.settings[:1])
        gains["average"].append(change(rehearsal.judged.average_s, one.average_s))
        gains["tail"].append(change(rehearsal.judged.tail_s, one.tail_s))
        seconds.append(QNLI.names[choice.exits[1] - 1] if len(choice.exits) > 1 else "none")
        later += choice.steps[1].verdicts if len(choice.steps) > 1 else []
    rows = [
        row(f"{key} latency", "second exit", "QNLI", "%", np.array(values), printed[key], basis=CALIBRATED)
        for key, values in gains.items()
    ]
    shown = ", ".join(f"{name} {count}" for name, count in Counter(seconds).most_common())
    reason = f"behind the first exit {fates(later, 'candidates of all seeds')}" if later else ""
    if slow := [100 * (verdict.slow_share or 0.0) for verdict in later if verdict.outcome == "slow"]:
        reason += (
            f"; the best of these makes {min(slow):.1f} % of the batches slow, where {100 * goal.slow:g} % are allowed"
        )
    claim = Claim(
        "A second exit is found, and gains little", "7.5", "H8: -0.8 % and -5 %",
        f"{rows[0].ours:.1f} % and {rows[1].ours:.1f} % ({shown} of {len(seconds)} seeds)",
        2 * seconds.count("none") < len(seconds) and bool(min(rows[0].ours, rows[1].ours) > -10),
        reason, CALIBRATED,
    )  # fmt: skip
    notes = ["Changes are against the first exit alone, n = 16."]
    return Item("pame_fig15", "Fig. 15: QNLI with a second exit", notes, rows, claims=[claim], picture="bars")


def pame_fig17(lab: Lab) -> Item:
    """Parts of the latency of samples that reach the end."""
    task, batch, printed = IMAGENET, MEDIUM, PUBLISHED["breakdown"]
    place = task.names.index("H13") + 1
    parts = _parts(task, place)
    shares: dict[str, list[float]] = {"exit": [], "check": [], "movement": []}
    for seed in lab.first(SEEDS):
        rehearsal = rehearse(task, seed, lab, ExitGoal(batch=batch), only=place)
        moving = rehearsal.judged.moving[0] if rehearsal.choice.exits else np.full(1, batch)
        some = moving[moving > 0]
        model_s = task.stage_s[0, place, batch] - parts["check"][batch]
        whole_s = model_s + np.mean(task.stage_s[place, -1, some] - parts["movement"][some])
        shares["exit"].append(100 * parts["exit"][batch] / whole_s)
        total_s = whole_s + parts["check"][batch] + np.mean(parts["movement"][some])
        shares["check"].append(100 * parts["check"][batch] / total_s)
        shares["movement"].append(100 * float(np.mean(parts["movement"][some])) / total_s)
    rows = [
        row(label, "H13", "ImageNet", "%", np.array(shares[key]), printed[key], basis=CALIBRATED)
        for key, label in (("exit", "bridge and head"), ("check", "exit check"), ("movement", "data movement"))
    ]
    rows += _bert()
    notes = [
        (
            "Batches have 32 samples, and some samples of each reach the end. Data movement includes the start of "
            "the second stage."
        ),
        "MPII's 27.9 % is left out, as the paper does not state what the layers of its head cost.",
    ]
    return Item("pame_fig17", "Fig. 17: what the latency of two stages is made of", notes, rows, picture="bars")


def _parts(task: PaperTask, place: int) -> dict[str, np.ndarray]:
    """Time of an exit's bridge and head, of its check, and of the start behind it, by batch size."""
    table = task.table
    of_role = {"head": "exit", "check": "check", "resume": "movement"}
    parts = {name: np.zeros(table.b_max + 1) for name in of_role.values()}
    for layer in table.layers:
        if layer.exit == place:
            parts[of_role[layer.role]][1:] += layer.time_s
    return parts


def _bert() -> list[Row]:
    """Section 3.2: eleven exits make BERT-base slower."""
    printed, batch = PUBLISHED["bert_ms"], 16
    stage_s = GLUE.stage_s
    places = range(len(stage_s) - 1)
    whole = Row("latency", "BERT-base", "no exits, n = 16", "ms", 1e3 * float(stage_s[0, -1, batch]))
    eleven = sum(float(stage_s[place, place + 1, batch]) for place in places)
    return [
        replace(whole, paper=printed["whole"], basis=CALIBRATED),
        Row("latency", "BERT-base", "11 exits, n = 16", "ms", 1e3 * eleven, paper=printed["eleven"], basis=CALIBRATED),
    ]
