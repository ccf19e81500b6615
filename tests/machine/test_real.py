"""A network that really runs: measured, served and held against the simulator.  Nothing here depends on times."""

from __future__ import annotations

import csv
import json
import math
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import onnx
import pytest
from builders import COMPILED, call_fluidb, lines
from fluidb.formats import InputError
from fluidb.machine import protocol as measuring_protocol
from fluidb.machine.clock import VirtualClock
from fluidb.machine.measurement import MEASURED_FOLDER, measure, write_measurement
from fluidb.machine.network import RealNetwork
from fluidb.machine.runner import TableRunner, as_measured, serve_in_steps
from fluidb.machine.serve import serve_real
from fluidb.machine.validation import (
    Trial,
    TrialFigures,
    TrialGrid,
    half_width,
    judge_point,
    validate_simulator,
)
from fluidb.platforms import load_platform
from fluidb.platforms.measured import MeasuredDevice
from fluidb.serving import POLICIES, ServedNetwork, find_policy, parse_requirement
from fluidb.serving.case import case_of
from fluidb.serving.device_traffic import prepare_requests
from fluidb.serving.inputs import Requests
from fluidb.serving.networks import as_served
from fluidb.tables.latency import read_latency
from fluidb.traffic import offline, poisson, read_samples
from fluidb.traffic.clients import Clients
from onnx import helper, numpy_helper

pytestmark = pytest.mark.skipif(not COMPILED, reason="runs in real time")

