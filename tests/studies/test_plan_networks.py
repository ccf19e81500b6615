"""`fluidb plan` of a file of networks: against every choice by brute force, and its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from builders import POCKET, TINY, Run, board_of, table_of
from fluidb.dse import SearchOptions, search
from fluidb.dse.npu.design import tabulate_design
from fluidb.dse.npu.latency import tabulate_latency
from fluidb.dse.npu.tiles import Tile
from fluidb.formats import InputError, write_table
from fluidb.models import load_network
from fluidb.serving import Requests, parse_requirement, serve
from fluidb.serving.device_traffic import prepare_requests
from fluidb.serving.figures import FIGURES
from fluidb.serving.metrics import figures_of
from fluidb.serving.networks import ServedNetwork, read_networks
from fluidb.serving.replay import simulate
from fluidb.serving.requirements import Requirement, judge_all
from fluidb.serving.statistics import mean_interval
from fluidb.serving.summary import Figures
from fluidb.studies.plan import ask
from fluidb.studies.plan import field as plan_field
from fluidb.studies.plan import search as plan_search
from fluidb.studies.plan.clairvoyant import Clairvoyant
from fluidb.studies.plan.given import multipliers_of
from fluidb.studies.plan.kept import _content
from fluidb.studies.plan.networks import networks_of_file, one_behind_another
from fluidb.studies.plan.plan_traffic import PlanTraffic
from fluidb.studies.plan.policies import find_policies
from fluidb.studies.plan.problem import PlanProblem, problem_of
from fluidb.studies.plan.rates import PlanAnswer
from fluidb.studies.plan.rules import joint_limits
from fluidb.studies.plan.runs import networks_on
from fluidb.studies.plan.search import SearchRun, find_plans
from fluidb.studies.plan.sources import BoardSource, TableSource
from fluidb.tables.hardware import BuiltNpu, Cores
from fluidb.tables.latency import LatencyTable, read_latency
from fluidb.traffic import poisson
from fluidb.traffic.samples import Samples, write_samples

NAMES = ["a", "b"]
TRIED = [0.5]
POLICIES = ["serial:between=fcfs|edf", "fluid:between=priority"]
SPECS = ["serial:between=fcfs", "serial:between=edf", "fluid:between=priority"]


def sides(requirements: Sequence[Requirement], runs: Sequence[Figures]) -> list[bool | None]:
    """Whether each requirement surely holds on some seeds."""
    kept = []
    for requirement in requirements:
        figure = FIGURES[requirement.name]
        values = np.array([figure.of(run.of(requirement.network)) for run in runs], np.float64)
        interval = mean_interval(values) if np.isfinite(values).all() else None
        kept.append(False if interval is None else requirement.side(interval.within(figure.limits)))
    return kept


def drawn_samples() -> Samples:
    """Answers at three exits that are surer and more often right at later ones."""
    rng = np.random.default_rng(1)
    hard = rng.random((200, 1))
    return Samples(np.clip(1 - hard * [0.9, 0.6], 0, 1), rng.random((200, 3)) < 1 - hard * [0.6, 0.4, 0.3])


BOARD = board_of(4, kibit=8, gb_s=0.4)
BOARD = BOARD.model_copy(update={"port_words": BOARD.usual_port_words})  # few ports: few designs


@cache
def table_on(tile: Tile, kept: tuple[int, ...]) -> LatencyTable:
    """The latency table of a design for the network with some of its exits."""
    tiny = load_network(TINY)
    network = tiny.keep_exits(kept, [tiny.exits[place - 1] for place in (*kept, 3)])
    options = SearchOptions(b_max=2, tile=tile)
    return tabulate_latency(*tabulate_design(network, BOARD, options, search(network, BOARD, options)))


def board_problem(folder: Path, rate: float, texts: Sequence[str]) -> PlanProblem:
    """Two networks on every design of a small board: one with samples, one whose rates say who leaves."""
    write_samples(drawn_samples(), folder / "a.npz")
    (folder / "tiny.toml").write_text(Path(TINY).read_text())
    (folder / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nnetworks = [\n'
        '{ name = "b", network = "./tiny.toml", slo = "3ms", priority = 2 },\n'
        '{ name = "a", network = "./tiny.toml", samples = "a.npz", slo = "1ms", share = 2, priority = 1 },\n]\n'
    )
    models = [load_network(TINY)] * 2
    source = BoardSource(one_behind_another(models, ["b", "a"]), BOARD, SearchOptions(b_max=2), models)
    required, asked = [parse_requirement(text, networks=NAMES) for text in texts], networks_of_file(folder / "n.toml")
    given, known = asked.on([source])
    traffic = PlanTraffic(rate, None, 300, None, 5, 3, given=given, models=known)
    return problem_of([source], find_policies(POLICIES, asked.keys, [source]), required, traffic, TRIED)


def every_plan(problem: PlanProblem) -> Iterator[tuple[int, float, tuple[object, ...]]]:
    """Cost, accuracy and choice of each plan that keeps the requirements on the first seed, and on fresh ones."""
    (source,), samples, rate_per_s = problem.sources, drawn_samples(), problem.traffic.rate_per_s
    assert isinstance(source, BoardSource)
    assert rate_per_s is not None
    rows = [Tile(*map(int, column)) for column in source.tiles.T]
    places: list[float | None] = [None, *TRIED]
    for tile, levels in product(rows, product(places, repeat=2)):
        kept = tuple(place for place, at in enumerate(levels, 1) if at is not None)
        thresholds = [at for at in levels if at is not None]
        here = samples.at_exits(kept, [1] * len(kept))
        leaves = np.column_stack([here.confidences >= np.array(thresholds), np.ones(len(samples), np.bool_)])
        exits = leaves.argmax(axis=1)
        if set(range(len(kept))) - set(exits.tolist()):
            continue  # an exit where nobody leaves only takes time
        networks = []
        for name, exits_kept in (("b", (1, 2)), ("a", kept)):
            table = table_on(tile, exits_kept)
            drawn, at = (here, thresholds) if name == "a" else (None, None)
            slo_s, share, priority = {"a": (0.001, 2.0, 1), "b": (0.003, 1.0, 2)}[name]
            networks.append(
                ServedNetwork(
                    name=name, table=table, slo_s=slo_s, share=share, priority=priority, samples=drawn, threshold=at
                )
            )  # fmt: skip

        def run(spec: str, seed: int, networks: list[ServedNetwork] = networks) -> Figures:
            traffic = prepare_requests(networks, Requests(seed=seed), poisson(rate_per_s, 300, seed))
            return figures_of(simulate(networks, traffic, spec))

        for spec in SPECS:
            if not all(verdict.holds for verdict in judge_all(problem.requirements, run(spec, 5))):
                continue
            if all(sides(problem.requirements, [run(spec, seed) for seed in (6, 7, 8)])):
                right = float(here.correct[np.arange(len(samples)), exits].mean())
                yield tile.T_P * tile.T_C, right, (tile, kept, tuple(thresholds), spec)


@pytest.mark.parametrize(
    ("rate", "texts"),
    [(1500.0, ["violation_rate[a] <= 20 %", "p99[b] <= 6 ms", "accuracy[a] >= 70 %"]),
     (2600.0, ["p95[a] <= 1.2 ms", "p95[b] <= 5 ms"]), (3200.0, ["violation_rate <= 25 %", "mean[b] <= 2.5 ms"])],
)  # fmt: skip
def test_on_a_board_the_front_is_that_of_every_plan(
    rate: float, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each design with each setting of the exits, policy and rule between the networks, all simulated whole."""
    monkeypatch.setattr(plan_field, "WAVE", 2)
    monkeypatch.setattr(plan_search, "REFINED", 4)
    problem = board_problem(tmp_path, rate, texts)
    plans = sorted(every_plan(problem), key=lambda plan: (plan[0], -plan[1]))
    front: list[tuple[int, float]] = []
    for cost, right, _ in plans:
        if not front or right > front[-1][1]:
            front.append((cost, right))
    searched = find_plans(problem, run=SearchRun(threads=1))
    assert front
    assert [(plan.cost, plan.accuracy) for plan in searched.front] == front
    (source,), known = problem.sources, {choice for *_, choice in plans}
    for plan in searched.front:
        part = problem.settings[plan.numbers.setting].of_each[1]
        policy = problem.policies[plan.numbers.policy].spec
        assert (source.tile(plan.numbers.row), part.kept, part.thresholds, policy) in known


