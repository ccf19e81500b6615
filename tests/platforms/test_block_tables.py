"""Tables of blocks: rows have the names that their tools ask for, from the sizes of each paper's network."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from builders import Run
from fluidb.dse.device.blocks import import_blocks
from fluidb.formats import InputError
from fluidb.models.loader import read_network_file
from fluidb.models.schema import ExitFile
from fluidb.models.writer import network_text
from fluidb.platforms import load_platform
from fluidb.platforms.measured import MeasuredDevice

HAT = "encoder_embed_dim,decoder_layer_num,latency_mean_encoder,latency_mean_decoder\n512,6,1990.5,5932.5\n"

SUBNETS = {"A": (2, 3, 3), "D": (3, 4, 5), "G": (4, 6, 5)}
"""Depth, expand ratio and kernel of these SubNets of Once-for-all's MobileNet-V3 in every stage."""


def once_for_all(depth: int, expand: int, kernel: int) -> list[str]:
    """The rows that predict_network_latency_given_config of MBv3LatencyTable asks for, at 224 x 224."""
    names, size, channels = ["Conv-input:224x224x3-output:112x112x16"], 112, 16
    stages = [(16, 1, 0, 0), (24, 2, 0, 0), (40, 2, 1, 0), (80, 2, 0, 1), (112, 1, 1, 1), (160, 2, 1, 1)]
    for stage, (out, stride, squeezes, swish) in enumerate(stages):
        for block in range(depth if stage else 1):
            step = 1 if block else stride
            made, skips = (size - 1) // step + 1, int(step == 1 and channels == out)
            wide, window = (channels * expand, kernel) if stage else (channels, 3)
            names.append(
                f"expanded_conv-input:{size}x{size}x{channels}-output:{made}x{made}x{out}-expand:{wide}"
                f"-kernel:{window}-stride:{step}-idskip:{skips}-se:{squeezes}-hs:{swish}"
            )
            size, channels = made, out
    ends = ["Conv_1-input:7x7x160-output:7x7x960", "AvgPool2D-input:7x7x960-output:1x1x960"]
    return [*names, *ends, "Conv_2-input:1x1x960-output:1x1x1280", "Logits-input:1x1x1280-output:1000"]


def proxyless() -> list[str]:
    """The rows of MobileNet-V2, as ProxylessNAS names them: the expand ratio, and the pool in the last layer."""
    names, size, channels = ["Conv-input:224x224x3-output:112x112x32"], 112, 32
    groups = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, out, count, stride in groups:
        for block in range(count):
            step = 1 if block else stride
            made, skips = (size - 1) // step + 1, int(step == 1 and channels == out)
            names.append(
                f"expanded_conv-input:{size}x{size}x{channels}-output:{made}x{made}x{out}-expand:{expand}"
                f"-kernel:3-stride:{step}-idskip:{skips}"
            )
            size, channels = made, out
    return [*names, "Conv_1-input:7x7x320-output:7x7x1280", "Logits-input:7x7x1280-output:1000"]


def timed(names: list[str]) -> dict[str, float]:
    """A time in milliseconds for each row, no two of which have the same sum."""
    return {name: 0.25 + 2.0**-place for place, name in enumerate(dict.fromkeys(names))}


def text_of(rows: dict[str, float], form: str) -> str:
    """A table as it is exchanged."""
    match form:
        case "yaml":
            return "".join(f"{name}:\n  count: 40\n  mean: {time!r}\n  std: 0.1\n" for name, time in rows.items())
        case "flow.yaml":
            return "".join(f"'{name}': {{count: 40, mean: {time!r}, std: 0.1}}\n" for name, time in rows.items())
        case "json":
            return json.dumps({name: {"mean": time, "count": 4} for name, time in rows.items()})
        case _:
            return "block,count,mean\n" + "".join(f"{name},4,{time!r}\n" for name, time in rows.items())


@pytest.mark.parametrize("form", ["yaml", "flow.yaml", "json", "csv"])
@pytest.mark.parametrize("subnet", SUBNETS)
def test_a_network_takes_the_sum_of_its_blocks(tmp_path: Path, subnet: str, form: str):
    names = once_for_all(*SUBNETS[subnet])
    rows = timed([*once_for_all(4, 6, 7), *names])
    (path := tmp_path / f"note.{form}").write_text(text_of(rows, form))
    device, _ = import_blocks(path, tmp_path / "d.toml", f"ofa_mobilenet_v3:{subnet}")
    assert device.times_s == [[[pytest.approx(sum(rows[name] for name in names) / 1e3)]]]


