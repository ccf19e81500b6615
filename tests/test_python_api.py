"""What the packages export to users of Python: paths as texts, short reprs, columns for data frames."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import fluidb
import numpy as np
import pytest
from builders import DATA, DUEL, ROOT, table_of
from fluidb import dse, formats, models, platforms, plots, serving, studies, tables, traffic
from fluidb.dse.device.tabulate import tabulate_device, write_device
from fluidb.dse.partition.study import study
from fluidb.dse.partition.tabulate import write_partition
from fluidb.dse.subgraphs.search import find_subgraphs, write_subgraphs
from fluidb.formats import InputError
from fluidb.models.importers import import_network
from fluidb.models.loader import read_network_file
from fluidb.models.rows import cut_into_rows
from fluidb.models.supernets import load_family
from fluidb.plots.report import make_report
from fluidb.serving import Requests, find_policy, serve, simulate
from fluidb.studies.adapt import serve_adaptively
from fluidb.tables.files import MADE_FROM
from fluidb.tables.partition import PartitionOptions
from fluidb.tables.subgraphs import SubGraphOptions

PACKAGES = "dse formats models models.supernets platforms plots serving studies tables traffic".split()  # noqa: SIM905
PAGE = (ROOT / "docs" / "python-api.md").read_text()


def exported() -> dict[str, Callable[..., Any]]:
    """The functions that packages export and those that docs/python-api.md imports or names, and ``Requests``."""
    names = {f"fluidb.{package}.{name}" for package in PACKAGES
             for name in import_module(f"fluidb.{package}").__all__}  # fmt: skip
    for module, listed in re.findall(r"^from (fluidb\S+) import (.+)$", PAGE, flags=re.MULTILINE):
        names |= {f"{module}.{name.strip()}" for name in listed.split(",")}
    names |= {name for name in re.findall(r"`(fluidb(?:\.\w+)+)", PAGE) if name.count(".") > 2}
    found: dict[str, Callable[..., Any]] = {}
    for name in sorted(names):
        module, _, last = name.rpartition(".")
        item = getattr(import_module(module), last, None)
        if inspect.isfunction(item) or item is Requests:
            found[name.removeprefix("fluidb.")] = item
    return found


def stated_types(function: Callable[..., Any]) -> str:
    return " ".join(str(value.annotation) for value in inspect.signature(function).parameters.values())


TAKE_PATHS = {
    name: item for name, item in exported().items() if re.search("Path|AnyTable|AnyServed", stated_types(item))
}


def _partition():
    rows = cut_into_rows(*read_network_file("alexnet_cifar10"))
    (found,) = study(rows, platforms.load_platform("edgesp-a", kind=platforms.Cluster), PartitionOptions(), [1])
    return found.chosen


def _subgraphs():
    chip = platforms.load_platform("sushi-zcu104", kind=platforms.Accelerator)
    return find_subgraphs(load_family("ofa_resnet50"), chip, SubGraphOptions(columns=2))


def _replay(record: bool = False):
    table = tables.read_latency("tiny")
    trace = traffic.read_trace("t.csv")
    return simulate(table, traffic.prepare(trace, [row.rate for row in table.exits], slo_s=1.0), "fluid", record=record)


SMALL = dse.SearchOptions(b_max=1)
FEW = studies.CapacityOptions(slo_s=1.0, count=80, max_requests=80)

CALLS = {
    "dse.device.tabulate.write_device": lambda: write_device(
        tabulate_device(
            models.load_network("tiny.toml"), platforms.load_platform("rtx-2080-ti", kind=platforms.Device)
        ),
        "new",
    ),
    "dse.partition.tabulate.write_partition": lambda: write_partition("new", _partition()),
    "dse.subgraphs.search.write_subgraphs": lambda: write_subgraphs(_subgraphs(), "new"),
    "dse.configure": lambda: dse.configure("tiny.toml", "pocket.toml", dse.Tile(8, 2, 4), SMALL),
    "dse.find_front": lambda: dse.find_front("tiny.toml", "pocket.toml", SMALL),
    "dse.search": lambda: dse.search("tiny.toml", "pocket.toml", SMALL),
    "dse.tabulate_design": lambda: dse.tabulate_design(
        "tiny.toml", "pocket.toml", SMALL, dse.search("tiny.toml", "pocket.toml", SMALL)
    ),
    "dse.tabulate_each": lambda: dse.tabulate_each(
        "tiny.toml", "pocket.toml", SMALL, dse.search("tiny.toml", "pocket.toml", SMALL)
    ),
    "dse.read_design": lambda: dse.read_design("tiny"),
    "dse.write_design": lambda: dse.write_design("new", *dse.read_design("tiny")),
    "dse.write_latency": lambda: dse.write_latency("tiny"),
    "formats.as_loaded": lambda: formats.as_loaded("tiny.toml", models.Network, models.load_network, "a network"),
    "formats.check_beside": lambda: formats.check_beside(tables.read_latency("tiny"), "tiny/latency.json", MADE_FROM),
    "formats.check_folder": lambda: formats.check_folder("tiny", "", ""),
    "formats.check_free": lambda: formats.check_free("new", force=False, apart=["t.csv"]),
    "formats.check_labels": lambda: formats.check_labels("s.npz", np.array([0]), 1),
    "formats.check_named": lambda: formats.check_named("new"),
    "formats.check_resumable": lambda: formats.check_resumable("new", "", ours=False),
    "formats.held": lambda: formats.held("tiny"),
    "formats.is_folder": lambda: formats.is_folder("tiny"),
    "formats.is_input": lambda: formats.is_input("t.csv"),
    "formats.make_folder": lambda: formats.make_folder("new"),
    "formats.open_arrays": lambda: formats.open_arrays("s.npz").__enter__(),
    "formats.open_input": lambda: formats.open_input("t.csv").__enter__(),
    "formats.parse_toml": lambda: formats.parse_toml("tiny.toml"),
    "formats.read_bytes": lambda: formats.read_bytes("t.csv", 2**20),
    "formats.read_printed": lambda: formats.read_printed(formats.JsonRecord, "nowhere", "", "", ""),
    "formats.read_table": lambda: formats.read_table(tables.LatencyTable, "tiny/latency.json"),
    "formats.read_text": lambda: formats.read_text("t.csv"),
    "formats.read_toml": lambda: formats.read_toml(formats.Strict, "nowhere"),
    "formats.tidy": lambda: formats.tidy("tiny"),
    "formats.unreadable": lambda: formats.unreadable("t.csv", OSError()),
    "formats.validate": lambda: formats.validate(formats.Strict, {}, "t.csv"),
    "formats.write_directory": lambda: formats.write_directory("new", {"a": "b"}),
    "formats.write_file": lambda: formats.write_file("new", "b", replace=False),
    "formats.write_table": lambda: formats.write_table(tables.read_latency("tiny"), "new"),
    "models.importers.import_network": lambda: import_network("nowhere", "onnx"),
    "models.as_network": lambda: models.as_network("tiny.toml"),
    "models.load_network": lambda: models.load_network("tiny.toml"),
    "models.loader.read_network_file": lambda: read_network_file("tiny.toml"),
    "models.rows.cut_into_rows": lambda: cut_into_rows(read_network_file("alexnet_cifar10")[0], "nowhere"),
    "models.supernets.load_family": lambda: load_family("ofa_resnet50"),
    "platforms.as_board": lambda: platforms.as_board("pocket.toml"),
    "platforms.kind_of": lambda: platforms.kind_of("pocket.toml"),
    "platforms.load_platform": lambda: platforms.load_platform("pocket.toml"),
    "plots.check_picture": lambda: plots.check_picture("new.svg", replace=False, apart=["t.csv"]),
    "plots.report.make_report": lambda: make_report(["tiny"]),
    "plots.save": lambda: plots.save(import_module("matplotlib.figure").Figure(), "new.svg", replace=False),
    "serving.Requests": lambda: serve("tiny", Requests(trace="t.csv", samples="s.npz", slo_s=1.0), "fluid"),
    "serving.read_networks": lambda: serving.read_networks("nowhere"),
    "serving.serve": lambda: serve("tiny", Requests(trace="t.csv", slo_s=1.0), "fluid"),
    "serving.simulate": lambda: serving.simulate(
        "tiny", traffic.prepare(traffic.read_trace("t.csv"), [0.25, 0.35, 0.4], slo_s=1.0), "fluid"
    ),
    "serving.write_requests": lambda: serving.write_requests(_replay(), "new"),
    "serving.write_timeline": lambda: serving.write_timeline(_replay(record=True), "new"),
    "studies.adapt.serve_adaptively": lambda: serve_adaptively(
        "nowhere", Requests(trace="t.csv", samples="s.npz"), "pame"
    ),
    "studies.compare": lambda: studies.compare(studies.load_scenario("duel.toml"), "new", threads=1),
    "studies.find_capacity": lambda: studies.find_capacity(
        "tiny", "fluid", [serving.parse_requirement("mean <= 1s")], FEW
    ),
    "studies.load_scenario": lambda: studies.load_scenario("duel.toml"),
    "studies.meet_target": lambda: studies.meet_target("tiny", "s.npz", 1.0),
    "studies.sweep_thresholds": lambda: studies.sweep_thresholds(
        "tiny", Requests(trace="t.csv", samples="s.npz", slo_s=1.0), "fluid", [0.5]
    ),
    "tables.read_latency": lambda: tables.read_latency("tiny"),
    "tables.read_subgraphs": lambda: tables.read_subgraphs("nowhere"),
    "traffic.read_samples": lambda: traffic.read_samples("s.npz"),
    "traffic.read_trace": lambda: traffic.read_trace("t.csv"),
    "traffic.write_trace": lambda: traffic.write_trace(traffic.offline(3), "new"),
}
"""A call of every exported function that takes paths, with texts; ``new`` is what it writes."""


@pytest.mark.parametrize("name", TAKE_PATHS)
def test_every_path_may_be_a_text(name, tmp_path, tiny_design, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in (DATA / "tiny.toml", DATA / "pocket.toml", DUEL, DATA / "duel.csv"):
        shutil.copy(file, tmp_path)
    shutil.copytree(tiny_design, "tiny")
    traffic.write_trace(traffic.poisson(2000, 60, 1), Path("t.csv"))
    rng = np.random.default_rng(1)
    np.savez("s.npz", confidence=rng.random((50, 3)), correct=rng.random((50, 3)) < 0.7)
    assert not re.search(r"(?<!Any)Path\b", stated_types(TAKE_PATHS[name])), "takes an object only"
    try:
        CALLS[name]()
    except InputError as error:
        assert error.faults[0].startswith("nowhere")  # was looked for as a file


def test_names_and_texts_stand_for_what_they_name():
    """As on the command line; the answer is that for the objects."""
    network, board = models.load_network(DATA / "tiny.toml"), platforms.load_platform(DATA / "pocket.toml")
    assert dse.search(DATA / "tiny.toml", DATA / "pocket.toml", SMALL) == dse.search(network, board, SMALL)
    trace = traffic.offline(3)
    assert traffic.prepare(trace, [1.0], slo_s="200ms").slo_s.tolist() == [0.2] * 3
    drawn = traffic.prepare(trace, [1.0], slo_s="uniform:10ms,40ms", seed=1).slo_s
    assert len(set(drawn.tolist())) == 3
    table, timed = table_of([[1.0, 1.5], [1.0, 1.5]], [0.5, 0.5]), replace(trace, slo_s=np.array([4.0, 4.0, 9.0]))
    replay = simulate(table, timed, policy="fluid")
    prepared = traffic.prepare(timed, [0.5, 0.5])
    assert np.array_equal(replay.finish_s, simulate(table, prepared, "fluid").finish_s)
    assert serving.summarise(replay).percentile(99) == serving.summarise(replay).percentile("p99")
    assert serving.summarise(replay).percentile(99.9).name == "p99.9"


WRONG: Any = 5
ONE_EXIT = table_of([[1.0, 1.5]], [1.0])


def ran() -> serving.Summary:
    sent = traffic.prepare(traffic.offline(1), [1.0], slo_s=1.0)
    return serving.summarise(simulate(ONE_EXIT, sent, "fluid"))


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: dse.search(WRONG, "zc706"), "network: expected a network, or its name or file, found 5"),
        (lambda: dse.search("resnet50", WRONG), "platform: expected a board, or its name or file, found 5"),
        (lambda: dse.search("resnet5", "zc706"), 'unknown network "resnet5"; did you mean resnet50'),
        (
            lambda: traffic.prepare(traffic.offline(1), [1.0], slo_s="2"),
            "slo_s: expected a unit (ns, us, ms, s, min), found no unit",
        ),
        (lambda: traffic.prepare(ONE_EXIT, traffic.offline(1)), "trace: expected requests"),
        (lambda: simulate(ONE_EXIT, traffic.offline(1), "fluid"), "slo: expected a latency objective (SLO)"),
        (lambda: simulate(ONE_EXIT, WRONG, "fluid"), "traffic: expected a trace, or requests that `prepare` made"),
        (lambda: ran().percentile(98), 'percentile: expected one of p50, p90, p95, p99, p99.9, found "98"'),
        (lambda: fluidb.plan({"network": "resnet50"}), "question: platforms: expected this key, found none"),
        (lambda: fluidb.plan("nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_is_not_sensible_has_one_line(call, fault):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.faults[0].startswith(fault)


def test_clients_and_networks_are_plain_objects():
    """What the commands take as options and files, in a study and in its parts."""
    table = table_of([[1.0, 1.5], [1.0, 1.5]], [0.5, 0.5])
    networks = [
        serving.ServedNetwork(name="a", table=table, slo_s=4.0, share=3),
        serving.ServedNetwork(name="b", table=table, slo_s=9.0, admit="queue:1"),
    ]
    requests = Requests(trace=traffic.offline(400), clients=traffic.Clients(6, 0.5, exponential=True))
    required = [serving.parse_requirement("violation_rate[a] <= 90 %", networks=["a", "b"])]
    found = serving.serve(
        networks, requests, "fluid:between=edf,on_deadline=answer", requirements=required, record=True
    )
    sent = serving.prepare_requests(networks, requests, requests.read())
    replay = serving.simulate(networks, sent, "fluid:between=edf,on_deadline=answer")
    assert serving.figures_of(replay) == (found.summary, {network.name: network.summary for network in found.networks})
    assert found.requirements[0].value == found.networks[0].summary.violation_rate
    assert set(found.replay.columns()["network"]) == {"a", "b"}
    assert found.replay.runs is not None
    assert found.replay.refused is not None
    assert found.replay.refused.any()
    asked = [serving.parse_requirement("mean[b] <= 9 s", networks=["a", "b"])]
    calm = [replace(network, admit=None) for network in networks]
    capacity = studies.find_capacity(
        calm, "fluid", asked,
        studies.CapacityOptions(seeds=2, count=400, max_requests=800, clients=requests.clients),
    )  # fmt: skip
    assert capacity.clients is not None


def test_a_policy_may_be_a_text():
    table = table_of([[1.0, 1.5], [1.0, 1.5]])
    served = traffic.prepare(traffic.poisson(0.4, 200, 1), [0.5, 0.5], slo_s=9.0)
    found = [
        simulate(table, served, policy) for policy in ("fluid-slack:call=50ms", find_policy("fluid-slack:call=50ms"))
    ]
    assert serving.summarise(found[0]) == serving.summarise(found[1])
    takers = {name for name, item in exported().items() if re.search("Scheduler", stated_types(item))}
    assert takers == set()


@pytest.fixture(scope="module")
def results(tiny_design, tmp_path_factory) -> list[Any]:
    """What the functions of the packages return."""
    design, fbcb = dse.read_design(tiny_design)
    table = tables.read_latency(tiny_design)
    trace = traffic.poisson(2000, 500, 1)
    rng = np.random.default_rng(1)
    logged = tmp_path_factory.mktemp("samples") / "s.npz"
    np.savez(logged, confidence=rng.random((50, 3)), correct=rng.random((50, 3)) < 0.7)
    samples = traffic.read_samples(logged)
    options = dse.SearchOptions(b_max=2)
    served = serve(table, Requests(trace=trace, slo_s=1e-3), "fluid")
    return [
        design, fbcb, table, design.network, design.platform, options, trace, samples, served, served.replay,
        served.replay.traffic, served.summary, dse.explain(design, fbcb),
        dse.search(design.network, design.platform, options),
        dse.find_front(design.network, design.platform, options, [dse.Axis.DSP]),
        studies.sweep_thresholds(table, Requests(trace=trace, samples=logged, slo_s=1e-3), "fluid", [0.5, 0.9]),
        studies.find_capacity(
            table, "fluid", [serving.parse_requirement("mean <= 1s")], FEW
        ),
        studies.compare(studies.load_scenario(DUEL), threads=1)[0],
    ]  # fmt: skip


def test_a_result_is_told_in_a_line_or_two(results):
    texts = [repr(result) for result in results]
    assert max(map(len, texts)) < 500
    assert len({type(result) for result in results}) == len(results)
    for result, text in zip(results, texts, strict=True):
        assert text.startswith(f"{type(result).__name__}(")
    assert "b_max=2" in repr(results[5])
    assert "start_s=<500 float64>" in repr(results[9])


def test_columns_are_of_one_length_and_shown_in_a_notebook(results):
    tabular = [result for result in results if hasattr(result, "columns")]
    shown = {type(result).__name__ for result in tabular}
    assert shown == {"LatencyTable", "Trace", "Replay", "Explanation", "SearchResult", "Front", "Sweep", "Capacity",
                     "Comparison"}  # fmt: skip
    for result in tabular:
        columns = result.columns()
        (length,) = {len(column) for column in columns.values()}
        page = result._repr_html_()
        assert page.count("<tr>") == 1 + min(length, 10)
        assert ("rows</p>" in page) == (length > 10)
        assert all(f">{name}" in page.replace(" ", "") for name in columns)


def test_columns_hold_what_the_result_does(results):
    found = {type(result).__name__: result for result in results}
    table, explained = found["LatencyTable"], found["Explanation"]
    columns = table.columns()
    for begin, end, batch, time_s in zip(*columns.values(), strict=True):
        assert time_s == table.array()[begin, end, batch] > 0
    assert len(columns["batch"]) == sum(range(len(table.exits) + 1)) * table.b_max
    columns = explained.columns()
    causes = [f"{cause.value}_s" for cause in explained.parts_s]
    np.testing.assert_allclose(np.sum([columns[name] for name in causes], axis=0), columns["time_s"])
    at = columns["layer"].index("wide") + 1
    index = explained.index("wide")
    assert (columns["batch"][at], columns["time_s"][at]) == (2, explained.time_s[index, 1])
    assert columns["block_rows"][at] == explained.block_rows[index, 1] > 0
    assert (columns["k"][at], columns["B_R"][at]) == explained.chosen[index][1]
    comparison = found["Comparison"]
    last = comparison.points[-1].contenders[-1]
    assert comparison.columns()["contender"][-1] == last.name
    assert comparison.columns()["violation_rate"][-1] == last.metrics["violation_rate"].mean
