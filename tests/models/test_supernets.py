"""SuperNets: sizes against the paper and an oracle, shared weights against index sets, SubNets as networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import naive_sushi as naive
import numpy as np
import pytest
from builders import Run, lines
from fluidb.formats import InputError, validate
from fluidb.models import load_network
from fluidb.models.loader import build_network
from fluidb.models.supernets import SUPERNETS, list_subnets, load_family, pick
from fluidb.models.supernets.layout import subnet_file
from fluidb.models.supernets.schema import SubNet, SuperNetFile
from fluidb.models.supernets.sharing import extents_of, shared, slots_of, weights_in
from fluidb.models.supernets.space import choices, draw, full, parse_subnet
from hypothesis import given, settings
from hypothesis import strategies as st

HERE = Path("tiny.toml")
TINY: dict[str, Any] = {
    "schema": "fluidb.supernet/1",
    "name": "tiny",
    "title": "Tiny",
    "input": {"height": 8, "width": 8, "channels": 2},
    "resolutions": [4, 8],
    "divisor": 1,
    "width": [0.5, 1.0],
    "parts": [
        {"part": "conv", "name": "stem", "out": 4, "kernel": 3, "width": True},
        {"part": "stage", "name": "deep", "block": "residual", "base": -1, "depth": [0, 1, 2]},
        {"part": "stage", "name": "neck", "block": "bottleneck", "out": 6, "stride": 2, "width": True, "base": 1,
         "depth": [0, 1], "expand": [0.5, 1.0]},
        {"part": "stage", "name": "wide", "block": "inverted", "out": 4, "depth": [1, 2], "expand": [1.0, 2.0],
         "kernel": [1, 3, 5], "se": True},
        {"part": "globalavgpool", "name": "pool"},
        {"part": "linear", "name": "fc", "out": 3},
    ],
}  # fmt: skip


def tiny(**changed: Any) -> SuperNetFile:
    return validate(SuperNetFile, TINY | changed, HERE)


RESNET, MOBILENET = load_family("ofa_resnet50"), load_family("ofa_mobilenet_v3")


def sizes(family: Any, text: str) -> tuple[float, float]:
    (found,) = list_subnets(family, [parse_subnet(text, text)]).subnets
    return found.weights / 1e6, found.macs / 1e9


def test_sizes_and_work_of_the_smallest_and_the_largest_are_those_of_once_for_all():
    assert sizes(RESNET, "d=0,e=0.2,w=0.65") == pytest.approx((6.515464, 0.962192128))
    assert sizes(RESNET, "d=2,e=0.35,w=1") == pytest.approx((48.037856, 7.491643904))
    assert sizes(MOBILENET, "d=2,e=3,k=3") == pytest.approx((3.395856, 0.121278672))
    assert sizes(MOBILENET, "d=4,e=6,k=7") == pytest.approx((7.613280, 0.566170656))
    ends = list_subnets(RESNET).ends
    assert [round(end.weights / 1e6, 2) for end in ends] == [6.52, 48.04]


def test_channels_that_a_file_states_are_never_rounded():
    """Classes, and channels of a stage; a width multiplier and an expand ratio give multiples of the divisor."""
    parts: list[dict[str, Any]] = [
        {"part": "conv", "name": "stem", "out": 16, "kernel": 3, "width": True},
        {"part": "stage", "name": "neck", "block": "bottleneck", "out": 20, "depth": [1], "expand": [0.5, 1.0]},
        {"part": "stage", "name": "deep", "block": "inverted", "out": 30, "depth": [1], "expand": [1.0]},
        {"part": "globalavgpool", "name": "pool"},
        {"part": "linear", "name": "fc", "out": 50},
    ]
    file = tiny(divisor=8, parts=parts)
    for text, expected in {
        "e=1,w=1": {"stem": 16, "neck.0.conv1": 20, "neck.0.conv3": 20, "deep.0.project": 30, "fc": 50},
        "e=0.5,w=0.5": {"stem": 8, "neck.0.conv1": 16, "neck.0.conv3": 20, "deep.0.project": 30, "fc": 50},
    }.items():
        made = subnet_file(file, parse_subnet(text, text), HERE)
        outs = {op.name: getattr(op, "out", None) for op in made.layers}
        assert {name: outs[name] for name in expected} == expected
        build_network(made, HERE)
    parts[0]["out"] = 20
    with pytest.raises(InputError, match=r"parts\[0\].out: expected a multiple of the divisor 8, .*found 20"):
        tiny(divisor=8, parts=parts)


def test_the_shipped_subnets_have_the_sizes_of_the_paper():
    resnet, mobilenet = list_subnets(RESNET), list_subnets(MOBILENET)
    assert [round(subnet.weights / 1e6, 3) for subnet in resnet.subnets] == [
        7.585,
        10.495,
        13.991,
        17.986,
        22.48,
        27.448,
    ]
    assert resnet.subnets[0].macs == 1_279_677_632
    assert [round(subnet.counted / 1e6, 2) for subnet in mobilenet.subnets] == [2.97, 3.12, 3.31, 3.58, 3.9, 4.59, 4.74]
    # Section 5.1 shares 7.55 of 7.58 and 2.90 of 2.97 MB; here the smallest lies in all others
    assert resnet.shared == resnet.subnets[0].weights
    assert mobilenet.shared_counted == mobilenet.subnets[0].counted
    assert 7.55 / 7.58 > 0.97 < 7.55e6 / resnet.shared <= 1
    assert 0.97 < 2.90e6 / mobilenet.shared_counted <= 1


def boxes_of(layers: Any) -> np.ndarray:
    keys = ("K", "C", "R", "Q", "inputs", "outputs")
    return np.array([[one[key] if one else 0 for one in layers] for key in keys])


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_extents_are_those_of_the_oracle(seed):
    (subnet,) = draw(RESNET.file, 1, seed)
    extents = extents_of(subnet_file(RESNET.file, subnet, HERE), slots_of(RESNET.file, HERE), HERE)
    assert np.array_equal(np.array(extents), boxes_of(naive.ofa_resnet50(subnet.d, subnet.e, subnet.w)))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("name", "side"), [("A", 224), ("D", 160), ("G", 128)])
def test_extents_of_mobilenet_are_those_of_the_oracle(name, side, counted):
    file, subnet = MOBILENET.file, MOBILENET.subnet(name)
    slots = slots_of(file, HERE, leave_out=file.uncounted if counted else ())
    extents = extents_of(subnet_file(file, subnet.model_copy(update={"r": side}), HERE), slots, HERE)
    layers = naive.ofa_mobilenet_v3(subnet.d[0], subnet.e[0], subnet.k[0], side, counted)
    assert np.array_equal(np.array(extents), boxes_of(layers))
    assert [slot.depthwise for slot in slots] == [bool(one and one["depthwise"]) for one in _largest(counted)]


def _largest(counted: bool) -> Any:
    return naive.ofa_mobilenet_v3(4, 6, 7, counted=counted)


def as_layers(file: SuperNetFile, subnet: SubNet, names: list[str]) -> list[Any]:
    """Layers of a tiny SubNet from its lowered network, which knows nothing of sharing."""
    network = subnet_file(file, subnet, HERE)
    kernels = {op.name: getattr(op, "kernel", [1, 1])[0] for op in network.layers}
    lowered = {layer.name: layer.gemm for layer in build_network(network, HERE).layers if layer.gemm}
    return [
        None
        if name not in lowered
        else {
            "K": lowered[name].C * lowered[name].groups,
            "C": lowered[name].P // kernels[name] ** 2,
            "R": kernels[name],
        }
        for name in names
    ]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_shared_weights_are_those_of_index_sets(seed, count):
    file = tiny()
    drawn = draw(file, count, seed)
    slots = slots_of(file, HERE)
    names = [slot.name for slot in slots]
    largest = as_layers(file, SubNet(name="largest"), names)
    sets = [naive.indices(as_layers(file, subnet, names), largest) for subnet in drawn]
    found = [extents_of(subnet_file(file, subnet, HERE), slots, HERE) for subnet in drawn]
    assert [int(item.weights.sum()) for item in found] == [len(one) for one in sets]
    assert weights_in(shared([item.boxes for item in found])) == len(set.intersection(*sets))
    assert [int(item.macs.sum()) for item in found] == [
        build_network(subnet_file(file, subnet, HERE), HERE).macs for subnet in drawn
    ]


def test_every_subnet_of_a_tiny_supernet_lowers():
    file = tiny()
    for subnet in draw(file, 60, 1):
        for side in (4, 8):
            network = build_network(subnet_file(file, subnet.model_copy(update={"r": side}), HERE), HERE)
            assert network.name == f"tiny:{subnet.name}"


def test_a_subnet_is_written_in_one_line_and_read_back():
    for subnet in [*RESNET.subnets, *MOBILENET.subnets, *draw(RESNET.file, 5, 3)]:
        file = RESNET.file if subnet.w else MOBILENET.file
        text = parse_subnet(_spec(full(file, subnet, HERE)), "x").name
        assert full(file, parse_subnet(text, "x"), HERE).model_dump(exclude={"name", "accuracy"}) == full(
            file, subnet, HERE
        ).model_dump(exclude={"name", "accuracy"})


def _spec(subnet: SubNet) -> str:
    from fluidb.models.supernets.space import spec

    return spec(subnet)


def test_draws_are_the_same_for_a_seed_and_take_every_choice():
    assert draw(RESNET.file, 3, 5) == draw(RESNET.file, 5, 5)[:3]
    drawn = draw(RESNET.file, 60, 0)
    for key, places in choices(RESNET.file).items():
        for number, place in enumerate(places if key != "r" else []):
            assert {getattr(subnet, key)[number] for subnet in drawn} == set(place)


def test_the_nearest_are_picked_each_once():
    found = pick(RESNET, 40, 0, weights=[12e6, 12e6])
    every = sorted(list_subnets(RESNET, draw(RESNET.file, 40, 0)).subnets, key=lambda item: abs(item.weights - 12e6))
    assert [subnet.subnet.name for subnet in found.subnets] == [item.subnet.name for item in every[:2]]
    seen: list[tuple[int, int]] = []
    work = pick(RESNET, 40, 0, macs=[2e9], progress=lambda *step: seen.append(step)).subnets[0]
    assert seen == [(n, 40) for n in range(1, 41)]
    assert abs(work.macs - 2e9) == min(abs(item.macs - 2e9) for item in every)
    with pytest.raises(InputError, match="at least 3, one for each size, found 2"):
        pick(RESNET, 2, 0, weights=[1, 2, 3])
    for weights, macs, expected in (
        ([12e6, 60e6], [], "6.515 to 48.04 MB, from the smallest SubNet to the largest, found 60 MB"),
        ([], [8e8], "962.2 to 7492 MMAC, from the smallest SubNet to the largest, found 800 MMAC"),
    ):
        with pytest.raises(InputError) as caught:
            pick(RESNET, 40, 0, weights, macs)
        assert str(caught.value) == f"near: expected {expected}"


def test_a_subnet_is_an_ordinary_network():
    named, given_ = load_network("ofa_mobilenet_v3:A"), load_network("ofa_mobilenet_v3:d=2,e=3,k=3")
    assert named.layers == given_.layers
    assert given_.name == "ofa_mobilenet_v3:d=2,e=3,k=3"
    assert load_network("ofa_mobilenet_v3:d=2,e=3,k=3,r=160").macs < named.macs
    assert sorted(SUPERNETS.names()) == ["ofa_mobilenet_v3", "ofa_resnet50"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ofa_resnet50", "expected a network, found a SuperNet; name a SubNet"),
        ("ofa_resnet50:Z", 'expected one of its SubNets (A, B, C, D, E, F) or e.g. "d=0,e=0.2", found "Z"'),
        ("ofa_resnet50:d=3", "d: expected 0, 1 or 2, found 3"),
        ("ofa_resnet50:d=0-1", "d: expected 1 value or 5, found 2"),
        ("ofa_resnet50:k=3", "k: expected none, as the kernel is not elastic, found 3"),
        ("ofa_resnet50:w=0.7", "w: expected 0.65, 0.8 or 1, found 0.7"),
        ("ofa_resnet50:r=99", "r: expected 128, 144, 160, 176, 192, 224, 240 or 256, found 99"),
        ("ofa_resnet50:d=0,d=1", "expected KEY=VALUE once for each of d, e, k, w, r"),
        ("ofa_resnet50:d=0.5", "d: expected numbers with hyphens between"),
        ("ofa_resnet51:d=0", 'unknown SuperNet "ofa_resnet51"; did you mean ofa_resnet50'),
    ],
)
def test_a_subnet_outside_its_supernet_is_one_line(name, fault):
    with pytest.raises(InputError) as error:
        load_network(name)
    assert fault in str(error.value)
    assert len(error.value.faults) == 1


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"part": "stage", "name": "a", "block": "inverted", "out": 4}, "expected at least one block"),
        ({"part": "stage", "name": "a", "block": "inverted", "base": 1}, "expected the channels behind a block"),
        ({"part": "stage", "name": "a", "block": "residual", "base": 1, "kernel": [2]}, "expected odd sides"),
        ({"part": "stage", "name": "a", "block": "residual", "base": 1, "kernel": [5, 3]}, "from small to large"),
        ({"part": "stage", "name": "a", "block": "bottleneck", "out": 4, "depth": [0, 1]}, "expected a block in every"),
        ({"part": "conv", "name": "a"}, "expected with conv and linear"),
        ({"part": "maxpool", "name": "a", "width": True}, "expected a layer with out"),
    ],
)
def test_a_supernet_with_faults_names_them(part, fault):
    with pytest.raises(InputError, match=fault):
        tiny(parts=[*TINY["parts"][:1], part])


def test_layers_that_cannot_be_made_of_a_supernet_are_named():
    with pytest.raises(InputError, match=r'tiny.toml: layers\[0\] \("input"\): expected a new name, found "input"'):
        slots_of(tiny(parts=[TINY["parts"][0] | {"name": "input"}, *TINY["parts"][1:]]), HERE)


def test_accuracies_need_a_source_and_names_are_unique():
    with pytest.raises(InputError, match="accuracies: expected their source"):
        tiny(subnets=[{"name": "a", "accuracy": 0.5}])
    with pytest.raises(InputError, match="expected each name once, found a again"):
        tiny(subnets=[{"name": "a"}, {"name": "a"}])


def test_the_command_lists_draws_and_writes_subnets_that_other_commands_take(fluidb: Run, tmp_path: Path):
    listed = fluidb("models", "subnets", "ofa_resnet50")
    assert "7.585   1.280   75.9 %" in listed.stdout
    assert "illustrative" in listed.stdout
    (line,) = lines(fluidb("models", "subnets", "ofa_mobilenet_v3", "--count", 10_001))
    assert 'expected at most 10000, found "10001"' in line
    done = fluidb("models", "subnets", "ofa_mobilenet_v3", "--near", "3.3MB,4MB", "--count", 30, "-o", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert done.stdout == fluidb("models", "subnets", "ofa_mobilenet_v3", "--near", "3.3MB,4MB", "--count", 30).stdout
    name = load_family(str(tmp_path / "mine.toml")).subnets[0].name
    shown = fluidb("models", "show", f"mine.toml:{name}")
    assert f"ofa_mobilenet_v3:{name}" in shown.stdout
    assert fluidb("latency", f"mine.toml:{name}", "v100-tensorrt", "-o", "out").returncode == 0
    (tmp_path / "sub").mkdir()
    assert fluidb("models", "subnets", "mine.toml", "--count", 2, "-o", "sub/two.toml").returncode == 0
    assert load_family(str(tmp_path / "sub" / "two.toml")).file == MOBILENET.file
    again = fluidb("models", "subnets", "mine.toml")
    assert "30 drawn at random, seed 0; the nearest to 3.3MB,4MB" in again.stdout


def test_subnets_are_written_with_their_accuracies_and_the_path_of_their_supernet(fluidb: Run, tmp_path: Path):
    assert fluidb("models", "subnets", "ofa_mobilenet_v3", "-o", "all.toml").returncode == 0
    again = load_family(str(tmp_path / "all.toml"))
    assert (again.subnets, again.accuracies, again.source) == (
        MOBILENET.subnets,
        MOBILENET.accuracies,
        MOBILENET.source,
    )
    own = (SUPERNETS.folder / "ofa_mobilenet_v3.toml").read_text().replace('name = "ofa_mobilenet_v3"', 'name = "own"')
    (tmp_path / "own.toml").write_text(own)
    (tmp_path / "sub").mkdir()
    assert fluidb("models", "subnets", "own.toml", "--count", 1, "-o", "sub/one.toml").returncode == 0
    assert fluidb("models", "show", "sub/one.toml:r1").stdout.startswith("network ")
    assert fluidb("models", "show", "own.toml:A").returncode == 0


def test_a_subnet_with_commas_is_one_network_of_a_list(fluidb: Run):
    done = fluidb("dse", "ofa_mobilenet_v3:d=2,e=3,k=9,ofa_mobilenet_v3:A", "zc706", "--b-max", 1)
    (line,) = lines(done)
    assert "k: expected 3, 5 or 7, found 9" in line


def test_a_subnet_in_place_of_its_supernet_is_told(fluidb: Run):
    assert lines(fluidb("dse", "ofa_mobilenet_v3:A", "sushi-zcu104")) == [
        "fluidb: ofa_mobilenet_v3:A: expected a SuperNet, found one of its SubNets; name ofa_mobilenet_v3"
    ]


def test_a_supernet_in_place_of_a_network_is_told(fluidb: Run, tmp_path):
    assert fluidb("models", "subnets", "ofa_resnet50", "--count", 2, "-o", "mine.toml").returncode == 0
    for name in ("ofa_resnet50", "mine.toml"):
        (line,) = lines(fluidb("models", "check", name))
        assert line.startswith(f"fluidb: {name}: expected a network, found a SuperNet; name a SubNet of it (`")


@pytest.mark.parametrize("near", ["3", "3GB", "3MB,1GMAC", "x"])
def test_a_size_without_its_unit_is_one_line(fluidb: Run, near):
    done = fluidb("models", "subnets", "ofa_resnet50", "--near", near)
    (line,) = lines(done)
    assert line.startswith("fluidb: --near: expected")