def test_only_a_run_knows_how_many_of_all_answers_are_right(tmp_path: Path):
    """What is required of one network excludes settings before any run; what is required of both does not."""
    of_both, of_one = (board_problem(tmp_path, 1500.0, [f"{figure} >= 99 %"]) for figure in ("accuracy", "accuracy[a]"))
    assert of_both.pairings == of_both.every_pairing
    assert of_one.every_pairing
    assert not of_one.pairings


def test_no_run_is_better_than_the_bounds_of_all_networks_together(tmp_path: Path):
    """Of each network as many are late as may be: so are together; and a scheduler that knows all has no more."""
    problem, bound = (
        board_problem(tmp_path, 3000.0, ["violation_rate[a] <= 5 %", "violation_rate[b] <= 5 %"]),
        np.zeros(3),
    )
    clairvoyant = Clairvoyant(problem.sources[0], problem.sources[0].layer_times(0), [1, 1], problem.settings[0].lasts)
    for number, setting in enumerate(problem.settings):
        traffic, served = problem.drawn(setting, 5), networks_on(problem, 0, 0)(number)
        for policy in problem.policies:
            run = simulate(served, traffic.device, policy)
            late = {name: run.violated[traffic.device.whole.trace.network == name] for name in NAMES}
            required = [Requirement("", "violation_rate", "<=", float(late[name].mean()), name) for name in NAMES]
            *each, together = joint_limits(required, traffic)
            assert [limit.allowed for limit in each] == [int(late[name].sum()) for name in NAMES]
            assert together.allowed == int(run.violated.sum())
            limits = *each, together
            least = [clairvoyant.late(setting.kept, traffic, limit.longer_than_s, by_layer=False) for limit in limits]
            assert all(few <= limit.allowed for few, limit in zip(least, limits, strict=True))
            bound += least
    assert bound.all()


