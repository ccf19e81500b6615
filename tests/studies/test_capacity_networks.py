"""`fluidb capacity` of several networks: their shares of the rate, and requirements of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import DATA, Run, lines, table_of
from fluidb.formats import InputError
from fluidb.serving import Requests, ServedNetwork, parse_requirement, serve
from fluidb.studies import CapacityOptions, find_capacity
from fluidb.studies.saturation import saturation_rate
from fluidb.traffic import poisson
from fluidb.traffic.clients import Clients

TABLE = table_of([[0.05, 0.08, 0.1]])
NAMES = ["a", "b"]


@pytest.mark.parametrize("clients", [None, Clients(1, 0.2, exponential=True)])
def test_one_network_has_the_capacity_of_its_table(clients: Clients | None) -> None:
    """The figure of the network and the figure of all are the same too."""
    given: dict[str, Any] = {
        "slo_s": 0.3,
        "seeds": 2,
        "count": 500,
        "max_requests": 1000,
        "clients": clients,
        "tolerance": 0.1,
    }
    texts = ["violation_rate <= 10 %", "mean <= 200 ms"]
    alone = find_capacity(TABLE, "fluid", [parse_requirement(text) for text in texts], CapacityOptions(**given))
    asked = [parse_requirement(text.replace(" ", "[a] ", 1), networks=["a"]) for text in texts]
    capacity = find_capacity([ServedNetwork(name="a", table=TABLE)], "fluid", asked, CapacityOptions(**given))
    assert capacity.saturation_per_s == pytest.approx(alone.saturation_per_s)
    assert capacity.kept_per_s == pytest.approx(alone.kept_per_s)
    assert capacity.clients == alone.clients
    for probe, other in zip(capacity.probes, alone.probes, strict=True):
        assert (probe.verdict, probe.requests) == (other.verdict, other.requests)
        for item, same in zip(probe.estimates, other.estimates, strict=True):
            assert (item.value, *item.interval) == pytest.approx((same.value, *same.interval))


def test_a_probe_has_the_figures_of_serve_networks() -> None:
    tables = [TABLE, table_of([[0.02, 0.03], [0.1, 0.15]], [0.5, 0.5])]
    networks = [
        ServedNetwork(name=name, table=table, slo_s=slo_s, share=share, admit=admit)
        for name, table, slo_s, share, admit in zip(NAMES, tables, [0.2, 0.4], [3, 1], [None, "queue:4"], strict=True)
    ]
    texts = ["violation_rate[a] <= 10 %", "mean[a] <= 200 ms", "p90[b] <= 400 ms", "busy_share <= 90 %"]
    asked = [parse_requirement(text, networks=NAMES) for text in texts]
    capacity = find_capacity(
        networks, "fluid:between=edf", asked, CapacityOptions(seeds=2, count=800, max_requests=800, low_per_s=2.0)
    )
    shares = np.array([0.75, 0.25]) / [saturation_rate(ServedNetwork(table=table)) for table in tables]
    assert capacity.saturation_per_s == pytest.approx(1 / shares.sum())
    probe = capacity.probes[0]
    values = []
    for seed in range(2):
        requests = Requests(trace=poisson(probe.rate_per_s, 800, seed), seed=seed)
        run = serve(networks, requests, "fluid:between=edf", requirements=asked)
        values.append([verdict.value for verdict in run.requirements])
    means = np.mean(values, axis=0)
    for k in (0, 1, 3):
        assert probe.estimates[k].value == pytest.approx(means[k])
    low, high = sorted(row[2] for row in values)
    assert low <= probe.estimates[2].value <= high


def test_an_overloaded_network_limits_the_rate_of_all() -> None:
    """Of a rare network with a limit of its own nothing else is asked."""
    networks = [
        ServedNetwork(name=name, table=TABLE, slo_s=slo_s, share=share)
        for name, slo_s, share in zip(NAMES, [0.06, 9.0], [1, 3], strict=True)
    ]
    asked = [parse_requirement(f"violation_rate[{name}] <= 50 %", networks=NAMES) for name in NAMES]
    given: dict[str, Any] = {"seeds": 2, "count": 500, "max_requests": 2000, "tolerance": 0.1}
    one, other = (find_capacity(networks, "serial", [item], CapacityOptions(**given)) for item in asked)
    both = find_capacity(networks, "serial", asked, CapacityOptions(**given))
    assert (one.kept_per_s or 0) < (other.kept_per_s or 0)
    assert (both.kept_per_s, both.limited_by) == (one.kept_per_s, asked[0].text)


def test_what_does_not_fit_is_refused() -> None:
    networks = [ServedNetwork(name=name, table=TABLE, slo_s=1.0, share=k) for k, name in enumerate(NAMES, 1)]
    asked = [parse_requirement("p99[a] <= 1s", networks=NAMES)]
    with pytest.raises(InputError, match=r"at least 1,000 requests at a rate for p99\[a\].*found at most 666"):
        find_capacity(networks, "fluid", asked, CapacityOptions(seeds=2, count=1000, max_requests=1000))


def test_the_command_takes_a_file_of_networks(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (tmp_path / "tiny").symlink_to(tiny_design)
    text = (DATA / "networks.toml").read_text().replace('samples = "s.csv"\n', "")
    (tmp_path / "networks.toml").write_text(text)
    asked = ["capacity", "networks.toml", "--count", 400, "--seeds", 2, "--require", "violation_rate[people] <= 30 %"]
    record = json.loads(fluidb(*asked, "--json").stdout)
    assert record["kept_per_s"] > 0
    assert record["requirements"] == ["violation_rate[people] <= 30 %"]
    assert "violation_rate[people]" in fluidb(*asked, "--clients", "1..4").stdout
    (line,) = lines(fluidb(*asked, "--width", "shares:1=1"))
    assert line.startswith("fluidb: --width: expected a table with widths, or steps that follow from them")


def test_a_network_without_a_share_has_no_request_and_the_others_their_capacity() -> None:
    asked, given = [parse_requirement("p90 <= 300 ms")], CapacityOptions(seeds=2, count=400, max_requests=800)
    alone = find_capacity([ServedNetwork(name="a", table=TABLE, slo_s=0.3)], "fluid", asked, given)
    networks = [
        ServedNetwork(name=name, table=TABLE, slo_s=0.3, share=share) for name, share in zip("ab", (1, 0), strict=True)
    ]
    capacity = find_capacity(networks, "fluid", asked, given)
    assert capacity.saturation_per_s == alone.saturation_per_s
    assert len(capacity.probes) > 1
    required = [parse_requirement("busy_share[b] <= 90 %", networks=NAMES)]
    with pytest.raises(
        InputError, match='network: expected a request of "b", as one of its figures is required, found no'
    ):
        find_capacity(networks, "fluid", required, given)
