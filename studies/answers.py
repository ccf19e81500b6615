"""Answers that are drawn for the exits of a network, a design, a table or a plan: for those who have measured none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..dse import read_design
from ..formats import InputError, is_folder, read_table
from ..formats.array_types import Floats
from ..models.candidates import classes_of, classes_told_apart, find_candidates
from ..models.loader import NETWORKS, read_network_file
from ..models.schema import NetworkFile
from ..tables import read_latency
from ..tables.exit_plan import NETWORK_FILE, TIMES_FILE, InferenceTime, read_plan
from ..tables.files import DESIGN_FILE, EXITS_FILE
from ..traffic.answers import AnswerModel, as_measured, draw_answers
from ..traffic.measures import Measure
from ..traffic.samples import Samples


class AnsweringExits(NamedTuple):
    """Exits that answer, as places of possible exits that lie evenly over the depth of a network."""

    network: str
    places: int
    used: Sequence[int]  # places with an exit, counted from 1, in order
    classes: int | None  # that the heads tell apart; ``None`` if it is not known


def find_exits(named: str, *, own: bool = False) -> AnsweringExits:
    """Find the exits of a network's candidates, or of the network itself, or of a folder with a design, table or plan.

    ``own``: of a network that also has candidates, take its exits.
    """
    if is_folder(named):
        answering = _of_folder(Path(named))
    else:
        file, path = read_network_file(named)
        candidates = _candidates(file, path)
        if candidates and not own:
            answering = AnsweringExits(
                file.name, len(candidates), range(1, len(candidates) + 1), classes_of(file, path)
            )
        else:
            exits = [exit_.after for exit_ in file.exits]
            answering = _placed(file.name, exits, candidates, classes_of(file, path))
    if not answering.used:
        raise InputError(
            f"network: expected a network with exits{'' if own else ' or candidates'}, found none in {named}"
        )
    return answering


def _candidates(file: NetworkFile, path: Path) -> list[str]:
    """The layers that candidates follow."""
    return [] if file.candidates is None else [candidate.after for candidate in find_candidates(file, path)]


def _of_folder(folder: Path) -> AnsweringExits:
    if (folder / EXITS_FILE).exists():
        plan, times = read_plan(folder), read_table(InferenceTime, folder / TIMES_FILE)
        classes = classes_of(*read_network_file(str(folder / NETWORK_FILE)))
        return AnsweringExits(plan.network, len(times.candidates), [exit_.place for exit_ in plan.exits], classes)
    classes = None
    if (folder / DESIGN_FILE).exists():
        network = read_design(folder)[0].network
        name, exits, classes = network.name, network.exits, classes_told_apart(network)
    else:
        table = read_latency(folder)
        name, exits = table.network, table.exits
    known = read_network_file(name) if name in NETWORKS.names() else None
    classes = classes or (known and classes_of(*known))
    return _placed(name, [exit_.name for exit_ in exits[:-1]], _candidates(*known) if known else [], classes)


def _placed(name: str, exits: Sequence[str], candidates: Sequence[str], classes: int | None) -> AnsweringExits:
    """Exits at the places of the candidates that they are; evenly spread if one of them is none."""
    if set(exits) <= set(candidates):
        return AnsweringExits(name, len(candidates), [candidates.index(exit_) + 1 for exit_ in exits], classes)
    return AnsweringExits(name, len(exits), range(1, len(exits) + 1), classes)


def draw_log(
    exits: AnsweringExits,
    model: AnswerModel,
    count: int,
    seed: int,
    *,
    measure: Measure,
    values: int = 1,
    difficulty: float = 0.0,
) -> Samples:
    """Draw answers at exits, whose classes take the place of the model's; a mean ``difficulty`` of 0 is usual."""
    model = replace(model, classes=exits.classes or model.classes)
    drawn = draw_answers(model, exits.places, count, seed, values=values, difficulty=difficulty)
    kept = [*(place - 1 for place in exits.used), exits.places]
    sure: Floats = np.take(drawn.confidences, kept, axis=1)
    right: NDArray[Any] = np.take(drawn.correct, kept, axis=1)
    return as_measured(replace(drawn, confidences=sure, correct=right), measure, model.classes)
