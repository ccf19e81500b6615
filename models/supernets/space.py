"""The SubNets of a SuperNet: the choices of each, its text in one line, and SubNets drawn or picked."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ...formats import InputError, validate
from .schema import SubNet, SuperNetFile

KEYS = {"d": "depth", "e": "expand ratio", "k": "kernel", "w": "width multiplier", "r": "resolution"}
"""The elastic dimensions, by the letter that a SubNet has for each."""


def choices(file: SuperNetFile) -> dict[str, list[list[Any]]]:
    """The choices of each place of each elastic dimension, in the order in which a SubNet lists them."""
    stages = file.stages
    each = [stage for stage in stages for _ in range(stage.slots)]
    width = [file.width for part in file.parts if part.width] if len(file.width) > 1 else []
    return {
        "d": [list(stage.depth) for stage in stages if len(stage.depth) > 1],
        "e": [list(stage.expand) for stage in each if len(stage.expand) > 1],
        "k": [list(stage.kernel) for stage in each if len(stage.kernel) > 1],
        "w": [list(multipliers) for multipliers in width],
        "r": [list(file.resolutions)] if len(file.resolutions) > 1 else [],
    }


def full(file: SuperNetFile, subnet: SubNet, path: Path) -> SubNet:
    """A SubNet with one value for each place. A dimension that it does not state is the largest; r is the input's."""
    faults, values = [], {}
    for key, places in choices(file).items():
        given: list[Any] = getattr(subnet, key) if key != "r" else [] if subnet.r is None else [subnet.r]
        where = f'{path}: SubNet "{subnet.name}": {key}'
        if not given:
            values[key] = [] if key == "r" else [place[-1] for place in places]
            continue
        if not places:
            faults.append(f"{where}: expected none, as the {KEYS[key]} is not elastic, found {given[0]:g}")
            continue
        stated = given * len(places) if len(given) == 1 else given
        if len(stated) != len(places):
            faults.append(f"{where}: expected 1 value or {len(places)}, found {len(given)}")
            continue
        wrong = [(n, value) for n, value in enumerate(stated) if value not in places[n]]
        if wrong:
            number, value = wrong[0]
            at = f"[{number}]" if len(given) > 1 else ""
            faults.append(f"{where}{at}: expected {_or(places[number])}, found {value:g}")
        values[key] = stated
    if faults:
        raise InputError(faults)
    return subnet.model_copy(update=values | {"r": values["r"][0] if values["r"] else None})


def _or(values: Sequence[float]) -> str:
    *some, last = (f"{value:g}" for value in values)
    return f"{', '.join(some)} or {last}" if some else last


def spec(subnet: SubNet) -> str:
    """A SubNet in one line, e.g. ``d=0,e=0.2,w=0.65``; equal values are written once."""
    lists = {key: getattr(subnet, key) for key in "dekw"} | {"r": [] if subnet.r is None else [subnet.r]}
    short = {key: values[:1] if len(set(values)) == 1 else values for key, values in lists.items() if values}
    return ",".join(f"{key}={'-'.join(f'{value:g}' for value in values)}" for key, values in short.items())


def parse_subnet(text: str, name: str) -> SubNet:
    """A SubNet from one line, e.g. ``d=0,e=0.2,w=0.65`` or ``d=0-1-0-0-0``: values by place, with hyphens between."""
    content: dict[str, Any] = {}
    for pair in text.split(","):
        key, equal, values = pair.partition("=")
        if not equal or key not in KEYS or key in content:
            keys = ", ".join(KEYS)
            raise InputError(f'{name}: expected KEY=VALUE once for each of {keys}, found "{pair}"; e.g. d=0,e=0.2')
        if not re.fullmatch(r"[0-9.]{1,9}(-[0-9.]{1,9})*", values):
            raise InputError(f'{name}: {key}: expected numbers with hyphens between, found "{values}"')
        try:
            content[key] = [float(value) if key in "ew" else int(value) for value in values.split("-")]
        except ValueError:
            raise InputError(f'{name}: {key}: expected numbers with hyphens between, found "{values}"') from None
    if "r" in content:
        content["r"] = content["r"][0] if len(content["r"]) == 1 else content["r"]
    subnet = validate(SubNet, content | {"name": "given"}, Path(name))
    return subnet.model_copy(update={"name": spec(subnet)})


def smallest(file: SuperNetFile) -> SubNet:
    """The SubNet with the smallest value of every dimension; the input keeps its size."""
    places: dict[str, Any] = {
        key: [allowed[0] for allowed in lists] for key, lists in choices(file).items() if key != "r"
    }
    return SubNet(name="smallest", **places)


def draw(file: SuperNetFile, count: int, seed: int) -> list[SubNet]:
    """SubNets ``r1``, ``r2``, ..., in which every place has each of its choices with the same probability."""
    source = random.Random(f"subnets of {file.name}, seed {seed}")  # noqa: S311  (no secret)
    places = {key: lists for key, lists in choices(file).items() if key != "r"}
    subnets = []
    for number in range(1, count + 1):
        drawn: dict[str, Any] = {key: [source.choice(allowed) for allowed in lists] for key, lists in places.items()}
        subnets.append(SubNet(name=f"r{number}", **drawn))
    return subnets


def nearest(subnets: Iterable[SubNet], goals: Sequence[float], measure: Callable[[SubNet], float]) -> list[SubNet]:
    """For each goal the SubNet whose measure is nearest to it, each SubNet at most once; of equals the first."""
    left = [(measure(subnet), subnet) for subnet in subnets]
    chosen = []
    for goal in goals:
        best = min(range(len(left)), key=lambda i: abs(left[i][0] - goal))
        chosen.append(left.pop(best)[1])
    return chosen