CLASSES, SAMPLES = 5, 40
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def network_file(folder: Path) -> Path:
    """Three exits, the second inside a residual block; a few microseconds a stage."""
    random, nodes, weights = np.random.default_rng(3), [], {}

    def add(op, *sources, to, sizes=None, **attributes):
        if sizes:
            weights[f"w{to}"] = random.normal(size=sizes).astype(np.float32)
            sources = (*sources, f"w{to}")
        nodes.append(helper.make_node(op, sources, [to], name=f"n{to}", **attributes))

    add("Gemm", "x", to="a", sizes=(6, 8))
    add("Gemm", "a", to="s1", sizes=(8, CLASSES))
    add("Softmax", "s1", to="e1", axis=1)
    add("Relu", "a", to="b")
    add("Gemm", "b", to="e2", sizes=(8, CLASSES))  # scores that are no probabilities
    add("Add", "a", "b", to="c")
    add("Gemm", "c", to="s3", sizes=(8, CLASSES))
    add("Softmax", "s3", to="e3", axis=1)
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info(f"e{n}", onnx.TensorProto.FLOAT, ["n", CLASSES]) for n in (1, 2, 3)],
        [numpy_helper.from_array(values, key) for key, values in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    np.savez(folder / "in.npz", input=random.normal(size=(SAMPLES, 6)), label=np.arange(SAMPLES) % CLASSES)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A network, its measurement, and the folder that was written."""
    folder = tmp_path_factory.mktemp("real")
    network = RealNetwork(str(network_file(folder)), folder / "in.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring_protocol, "ALONE", 3)
        measured = measure(network, b_max=3, repeats=2, name="here")
    write_measurement(network, measured, folder / "dev")
    return network, measured, folder


def test_a_measured_network_is_an_ordinary_device(made):
    network, found, folder = made
    assert [(cell.stage, cell.batch) for cell in found.cells] == [(s, b) for s in (1, 2, 3) for b in (1, 2, 3)]
    device = load_platform(str(folder / "dev" / "device.toml"), kind=MeasuredDevice)
    assert device.times_s == [[[cell.seconds for cell in found.cells if cell.stage == s] for s in (1, 2, 3)]]
    assert f"{network.runs_on}; Python" in device.sources["table"]
    assert "2 rounds after 2 to warm up" in device.sources["table"]
    table = read_latency(folder / "dev")
    assert table == found.table
    assert table.array()[0, 3, 1:].tolist() == pytest.approx(np.sum(device.times_s[0], axis=0).tolist())
    samples = read_samples(folder / "dev" / "samples.npz")
    assert len(samples) == SAMPLES
    assert [row.name for row in table.exits] == ["e1", "e2", "e3"]
    assert sum(row.rate for row in table.exits) == pytest.approx(1.0)
    with pytest.raises(InputError, match="dev"):
        MEASURED_FOLDER.check(folder / "dev", force=False)
    MEASURED_FOLDER.check(folder / "dev", force=True)


@pytest.mark.skipif(CORES < 2, reason="one core")
def test_a_network_answers_the_same_on_two_pinned_threads(made):
    one, folder = made[0], made[-1]
    two = RealNetwork(str(one.path), folder / "in.npz", threads=2)
    assert "threads: 2, " in two.runs_on
    for answers, others in zip(one.answers, two.answers, strict=True):
        np.testing.assert_allclose(answers, others, rtol=1e-5)


def test_confidences_and_answers_are_those_of_onnx_itself(made):
    network = made[0]
    reference = onnx.reference.ReferenceEvaluator(str(network.path))
    answers = list(reference.run(None, network.inputs))
    shares = np.exp(answers[1] - answers[1].max(axis=1, keepdims=True))
    answers[1] = shares / shares.sum(axis=1, keepdims=True)
    samples = network.samples()
    for number, answer in enumerate(answers):
        np.testing.assert_allclose(samples.confidences[:, number], answer.max(axis=1), rtol=1e-5)
        assert (samples.correct[:, number] == (answer.argmax(axis=1) == np.arange(SAMPLES) % CLASSES)).all()


@pytest.mark.parametrize("policy", [*POLICIES, "fluid:together=on"])
def test_every_request_is_answered_once_as_the_network_answers_alone(made, policy):
    """500 requests under each policy that ships, faster than they are served one by one, so that batches form."""
    network, found, _ = made
    requests = Requests(trace=poisson(4000.0, 500, 1), slo_s=0.05)
    required = [parse_requirement("p99 >= 0s")]
    done = serve_real(network, found.table, requests, policy, threshold=0.7, requirements=required)
    assert done.answers_wrong == 0
    assert done.outcome.failure == ""
    replay, samples = done.served.replay, network.samples()
    assert done.served.requirements[0].holds
    assert np.isfinite(replay.finish_s).all()
    assert (replay.latency_s > 0).all()
    rows = samples.drawn(500, 0)
    sure = samples.confidences[rows] >= 0.7
    sure[:, -1] = True
    assert (replay.traffic.exits == sure.argmax(axis=1) + 1).all()
    took_s = done.served.summary.busy_share * done.served.summary.span_s
    assert took_s == pytest.approx(done.outcome.took_s.sum())
    clock = VirtualClock(replay.traffic.trace.arrival_s)
    runner = TableRunner(clock, as_measured(done.outcome))
    again = serve_in_steps(case_of(as_served(found.table), replay.arrived, find_policy(policy)), clock, runner).replay
    np.testing.assert_allclose(again.finish_s, replay.finish_s, rtol=0, atol=1e-9, err_msg="with its own durations")


@pytest.mark.parametrize("more", ["", ":on_deadline=drop", ":on_deadline=answer", ":admit=queue:1"])
def test_clients_send_when_they_have_their_answers(made, more):
    """Four that think no time: each answer or drop is followed by a request at that very time.

    A client that was refused waits as long as a sample takes alone.
    """
    network, found, _ = made
    requests = Requests(trace=offline(300), slo_s=4e-4, clients=Clients(4))
    done = serve_real(network, found.table, requests, f"fluid{more}", threshold=0.7)
    assert done.answers_wrong == 0
    replay = done.served.replay
    arrival_s = replay.traffic.trace.arrival_s
    due_s = arrival_s + replay.traffic.slo_s
    told_s = np.minimum(np.where(replay.dropped, due_s, replay.finish_s), replay.gone_s)
    assert np.isfinite(told_s).all()
    if replay.refused is not None:
        told_s[replay.refused] += found.table.array()[0, -1, 1]
    np.testing.assert_allclose(arrival_s[4:], np.sort(told_s)[:-4], rtol=0, atol=1e-12)
    assert (arrival_s[:4] == 0).all()
    if "on_deadline" in more:
        assert (replay.finish_s[np.isfinite(replay.finish_s)] <= due_s[np.isfinite(replay.finish_s)]).all()


def test_the_simulator_is_held_against_clients_too(made):
    """With the times that the runs took on the machine it is the machine."""
    plan = TrialGrid(policies=("fluid",), loads=(3,), repeats=1, count=60, clients=Clients(1, 1e-4))
    found = validate_simulator([made[0]], plan, b_max=4)
    (trial,) = found.trials
    assert (trial.load, found.rates_per_s, found.answers_wrong) == (3, [], 0)
    for name in ("mean_s", "p50_s", "p99_s"):
        assert getattr(trial.replayed, name) == pytest.approx(getattr(trial.real, name))
    assert trial.simulated.mean_s != trial.real.mean_s
    for policy in ("fluid:on_deadline=drop", "fluid:admit=queue:1"):
        with pytest.raises(InputError, match="expected on_deadline=serve and no admit"):
            TrialGrid(policies=(policy,))
    with pytest.raises(InputError, match=r"clients: expected different whole numbers >= 1, found 0\.5"):
        TrialGrid(loads=(0.5,), clients=Clients(1))


def test_the_simulator_is_held_against_networks_that_are_served_together(made):
    """With the times that the runs took on the machine it is the machine; each has its objective and its exits."""
    network, found, _ = made
    networks = [
        ServedNetwork(name="quick", table=found.table, threshold=0.5, share=2),
        ServedNetwork(name="sure", table=found.table, threshold=0.9, slo_s=0.05),
    ]
    plan = TrialGrid(policies=("fluid:between=edf", "serial"), loads=(0.5,), repeats=1, count=80)
    result = validate_simulator([network, network], plan, networks=networks, b_max=4)
    assert (len(result.trials), result.answers_wrong, result.slo_s) == (2, 0, None)
    for trial in result.trials:
        for name in ("mean_s", "p50_s", "p99_s", "violation_rate"):
            assert getattr(trial.replayed, name) == pytest.approx(getattr(trial.real, name))
    with pytest.raises(InputError, match="model: expected one for each network that is served, 2, .*found 1"):
        validate_simulator([network], plan, networks=networks)
    limited = [networks[0], replace(networks[1], admit="newest:1")]
    with pytest.raises(InputError, match=f'^network "{networks[1].name}": admit: expected none, as latencies are'):
        validate_simulator([network, network], plan, networks=limited)


def test_networks_side_by_side_answer_as_each_alone(made):
    """Two that leave at other confidences, and one of them refuses; never in one batch.

    All requests are there at the start, so that the queue overflows on a fast machine, too.
    """
    network, found, _ = made
    networks = [
        ServedNetwork(name="quick", table=found.table, slo_s=0.05, threshold=0.5, share=2),
        ServedNetwork(name="sure", table=found.table, slo_s=0.05, threshold=0.9, admit="queue:3"),
    ]
    requests = Requests(trace=offline(500))
    asked = [parse_requirement("p50[sure] >= 0s", networks=["quick", "sure"])]
    done = serve_real([network, network], networks, requests, "fluid:between=edf", requirements=asked)
    assert (done.answers_wrong, done.outcome.failure) == (0, "")
    assert done.served.requirements[0].holds
    replay, samples = done.served.replay, network.samples()
    seeds = prepare_requests(
        [replace(network, samples=samples) for network in networks], requests, requests.read()
    ).seeds
    for number, (part, least) in enumerate(zip(replay.by_network, (0.5, 0.9), strict=True)):
        sure = samples.confidences[samples.drawn(len(part.traffic), seeds[number])] >= least
        sure[:, -1] = True
        assert (part.traffic.exits == sure.argmax(axis=1) + 1).all()
        assert (np.isfinite(part.finish_s) != part.refused).all()
        assert np.any(part.refused) == bool(number)
    took_s = done.served.summary.busy_share * done.served.summary.span_s
    assert took_s == pytest.approx(done.outcome.took_s.sum())
    with pytest.raises(InputError, match="model: expected one for each network that is served, 2"):
        serve_real(network, networks, requests, "fluid")


def test_a_network_without_a_request_is_served_here_too(made):
    network, found, _ = made
    networks = [
        ServedNetwork(name=name, table=found.table, slo_s=0.05, threshold=0.5, share=share)
        for name, share in (("idle", 0), ("busy", 1))
    ]
    done = serve_real([network, network], networks, Requests(trace=offline(70)), "fluid:between=edf")
    assert (done.answers_wrong, done.outcome.failure) == (0, "")
    assert [own.name for own in done.served.networks] == ["busy"]
    assert done.served.summary.requests == 70
    assert np.isfinite(done.served.replay.finish_s).all()


def test_a_stop_and_a_stage_that_raises_keep_what_was_served(made, monkeypatch):
    network, found, _ = made
    stop, requests = Event(), Requests(trace=poisson(50.0, 10_000, 1), slo_s=0.05)
    done = serve_real(network, found.table, requests, "fluid", stop=stop,
                      progress=lambda returned, _: stop.set() if returned >= 3 else None)  # fmt: skip
    assert 3 <= done.served.summary.requests - done.served.summary.unfinished < 10_000
    assert math.isfinite(done.served.replay.until_s)
    run_stage, calls = network.session.run_stage, iter(range(10**6))

    def fails(number, tensors):
        if next(calls) >= 9 + 20:  # the first nine warm up
            raise RuntimeError("stage 2 failed: out of memory")
        return run_stage(number, tensors)

    monkeypatch.setattr(network.session, "run_stage", fails)
    done = serve_real(network, found.table, Requests(trace=poisson(500.0, 100, 1), slo_s=0.05), "serial")
    assert done.outcome.failure == "stage 2 failed: out of memory"
    assert 0 < done.served.summary.unfinished < done.served.summary.requests


def test_samples_that_take_too_much_memory_are_refused_before_they_take_it(made, tmp_path, monkeypatch):
    """Bytes that compress to next to nothing; the network takes four for each."""
    monkeypatch.setattr("fluidb.machine.network.MAX_BYTES", 2**26)
    np.savez_compressed(tmp_path / "many.npz", input=np.zeros((2**22, 6), np.int8))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"expected at most 0.0625 GiB of samples, found 0.0938 GiB; save fewer"):
        made[0]._read(tmp_path / "many.npz")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10e6


def test_faults(made, tmp_path, monkeypatch):
    network, found, folder = made

    def fault(*given, **more):
        with pytest.raises(InputError) as error:
            RealNetwork(*given, **more)
        return str(error.value)

    model, other = str(folder / "net.onnx"), tmp_path / "other.npz"
    other.write_bytes(b"no archive")
    assert "expected an .npz file" in fault(model, other)
    np.savez(other, image=np.zeros((2, 6)))
    assert "expected the arrays x, and perhaps label, found image" in fault(model, other)
    np.savez(other, input=np.zeros((2, 6)), label=np.zeros(3, dtype=int))
    assert "expected arrays with a row for each sample, found [2, 3] rows" in fault(model, other)
    np.savez(other, input=np.zeros((2, 6)), label=np.zeros(2))
    assert "label: expected a whole number" in fault(model, other)
    np.savez(other, input=np.zeros((2, 6)), label=np.array([0, CLASSES]))
    assert f"label: row 2: expected a class of the network, 0 to {CLASSES - 1}, found {CLASSES}" in fault(model, other)
    np.savez(other, input=np.zeros((2, 5)))
    assert f"{other}: row 1: " in fault(model, other)
    np.savez(other, input=np.array([[None] * 6]))
    assert f"{other}: input: expected an array of numbers, found object" in fault(model, other)
    assert "expected an answer of 1 x classes" in fault(str(squeezed(tmp_path)), folder / "in.npz")
    fast = Requests(trace=poisson(1e6, 100, 1), slo_s=1.0)
    with pytest.raises(InputError, match="at most 20,000 requests/s, which is the most that the clock"):
        serve_real(network, found.table, fast, "fluid")
    strange = found.table.model_copy(update={"network": "another"})
    with pytest.raises(InputError, match="found the table of another with e1, e2, e3; measure this network"):
        serve_real(network, strange, fast, "fluid")
    shallow = strange.model_copy(update={"exits": strange.exits[-1:]})
    with pytest.raises(InputError, match="found the table of another with e3; measure this network"):
        serve_real(network, shallow, fast, "fluid")
    for b_max, repeats in ((0, 20), (8, 1)):
        with pytest.raises(InputError, match="expected"):
            measure(network, b_max=b_max, repeats=repeats)
    with pytest.raises(InputError, match='name: expected 1 to 80 letters .* found "a/b"'):
        measure(network, b_max=1, repeats=2, name="a/b")
    monkeypatch.setattr("fluidb.formats.extras.find_spec", lambda name: None)
    assert fault(model) == (
        f"{model}: a real device needs onnx, which is not installed; "
        "run pip install '.[onnx,runtime]' in the folder of fluidb's sources"
    )


def squeezed(folder: Path) -> Path:
    """Answers with three dimensions."""
    nodes = [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1, 6])],
        [numpy_helper.from_array(np.array([1]), "axes")],
    )  # fmt: skip
    path = folder / "dense.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def figures(mean_s):
    return TrialFigures(mean_s, mean_s, 2 * mean_s, 4 * mean_s, 0.0)


def trial(simulated, drift, half_width=0.0, replayed=1.01, sensitivity=2.0):
    real, off, again = map(figures, (1.0, simulated, replayed))
    return Trial("fluid", 0.6, 0, real, off, again, drift, half_width, sensitivity, 0)


def test_a_verdict_is_refused_where_noise_explains_more_than_is_asked():
    near = [trial(1.02, 0.01), trial(0.96, -0.02), trial(1.04, 0.03)]
    found = judge_point(near, 0.05)
    assert found.says == "within"
    assert found.doubt == pytest.approx(0.04)  # mean drift of 2 %, doubled
    mean = found.errors[0]
    assert (mean.figure, mean.median, mean.least, mean.most) == ("mean_s", *map(pytest.approx, (0.02, -0.04, 0.04)))
    assert (mean.size, mean.replayed_size) == pytest.approx((0.04, 0.01))
    assert judge_point(near, 0.03).says == "refused"
    wild = trial(1.5, 0.5)  # moves neither the median of the errors nor the median of their doubts
    assert judge_point([trial(1.01, 0.0), trial(1.02, 0.0), wild], 0.05).says == "within"
    assert judge_point([trial(1.01, 0.0), wild, wild], 0.05).says == "refused"
    assert judge_point([trial(1.2, 0.01), trial(1.1, -0.01)], 0.05).says == "off"
    noisy = judge_point([trial(1.2, 0.03, 0.04), trial(1.1, -0.03, 0.04)], 0.05)  # without drift as large
    assert noisy.doubt == pytest.approx(0.1)
    assert noisy.says == "refused"


def test_the_interval_of_a_table_is_that_of_both_measurements(made):
    """Rounds of 0.9, 1.1 and of 0.8, 1.2: the mean of the four has the error sqrt(0.01 + 0.04) / 2, with 1 degree."""
    one, other = (replace(made[1], round_times=np.array(times)) for times in ([0.9, 1.1], [0.8, 1.2]))
    assert half_width(one, other) == pytest.approx(12.706 * math.sqrt(0.05) / 2, rel=1e-3)
    assert made[1].round_times.mean() == pytest.approx(1.0)
    assert len(made[1].round_times) == 2


def test_a_slower_table_is_slower_everywhere(made):
    table = made[1].table.model_copy(update={"wake_up_s": 1e-4})
    again = table.slower(1.5, overheads=True)
    assert again.array() == pytest.approx(1.5 * table.array())
    assert again.gather_array() == pytest.approx(1.5 * table.gather_array())
    assert again.wake_up_s == 1.5 * table.wake_up_s
    stages = table.slower(1.5)  # gathers and waking up are the host's
    assert stages.array() == pytest.approx(1.5 * table.array())
    assert (stages.gather_s, stages.wake_up_s) == (table.gather_s, table.wake_up_s)


def test_commands_print_records(made, monkeypatch):
    """``docs/real-device.md`` is followed by a test of its own; here are JSON, files and faults."""
    folder = made[-1]
    monkeypatch.setattr(measuring_protocol, "ALONE", 2)
    (folder / "t.csv").write_text("request_id,arrival_s\n" + "".join(f"{n},{0.002 * n}\n" for n in range(60)))
    common = "net.onnx", "--inputs", "in.npz", "--json"
    done = call_fluidb("measure", *common, "-o", "again", "--repeats", 2, "--b-max", 2, cwd=folder)
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.measure-output/1"
    assert [(cell["stage"], cell["batch"]) for cell in record["cells"]] == [(s, b) for s in (1, 2, 3) for b in (1, 2)]
    outputs = "--requests", "r.csv", "--timeline", "t.json", "--require", "p99 <= 100s"
    done = call_fluidb("serve-real", *common, "again", "--trace", "t.csv", "--slo", "1s", *outputs, cwd=folder)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.serve-real-output/1"
    assert (record["answers_wrong"], record["requests"], record["unfinished"]) == (0, 60, 0)
    with (folder / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert all(float(row["finish_s"]) > float(row["arrival_s"]) for row in rows)
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    small = (
        "--policy",
        "serial",
        "--loads",
        0.3,
        "--repeats",
        1,
        "--count",
        30,
        "--b-max",
        2,
        "--plot",
        "v.svg",
        "-o",
        "page",
    )
    done = call_fluidb("validate", *common, *small, cwd=folder)
    found = json.loads(done.stdout)["validation"]
    (verdict,), (trial,) = found["verdicts"], found["trials"]
    assert done.returncode == (verdict["says"] != "within")
    assert trial["replayed"]["mean_s"] == pytest.approx(trial["real"]["mean_s"])
    assert (folder / "v.svg").exists()
    with (folder / "page" / "runs.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["policy"], float(row["real_p99_s"]), float(row["drift"])) == (
        "serial", trial["real"]["p99_s"], trial["drift"],
    )  # fmt: skip
    page = (folder / "page" / "README.md").read_text()
    assert f"| {verdict['says']} " in page
    assert json.loads(done.stdout)["machine"] in page
    assert "(validation.svg)" in page
    assert (folder / "page" / "validation.svg").read_bytes() == (folder / "v.svg").read_bytes()
    done = call_fluidb("validate", *common, "-o", "again", "--force", cwd=folder)
    assert done.returncode == 2
    assert "again: --force replaces a page of `fluidb validate` only, and this folder holds no runs.csv" in done.stderr
    wrong = "--loads", "0.3,0.3", "--repeats", 0, "--count", 1, "--within", 1
    assert len(lines(call_fluidb("validate", "net.onnx", *wrong, cwd=folder))) == 4
    (line,) = lines(call_fluidb("validate", "net.onnx,net.onnx", cwd=folder))
    assert line == (
        "fluidb: model: expected one for each network that is served, 1, with commas between, found 2; several need a "
        "file of networks"
    )
    (line,) = lines(call_fluidb("serve-real", "net.onnx", ".", "--trace", "t.csv", cwd=folder))
    assert line == (
        "fluidb: latency.json: not there; make it with `fluidb latency`, or of this machine with `fluidb measure`"
    )


def test_the_host_of_a_server_is_measured_and_is_not_counted_where_samples_are_in_memory(made, monkeypatch):
    network, found, folder = made
    assert found.table.host is None
    monkeypatch.setattr(measuring_protocol, "ALONE", 3)
    there = measure(network, b_max=1, repeats=2, name="here", host=True)
    host = there.table.host
    assert host is not None
    assert 0 < host.after_s < host.before_s < 1
    write_measurement(network, there, folder / "hosted")
    assert load_platform(str(folder / "hosted" / "device.toml"), kind=MeasuredDevice).host == host
    served = serve_real(network, read_latency(folder / "hosted"), Requests(trace=offline(4), slo_s=1.0), "serial")
    assert served.served.summary.host is None
    assert served.served.replay.table.host is None
