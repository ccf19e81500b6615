"""``fluidb models subnets``: the SubNets of a SuperNet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...formats.display import as_word
from ..declare import argument, option, written
from ..names import SUPERNET, named
from ..options import AsJson, Force
from ..render import facts, percent, progress, show, table

if TYPE_CHECKING:
    from ...models.supernets import Family
    from ...models.supernets.listing import Listing, SubNetSize

COUNT = "SubNets to draw at random, instead of the SubNets in the file."
NEAR = "Of 1000 drawn SubNets, the nearest to each size (7.6MB) or work (1.3GMAC)."

DRAWN = 1000
"""SubNets to draw before some of them are picked."""


def subnets(
    supernet: Annotated[
        str, argument("A SuperNet or a file of SubNets: a name, or a TOML file.", "SUPERNET", **named(SUPERNET))
    ],
    count: Annotated[int | None, option(COUNT, "N", min=1, max=10_000)] = None,
    near: Annotated[str | None, option(NEAR, "SIZE,...|WORK,...")] = None,
    seed: Annotated[int, option("Seed of the draws.")] = 0,
    output: Annotated[Path | None, written("Write the SubNets to this file.", "OUT.toml")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """List the SubNets of a SuperNet, draw some, or pick some by size.

    Each is a network of its own, SUPERNET:NAME, which every command takes. Sizes are with
    int8 weights (`fluidb docs sushi`).
    """
    from ...formats import check_free, write_file
    from ...models.supernets import SubNetsFile, list_subnets, load_family, pick, subnets_text

    family = load_family(supernet)
    if output is not None:
        check_free(output, force, apart=[family.path])
    if count is None and near is None:
        listed, origin = list_subnets(family), family.source
    else:
        draws = count or DRAWN
        with progress("SubNets") as report:
            listed = pick(family, draws, seed, **_goals(near), progress=report)
        origin = f"{draws:,} drawn at random, seed {seed}"
        origin += "" if near is None else f"; the nearest to {near}"
    if output is not None:
        kept = [size.subnet for size in listed.subnets]
        stated = family.accuracies if any(subnet.accuracy is not None for subnet in kept) else None
        made = SubNetsFile(
            supernet=family.key(output.parent), subnets=kept, accuracies=stated, sources={"subnets": origin}
        )
        write_file(output, subnets_text(made), replace=force)
    then = f"fluidb dse {as_word(output)} sushi-zcu104"
    record = {"output": output, **_subnets_record(family, listed), "source": origin}
    show(as_json, "fluidb.models-subnets-output/1", record, _subnets(family, listed, origin), output, then)


def _goals(near: str | None) -> dict[str, list[float]]:
    """Sizes in weights, of a byte each, or MACs."""
    from ...formats import InputError, parse_quantity

    if near is None:
        return {}
    texts = near.split(",")
    units = {"GMAC": 1e9, "MMAC": 1e6} if "MAC" in texts[0] else {"MB": 1e6}
    try:
        goals = [parse_quantity(text, dict.fromkeys(units, 1.0), "near", "7.6MB") for text in texts]
    except InputError as error:
        raise InputError(f"{error.faults[0]}, or 1.3GMAC; all of one kind") from None
    scales = [next(scale for unit, scale in units.items() if text.strip().endswith(unit)) for text in texts]
    values = [goal * scale for goal, scale in zip(goals, scales, strict=True)]
    return {"macs" if "GMAC" in units else "weights": values}


def _subnets(family: Family, listed: Listing, origin: str) -> Iterator[str]:
    from ...models.supernets.space import spec

    file = family.file
    ends = [f"{size.weights / 1e6:.2f} MB, {size.macs / 1e9:.2f} GMAC" for size in listed.ends]
    shares = f"{listed.shared_counted / 1e6:.3f} MB" if listed.subnets else None
    accuracies = family.accuracies.source if family.accuracies and listed.subnets[0].subnet.accuracy else None
    yield facts(
        {
            "SuperNet": f"{file.title} ({file.name})",
            "smallest, largest": "; ".join(ends),
            "SubNets": origin or None,
            "all share": shares and shares + (" of the layers that count" if file.uncounted else ""),
            "accuracy": accuracies,
        }
    )
    columns = ["MB", "MB that count"] if file.uncounted else ["MB"]
    rows = [
        (
            size.subnet.name,
            *(f"{weights / 1e6:.3f}" for weights in (size.weights, size.counted)[: len(columns)]),
            f"{size.macs / 1e9:.3f}",
            percent(size.subnet.accuracy, 1),
            spec(size.subnet),
        )
        for size in listed.subnets
    ]
    if rows:
        yield table(["SubNet", *columns, "GMAC", "accuracy", "d, e, k, w, r"], rows, text=True)


def _subnets_record(family: Family, listed: Listing) -> dict[str, object]:
    def record(size: SubNetSize) -> dict[str, object]:
        stated = size.subnet.model_dump(exclude_none=True)
        return {**stated, "weights": size.weights, "weights_counted": size.counted, "macs": size.macs}

    smallest, largest = map(record, listed.ends)
    return {
        "supernet": family.file.name,
        "smallest": smallest,
        "largest": largest,
        "subnets": [record(size) for size in listed.subnets],
        "shared_weights": listed.shared,
        "shared_weights_counted": listed.shared_counted,
        "accuracies": family.accuracies,
    }