def test_each_stage_takes_its_blocks_and_the_command_writes_both_files(tmp_path: Path, fluidb: Run):
    """ProxylessNAS's table, and an exit that divides MobileNet-V2 behind its fifth block."""
    file, _ = read_network_file("mobilenet_v2")
    exits = [ExitFile(after="features.5", rate=0.5, head="none")]
    (tmp_path / "two.toml").write_text(network_text(file.model_copy(update={"exits": exits, "candidates": None})))
    names = proxyless()
    rows = timed(names)
    (tmp_path / "mobile.yaml").write_text(text_of(rows, "yaml"))
    done = fluidb("platforms", "import", "mobile.yaml", "--network", "two.toml", "-o", "pixel.toml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("format  ProxylessNAS\ndevice  Times of mobilenet_v2, measured (mobile)\n")
    loaded = load_platform(str(tmp_path / "pixel.toml"), kind=MeasuredDevice)
    expected = [sum(rows[name] for name in part) / 1e3 for part in (names[:6], names[6:])]
    assert loaded.times_s == [[[pytest.approx(seconds)] for seconds in expected]]
    done = fluidb("latency", "two.toml", "pixel.toml", "-o", "out")
    assert done.returncode == 0, done.stderr


def test_the_halves_of_a_transformer_are_one_stage_or_two(tmp_path: Path):
    (path := tmp_path / "rpi.csv").write_text(HAT)
    device, text = import_blocks(path, tmp_path / "d.toml", "transformer_base")
    assert device.times_s == [[[7.923]]]
    assert text == "stage,batch,seconds\n1,1,7.923\n"
    file, _ = read_network_file("transformer_seq2seq")
    (tmp_path / "whole.toml").write_text(network_text(file.model_copy(update={"steps": 1})))
    device, _ = import_blocks(path, tmp_path / "d.toml", tmp_path / "whole.toml")
    assert device.times_s == [[[1.9905], [5.9325]]]


ROWS = once_for_all(2, 3, 3)
FAULTS = {
    "no row of a block": (
        text_of(timed([name for name in ROWS if "14x14x80-output:14x14x112" not in name]), "yaml"),
        "ofa_mobilenet_v3:A",
        "80-output:14x14x112-expand:240-kernel:3-stride:1-idskip:0-se:1, for stage4.0.expand to stage4.0.project;",
    ),
    "another network": (
        text_of(timed(ROWS), "yaml"),
        "mobilenet_v2",
        "expected rows of the 21 blocks of mobilenet_v2, found 1; the first without a row is Conv-input:224x224x3-",
    ),
    "two activations": (
        text_of(timed([*ROWS, ROWS[3].replace("hs:0", "hs:1")]), "yaml"),
        "ofa_mobilenet_v3:A",
        f"expected one row for stage1.1.expand to stage1.1, found {ROWS[3]} and ",
    ),
    "no time": (
        text_of(timed(ROWS), "yaml").replace("mean: 1.25", "mean: .nan"),
        "ofa_mobilenet_v3:A",
        'line 1: mean: expected milliseconds above 0, found ".nan"',
    ),
    "a name": (
        text_of(timed(ROWS), "yaml") + "Conv-input:2x2:\n  mean: 1\n",
        "ofa_mobilenet_v3:A",
        'found "Conv-input:2x2"',
    ),
    "no YAML": (text_of(timed(ROWS), "yaml") + "- 3\n", "ofa_mobilenet_v3:A", 'MILLISECONDS below it, found "- 3"'),
    "rows": (HAT + "640,6,1,1\n", "transformer_base", "expected one row, found 2, each of a transformer of its own"),
    "steps": (HAT, "transformer_seq2seq", "found 2 stages, the last of up to 103 steps"),
    "halves": (HAT.replace("1990.5", "-"), "transformer_base", "latency_mean_encoder: expected milliseconds above 0"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_a_table_is_one_clear_line(tmp_path: Path, case: str):
    text, network, expected = FAULTS[case]
    (path := tmp_path / "t.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        import_blocks(path, tmp_path / "d.toml", network)
    (line,) = caught.value.faults
    assert line.startswith(f"{path}: ")
    assert expected in line


@pytest.mark.parametrize("form", ["yaml", "flow.yaml", "json", "csv", "hat.csv"])
def test_no_damage_breaks_the_command(tmp_path: Path, fluidb: Run, form: str):
    """It ends with a device, or with faults of a line each."""
    rng, path = random.Random(form), tmp_path / f"t.{form}"
    whole = (HAT if form == "hat.csv" else text_of(timed(ROWS), form)).encode()
    network = "transformer_base" if form == "hat.csv" else "ofa_mobilenet_v3:A"
    for _ in range(30):
        raw = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(raw))
            raw[place : place + rng.randint(0, 9)] = rng.choice(
                [b"", b"9", b"-", b"\xff", b"1e999", b",", b"\n", b'"', b"nan", b"{", b": ", b"\n  mean: 3", b"0x"]
            )
        path.write_bytes(raw)
        done = fluidb("platforms", "import", path.name, "--network", network, "-o", "d.toml", "--force")
        assert done.returncode in {0, 2}
        assert done.returncode or not done.stderr
        assert all(line.startswith(("fluidb: ", "and ")) for line in done.stderr.splitlines())
