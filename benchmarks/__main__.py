"""Run the benchmarks: ``make bench``.

Writes every sample to ``results.json``, and most tables into ``README.md``.
``--smoke`` runs everything once at small sizes, asserts that all agree, and
writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import adaptation
import commands
import exits
import kernel
import partition
import peers
import scale
import simulator
import subgraphs
import subnets
from pages import write_part
from rounds import HERE, BenchmarkTable
from sources import RESULTS

from tables import machine_text, markdown, read_results, write_results

ROOT = HERE.parent
FILE_ONLY = {"cold", *(f"scale-{axis.key}" for axis in scale.FULL)}
"""Tables that the file has and the page leaves out."""


def full(requests: int, rounds: int, peers_python: Path | None) -> Iterator[BenchmarkTable]:
    """Every table, at the sizes that are published."""
    sizes = [size for size in scale.REQUESTS.sizes if size < requests]
    yield kernel.measure(min(9, rounds))
    yield kernel.measure_bound(min(5, rounds))
    yield kernel.measure_built(min(5, rounds))
    yield kernel.measure_cold(min(7, rounds))
    yield commands.measure(min(9, rounds))
    yield simulator.measure(min(5, rounds), 1_000_000, 10_000)
    yield exits.measure(min(5, rounds))
    yield adaptation.measure(min(5, rounds), 1_000_000)
    yield partition.measure(min(5, rounds))
    yield subnets.measure(min(5, rounds), 1_000_000)
    yield subgraphs.measure(min(5, rounds))
    for axis in scale.FULL:
        yield scale.measure(axis, min(5, rounds))
    yield scale.measure(scale.REQUESTS._replace(sizes=[*sizes, requests]), 1)  # the longest takes a minute or two
    yield peers.measure(peers_python)


def smoke() -> Iterator[BenchmarkTable]:
    """Every table once, small, without the table of commands, which ``make ratios`` runs."""
    yield kernel.measure(1, dsps=64)
    yield kernel.measure_bound(1, [("pynq-z1", None)], ["resnet50"])
    yield kernel.measure_built(1, [("resnet50", "zc706")])
    yield simulator.measure(1, 1_000, 500)
    yield exits.measure(1, 500, 5)
    yield adaptation.measure(1, 1_000)
    yield partition.measure(1, [2], [2])
    yield subnets.measure(1, 1_000)
    yield subgraphs.measure(1, 40, 576.0)
    for axis in scale.SMALL:
        yield scale.measure(axis, 1)
    yield peers.measure(None)


def write_page(results: Path) -> None:
    """Put the tables of a run into the page."""
    machine, tables = read_results(results)
    where, shown = machine_text(machine), [table for table in tables if table.key not in FILE_ONLY]
    write_part(ROOT / "benchmarks" / "README.md", "benchmarks", "\n".join([where, *map(markdown, shown)]))


def main() -> None:
    """Measure and write, or only run once."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="everything once at small sizes; write nothing")
    parser.add_argument("--requests", type=int, default=scale.REQUESTS.sizes[-1], help="most requests of a trace")
    parser.add_argument("--rounds", type=int, default=9, help="most rounds of a table; few are quick and less certain")
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="interpreter that has SCALE-Sim and ZigZag")
    parser.add_argument("--out", type=Path, metavar="JSON", help="write this file only")
    parser.add_argument("--render", action="store_true", help="measure nothing; write the page from results.json")
    options = parser.parse_args()
    if options.render:
        write_page(RESULTS)
        return
    tables = []
    begin = time.perf_counter()
    for table in smoke() if options.smoke else full(options.requests, options.rounds, options.peers):
        print(markdown(table), flush=True)
        tables.append(table)
    print(f"{time.perf_counter() - begin:.0f} s in all", file=sys.stderr)
    if options.smoke:
        return
    write_results(options.out or RESULTS, tables, " ".join(["python", "benchmarks", *sys.argv[1:]]))
    if options.out is None:
        write_page(RESULTS)


if __name__ == "__main__":
    main()