def write_hardware(folder: Path, factor: float, pe: int | None) -> None:
    """The tables of two networks on a design with a number of multipliers, or on a device."""
    for name, time_s in (("first", 0.02), ("second", 0.05)):
        npus = None
        if pe is not None:
            npus = [BuiltNpu(board="b", tile=[8, 1, pe], clock_mhz=1.0, bandwidth_gb_s=1.0, word_bits=16)]
        table = table_of([[factor * time_s, 1.5 * factor * time_s]])
        place = folder / name
        place.mkdir(parents=True)
        write_table(table.model_copy(update={"network": name, "npus": npus}), place / "latency.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three designs, the dearest first, and a file of networks with traffic of their own."""
    for name, factor, pe in (("large", 0.4, 30), ("small", 1.6, 10), ("middle", 0.8, 20)):
        write_hardware(tmp_path / name, factor, pe)
    (tmp_path / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nduration = "40s"\nnetworks = [\n'
        '{ name = "a", table = "large/first", slo = "100ms", priority = 1, rate = 10 },\n'
        '{ name = "b", table = "large/second", slo = "1s", priority = 2, clients = 1, think = "exponential:100ms" },\n'
        "]\n"
    )
    return tmp_path


def answer_of(
    file: Path, texts: Sequence[str], hardware: Sequence[str], runs: Path | None = None, **more: object
) -> PlanAnswer:
    """The answer for a file of networks on designs in folders beside it, each with every policy."""
    places = [str(file.parent / name) for name in hardware]
    return ask.plan(
        {"network": str(file), "platforms": places, "require": list(texts), "policy": POLICIES, "seeds": 3, "seed": 3}
        | more,
        runs=runs,
        threads=1,
    )


@pytest.mark.parametrize(
    "texts",
    [["violation_rate[a] <= 20 %"], ["violation_rate[a] <= 2 %", "processing_rate[b] >= 4 /s"],
     ["mean[a] <= 62 ms", "processing_rate[b] >= 2 /s"], ["mean[a] <= 1 ms"]],
)  # fmt: skip
def test_of_given_designs_the_answer_is_that_of_every_choice(texts: list[str], folder: Path):
    """Arrivals and clients in one run: the cheapest design with a policy that holds on the first and on fresh seeds."""
    required, kept = [parse_requirement(text, networks=NAMES) for text in texts], []
    for cost, name in ((10, "small"), (20, "middle"), (30, "large")):
        tables = [read_latency(folder / name / network) for network in ("first", "second")]
        networks = read_networks(folder / "n.toml", tables)

        def run(spec: str, seed: int, networks: list[ServedNetwork] = networks) -> Figures:
            traffic = prepare_requests(networks, Requests(seed=seed), None)
            return figures_of(simulate(networks, traffic, spec))

        kept += [
            (cost, name, spec)
            for spec in SPECS
            if all(verdict.holds for verdict in judge_all(required, run(spec, 3)))
            and all(sides(required, [run(spec, seed) for seed in (4, 5, 6)]))
        ]
    answer = answer_of(folder / "n.toml", texts, ["large", "small", "middle"])
    front = [
        (int(member.plan.cost), Path(problem.sources[member.plan.numbers.source].name).name,
         problem.policies[member.plan.numbers.policy].spec)
        for member in answer.front
        for problem in [member.search.problem]
    ]  # fmt: skip
    assert front == kept[:1]


def test_simulations_of_a_trace_that_was_edited_are_not_believed(folder: Path):
    """The file has its name and as many requests as before, which no longer arrive at once."""
    text = (folder / "n.toml").read_text().replace("rate = 10", 'trace = "a.csv"')
    (folder / "n.toml").write_text(text)
    hardware, texts, plans = ["large", "small", "middle"], ["mean[a] <= 200 ms"], []
    for between_s in (0.001, 0.2):
        rows = "".join(f"{number},{between_s * number}\n" for number in range(60))
        (folder / "a.csv").write_text(f"request_id,arrival_s\n{rows}")
        answer = answer_of(folder / "n.toml", texts, hardware, runs=folder / "kept")
        plans.append([member.plan.cost for member in answer.front])
    assert plans == [[30], [10]]


def test_networks_may_share_a_rate_and_one_alone_may_have_clients(folder: Path):
    text = (folder / "n.toml").read_text().replace('duration = "40s"\n', "")
    shared = text.replace(", rate = 10", "").replace(', clients = 1, think = "exponential:100ms"', "")
    (folder / "shared.toml").write_text(shared)
    (member,) = answer_of(folder / "shared.toml", ["busy_share <= 60 %"], ["middle"], rate=10, count=500).front
    tables = [read_latency(folder / "middle" / name) for name in ("first", "second")]
    networks = read_networks(folder / "shared.toml", tables)
    runs = [
        serve(networks, Requests(trace=poisson(10.0, 500, seed), seed=seed), SPECS[0]).summary for seed in (4, 5, 6)
    ]
    busy = member.plan.fresh.figures["busy_share"]
    assert member.search.problem.policies[member.plan.numbers.policy].spec == SPECS[0]
    assert busy.values.tolist() == [summary.busy_share for summary in runs]
    with pytest.raises(InputError, match="networks: expected a trace or a rate, found none"):
        answer_of(folder / "shared.toml", ["busy_share <= 60 %"], ["middle"])
    with pytest.raises(InputError, match="expected neither trace nor rate beside traffic of their own, found rate"):
        answer_of(folder / "n.toml", ["busy_share <= 60 %"], ["middle"], rate=1)
    (folder / "one.toml").write_text(
        'schema = "fluidb.networks/1"\nnetworks = [{ name = "b", table = "large/second", slo = "1s", clients = 4, '
        "count = 200 }]\n"
    )
    one = answer_of(folder / "one.toml", ["mean <= 170 ms"], ["small", "middle"], policy=["serial"])
    # four clients without a think time: on the small design alone 320 ms each, on the middle one 160 ms
    assert [member.plan.cost for member in one.front] == [20]


def test_what_a_file_says_of_a_network_is_in_the_key_of_its_simulations(folder: Path):
    text, keys = (folder / "n.toml").read_text(), []
    for change in ("rate = 10", "rate = 9", "rate = 10, weight = 2", 'rate = 10, switch = "1ms"'):
        (folder / "m.toml").write_text(text.replace("rate = 10", change))
        (member,) = answer_of(folder / "m.toml", ["mean[a] <= 1 s"], ["middle"], policy=["serial"]).front
        keys.append(str(_content(member.search.problem)))
    assert len(set(keys)) == 4


def test_multipliers_are_those_of_every_core():
    """T_P x T_C, for each pixel side by side; two cores of the first kind and one of the second."""
    npus = [
        BuiltNpu(board="b", tile=tile, clock_mhz=1.0, bandwidth_gb_s=1.0, word_bits=16)
        for tile in ([8, 2, 3], [8, 5, 7, 4, 1])
    ]
    table = table_of([[1.0]])
    assert multipliers_of(table) == 0
    assert [multipliers_of(table.model_copy(update={"npus": [npu]})) for npu in npus] == [6, 140]
    cores = Cores(names=["k", "l"], of=[0, 1, 0], contention=0.0, moving=[[[0.0]]] * 2)
    assert multipliers_of(table.model_copy(update={"npus": npus, "cores": cores})) == 2 * 6 + 140


def test_times_of_tables_are_one_behind_the_other():
    """Where one network has larger batches, the largest batch of the other stands for them."""
    tables = [table_of([[3.0, 4.0, 5.0], [1.0, 2.0, 2.5]], [0.5, 0.5]), table_of([[7.0]])]
    source, rows = TableSource("both", tables), np.array([0])
    part, time_s = source.layer_times(0)
    wanted_s = [[3.0, 4.0, 5.0], [1.0, 2.0, 2.5], [7.0, 7.0, 7.0]]
    assert part.tolist() == [0, 0, 2, 2, 4, 4]  # each stage has two layers
    assert (time_s[::2] + time_s[1::2]).tolist() == source.found_times(rows)[0, :, 0].tolist() == wanted_s
    assert not source.found_times(rows)[0, :, 1].any()
    assert source.least.work_s[0, :, 0].tolist() == [5.0 / 3, 2.5 / 3, 7.0]
    assert [table.b_max for table in source.tables(0)] == [3, 1]
    assert (source.counted, source.dsps.tolist()) == ("nothing", [0])


def test_the_command_prints_the_plan_or_why_there_is_none(fluidb: Run, folder: Path):
    asked = "plan", "n.toml", "large,small,middle", "--seeds", "2", "--policy", POLICIES[0]
    printed = fluidb(*asked, "--require", "violation_rate[a] <= 20 %").stdout
    assert printed.startswith("hardware   middle\nexits      none\npolicy     serial:between=")
    record = json.loads(fluidb(*asked, "--require", "violation_rate[a] <= 20 %", "--json").stdout)
    assert [(plan["platform"], plan["networks"][1]["name"]) for plan in record["front"]] == [("middle", "b")]
    assert "violation_rate[a]" in record["front"][0]["figures"]
    missed = fluidb(*asked, "--require", "mean[a] <= 1 ms")
    assert missed.returncode == 1
    assert 'no plan keeps "mean[a] <= 1 ms"; the nearest has' in missed.stderr


def test_a_board_is_searched_for_the_networks_of_a_file(fluidb: Run, tmp_path: Path):
    board_problem(tmp_path, 500.0, [])
    (tmp_path / "pocket.toml").write_text(Path(POCKET).read_text())
    asked = "plan", "n.toml", "./pocket.toml", "--rate", 500, "--count", 300, "--seeds", 2, "--b-max", 2
    tried = *asked, "--thresholds", 0.8, "--require", "p99[b] <= 20ms", "--policy", "serial:between=edf"
    record = json.loads(fluidb(*tried, "--json").stdout)
    second, first = record["front"][-1]["networks"]
    assert (first["measure"], second["measure"], second["thresholds"]) == ("confidence", None, None)
    assert second["exits"] == ["add", "concat"]
    assert "b concat" in fluidb(*tried).stdout


def test_clients_of_one_network_are_options(fluidb: Run, tmp_path: Path):
    asked = "plan", TINY, POCKET, "--slo", "9ms", "--count", 200, "--seeds", 2, "--b-max", 2, "--policy", "serial"
    wanted = *asked, "--require", "processing_rate >= 100 /s"
    record = json.loads(fluidb(*wanted, "--clients", 2, "--think", "exponential:1ms", "--json").stdout)
    assert (record["clients"], record["think"], record["front"][0]["rate_per_s"]) == (2, "exponential:1ms", None)
    assert "more requests a second" not in str(record["steps"])
    assert fluidb(*wanted, "--clients", 2).stdout.startswith("clients    2\n")
    for options, said in (
        (("--clients", 2, "--rate", 9), "--rate: expected a rate, a trace or clients, found rate and clients"),
        (("--rate", 9, "--think", "1ms"), "--think: expected clients beside it, who think, found none"),
        (("--clients", 0), "clients: expected"),
    ):
        done = fluidb(*wanted, *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), options
        assert said in done.stderr


def test_faults_are_one_line(fluidb: Run, folder: Path):
    write_hardware(folder / "device", 1.0, None)
    (folder / "empty").mkdir()
    asked = "--require", "mean[a] <= 1 s"
    write_hardware(folder / "other", 1.0, 10)
    other = table_of([[1.0], [1.0]]).model_copy(update={"network": "second"})
    write_table(other, folder / "other" / "second" / "latency.json")
    (folder / "tiny.toml").write_text(
        f'schema = "fluidb.networks/1"\nnetworks = [{{ name = "a", network = "{TINY}", slo = "1s", rate = 1 }}]\n'
    )
    (folder / "none.toml").write_text('schema = "fluidb.networks/1"\nnetworks = [{ name = "a", slo = "1s" }]\n')
    cases: list[tuple[tuple[object, ...], str]] = [
        (("n.toml", "zc706", *asked), "networks: a: network: expected it, as designs for zc706 are searched, found a"),
        (("none.toml", "large", *asked), 'networks[0] ("a"): expected its network or the folder of its latency table'),
        (("n.toml", "empty", *asked), "empty: expected one latency table of first, found 0"),
        (("n.toml", "large,device", *asked), "platforms: expected NPUs only or devices only"),
        (("n.toml", "large"), "--require: expected at least one, found none"),
        (("n.toml", *asked), "platforms: expected at least one, found none"),
        (("n.toml", "large", *asked, "--clients", 2), "--clients: expected with one network only, found 2 beside a"),
        (("n.toml", "large", *asked, "--rate", "max"), "--rate: expected with one network only, found max beside"),
        (("n.toml", "large", *asked, "-o", "out"), "--output: expected with one network only, found out beside a"),
        (("n.toml", "large", "--require", "mean[c] <= 1 s"), 'unknown network "c"'),
        (("tiny.toml", "edgesp-a", *asked), "edgesp-a: expected a board, a device, or a folder with a latency table"),
        (("n.toml", "large,large", *asked), "platforms: expected each once, found large twice"),
        (("n.toml", "large", *asked, "--thresholds", 0.5), "--thresholds: expected samples whose answers they judge"),
        (("n.toml", "large,other", *asked), "other: expected times of 1 exits, which second has, found 2"),
    ]
    for options, said in cases:
        done = fluidb("plan", *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), options
        assert said in done.stderr
    served = fluidb("serve-sim", "none.toml", "--trace", "missing.csv")
    assert (
        "table: expected the folder of its latency table, found none; state it, or let `fluidb plan`" in served.stderr
    )
