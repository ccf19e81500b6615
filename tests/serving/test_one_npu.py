"""Networks of one device have the times of one NPU: what tells two designs apart, and what is not compared."""

from __future__ import annotations

from typing import Any

import pytest
from builders import table_of
from fluidb.formats import InputError
from fluidb.serving import ServedNetwork
from fluidb.serving.networks import as_served
from fluidb.tables.hardware import BuiltNpu
from fluidb.tables.latency import LatencyTable

NPU = BuiltNpu(board="zc706", tile=[1024, 7, 128], clock_mhz=150.0, bandwidth_gb_s=4.267, word_bits=16)
TEXT = "<1024,7,128> on zc706 (16-bit words, 150 MHz, 4.267 GB/s)"

OTHERS: dict[str, dict[str, Any]] = {
    "<1024,8,112> on zc706 (16-bit words, 150 MHz, 4.267 GB/s)": {"tile": [1024, 8, 112]},
    "<1024,7,128,1,8> on zc706 (16-bit words, 150 MHz, 4.267 GB/s)": {"tile": [1024, 7, 128, 1, 8]},
    "<1024,7,128> with k = 1 only on zc706 (16-bit words, 150 MHz, 4.267 GB/s)": {"stacking": False},
    "<1024,7,128> on zc706 (16-bit words, 200 MHz, 4.267 GB/s)": {"clock_mhz": 200.0},
    "<1024,7,128> on zc706 (16-bit words, 150 MHz, 3.2 GB/s)": {"bandwidth_gb_s": 3.2},
    "<1024,7,128> on zcu104 (16-bit words, 150 MHz, 4.267 GB/s)": {"board": "zcu104"},
    "<1024,7,128> on zc706 (8-bit words, 150 MHz, 4.267 GB/s)": {"word_bits": 8},
}


def timed(name: str, npu: BuiltNpu | None) -> LatencyTable:
    """A latency table of a network on an NPU, or on nothing that is known."""
    return table_of([[1.0]]).model_copy(update={"network": name, "npus": npu and [npu]})


def served(**npus: BuiltNpu | None) -> list[ServedNetwork]:
    """Networks by the NPU whose times they have, with shares of 1, 2, 3, ..."""
    return [
        ServedNetwork(name=name, table=timed(f"net-{name[0]}", npu), share=share)
        for share, (name, npu) in enumerate(npus.items(), 1)
    ]


@pytest.mark.parametrize("text", OTHERS)
def test_two_designs_are_no_device(text: str) -> None:
    other = NPU.model_copy(update=OTHERS[text])
    with pytest.raises(InputError) as fault:
        as_served(served(a=NPU, again=NPU.model_copy(), c=None, d=other))
    (line,) = fault.value.faults
    assert line == (
        f"networks: expected times of one NPU, found {TEXT} in a, and {text} in d; search one for all with "
        "`fluidb dse net-a,net-d zc706 --together --shares 3,4` (your files in place of net-a, net-d), then "
        "`fluidb latency` of each"
    )


def test_networks_that_ship_need_no_file() -> None:
    tables = timed("digits", NPU), timed("resnet18", NPU.model_copy(update={"clock_mhz": 200.0}))
    networks = [ServedNetwork(name=table.network, table=table) for table in tables]
    with pytest.raises(InputError, match="with `fluidb dse digits,resnet18 zc706 --together --shares 1,1`, then "):
        as_served(networks)


def test_a_table_without_a_design_is_not_compared() -> None:
    networks = served(measured=None, a=NPU, engine=None, b=NPU.model_copy())
    assert [network.name for network in as_served(networks)] == ["measured", "a", "engine", "b"]


def test_a_table_has_a_design_for_each_kind_of_cores() -> None:
    content = timed("a", NPU).model_dump(by_alias=True)
    with pytest.raises(ValueError, match="npus: expected 1, one for each kind of cores, found 2"):
        LatencyTable.model_validate(content | {"npus": 2 * content["npus"]})
