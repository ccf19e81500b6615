"""Networks of other tools: what their rows mean, every quirk and fault, and files that read back the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from builders import DATA, TINY, Run, edited, edits, lines
from fluidb.formats import InputError, read_toml
from fluidb.models import NETWORKS, Network, load_network
from fluidb.models.importers import ReadAs, import_network
from fluidb.models.importers.names import LayerNames
from fluidb.models.loader import build_network
from fluidb.models.schema import NAME_LENGTH, NetworkFile
from fluidb.models.writer import network_text
from hypothesis import given
from hypothesis import strategies as st

TABLES = DATA / "scalesim"
HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"


def import_scalesim(path: Path, read_as: ReadAs | None = None) -> Network:
    return build_network(import_network(path, "scalesim", read_as=read_as), path)


def import_text(tmp_path: Path, text: str | bytes, read_as: ReadAs | None = None) -> Network:
    path = tmp_path / "net.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_scalesim(path, read_as)


def products(network: Network) -> list[tuple[int, ...]]:
    return [layer.gemm[:4] if layer.gemm else (layer.memory_words,) for layer in network.layers]


def positions(ifmap: int, window: int, stride: int) -> int:
    """Output positions along an axis as SCALE-Sim counts them, by walking: the last window may stick out."""
    return len(range(0, ifmap - window + stride, stride))


@pytest.mark.parametrize(
    ("table", "gemms", "macs"),
    [
        ("resnet50", 54, 3_479_536_384),
        ("alexnet", 5, 805_118_496),
        ("gpt2", 6, 20_686_307_328),
        ("mobilenet", 28, 566_543_488),
        ("vww", 8, 1_915_424),
    ],
)
def test_real_tables(table, gemms, macs):
    network = import_scalesim(TABLES / f"{table}.csv")
    assert (len(network.gemms), network.macs) == (gemms, macs)
    assert network.name == table
    assert network.sources["layers"].startswith(f"SCALE-Sim topology {table}.csv, ")


def test_the_macs_of_a_plain_table_by_hand():
    """Every row of ResNet-50's table, cell by cell, as SCALE-Sim's own loader multiplies it."""
    lines = [line.split(",") for line in (TABLES / "resnet50.csv").read_text().splitlines()[2:]]
    expected = []
    for cells in lines:
        h, w, fh, fw, channels, filters, stride = map(int, cells[1:8])
        expected.append((positions(h, fh, stride) * positions(w, fw, stride), fh * fw * channels, filters, 1))
    assert products(import_scalesim(TABLES / "resnet50.csv")) == expected


def test_resnet50_s_table_differs_from_ours_by_padding_and_by_where_the_stride_sits():
    """Layer by layer (docs/import.md): same products but for their rows, and those explained exactly."""
    ours, table = load_network("resnet50").backbone(), import_scalesim(TABLES / "resnet50.csv")
    cells = [line.split(",") for line in (TABLES / "resnet50.csv").read_text().splitlines()[2:]]
    by_reason = {"padding": 0, "partial window": 0, "stride moved": 0, "none": 0}
    for mine, theirs, row in zip(ours.gemms, table.gemms, cells, strict=True):
        ifmap, window, stride = int(row[1]), int(row[3]), int(row[7])
        assert (mine.P, mine.C, mine.groups) == (theirs.P, theirs.C, theirs.groups)
        rows = mine.R
        if window > 1:  # the zoo pads by half the window, the table not at all
            reason, rows = "padding", (ifmap // stride) ** 2
        elif row[0].endswith("_1") and stride == 2:  # v1.5 strides in the 3x3 that follows
            reason, rows = "stride moved", ifmap**2
        elif stride == 2:  # SCALE-Sim counts a window that starts behind the last whole one
            reason, rows = "partial window", (ifmap // stride) ** 2
        else:
            reason = "none"
            assert theirs.R == mine.R
        assert rows == mine.R
        by_reason[reason] += mine.macs - theirs.macs
    assert by_reason == {"padding": 446_102_784, "partial window": -54_132_736, "stride moved": 217_677_824, "none": 0}
    assert ours.macs - table.macs == sum(by_reason.values()) == 609_647_872


def test_mobilenet_s_table_is_mobilenet():
    """With the padding and the last stride that the table leaves out, the published 569 million MACs."""
    network = import_scalesim(TABLES / "mobilenet.csv")
    macs = 0
    for layer in network.layers:
        assert layer.gemm
        side = {110: 112, 54: 56, 26: 28, 12: 14, 3: 7}.get(layer.shape.height, layer.shape.height)
        macs += side**2 * layer.gemm.P * layer.gemm.C * layer.gemm.groups
    assert macs == 568_740_352  # Howard et al., MobileNets (2017), Table 4: 569 million


QUIRKS = {
    "as SCALE-Sim writes it": HEADER + "\na, 8, 8, 3, 3, 4, 6, 1,\nb, 6, 6, 1, 1, 6, 2, 2,\n",
    "no comma at the end, no end of line": HEADER + "\na,8,8,3,3,4,6,1\nb,6,6,1,1,6,2,2",
    "CRLF and a BOM": "\ufeff" + HEADER + "\r\na,8,8,3,3,4,6,1,\r\nb,6,6,1,1,6,2,2,\r\n",
    "old Mac line ends": HEADER + "\ra,8,8,3,3,4,6,1,\rb,6,6,1,1,6,2,2,\r",
    "blank lines and rows of commas": f"\n{HEADER}\n,,,,,,,,\na,8,8,3,3,4,6,1,\n\n   \nb,6,6,1,1,6,2,2,\n\n\n",
    "spaces and tabs": HEADER + "\na   ,8\t ,  8,3 , 3,4,6,1 ,  \n b,6,6,1,1,6,2,2,\t\n",
    "no header, with a BOM": "\ufeffa,8,8,3,3,4,6,1,\nb,6,6,1,1,6,2,2,\n",
    "a wrong heading": HEADER.replace("IFMAP Height", "IFMAP Width") + "\na,8,8,3,3,4,6,1,\nb,6,6,1,1,6,2,2,\n",
    "columns of the author's own": HEADER + ",Eh,Ew,Target\na,8,8,3,3,4,6,1,,6,6,NPU\nb,6,6,1,1,6,2,2,,3,3,GPU\n",
    "comments behind": HEADER + "\na,8,8,3,3,4,6,1,#first\nb,6,6,1,1,6,2,2,#second\n",
    "sparsity": HEADER[:-1] + ", Sparsity,\na,8,8,3,3,4,6,1,2:4,\nb,6,6,1,1,6,2,2,1:1,\n",
    "a batch of one": HEADER[:-1] + ", Batch Size,\na,8,8,3,3,4,6,1,1,\nb,6,6,1,1,6,2,2,1,\n",
    "a stride without heading behind": HEADER + "\na,8,8,3,3,4,6,1, 1\nb,6,6,1,1,6,2,2, 2\n",
    "two strides, as SCALE-Sim saves them": (
        HEADER.replace("Strides,", "Stride height, Stride width,") + "\na,8,8,3,3,4,6,1,1,\nb,6,6,1,1,6,2,2,2,\n"
    ),
}


@pytest.mark.parametrize("case", QUIRKS)
def test_quirks_change_nothing(tmp_path, case):
    network = import_text(tmp_path, QUIRKS[case])
    assert products(network) == [(36, 36, 6, 1), (16, 6, 2, 1)]
    assert [layer.name for layer in network.layers] == ["a", "b"]
    assert [layer.shape for layer in network.layers] == [(6, 6, 6), (4, 4, 2)]
    assert ("sparsity" in network.sources) == (case == "sparsity")


def test_strides_by_axis(tmp_path):
    text = HEADER.replace("Strides,", "Stride height, Stride width,") + "\na,9,9,3,3,4,6,1,2,\n"
    assert import_text(tmp_path, text).layers[0].shape == (7, 4, 6)


@pytest.mark.parametrize(
    ("row", "product"),
    [
        ("DP1,8,8,3,3,16,1,1,", (36, 9, 1, 16)),  # SCALE-Sim's mark, filters for each channel
        ("DP1,8,8,3,3,16,2,1,", (36, 9, 2, 16)),
        ("DepthwiseConv2D,8,8,3,3,16,1,1,", (36, 9, 1, 16)),
        ("c_dw,8,8,3,3,16,16,1,", (36, 9, 1, 16)),
        ("c_dw,8,8,3,3,16,32,1,", (36, 9, 2, 16)),
        ("conv,8,8,3,3,16,16,1,#dw", (36, 9, 1, 16)),
        ("c_dw,8,8,3,3,1,1,1,", (36, 9, 1, 5)),  # one channel for all five of the row before
        ("hardwired,8,8,3,3,16,1,1,", (36, 144, 1, 1)),  # an ordinary row with a suspicious name
        ("conv,8,8,3,3,16,1,1,\nnext,6,6,1,1,16,4,1,", (36, 9, 1, 16)),  # unmarked: the next row takes all channels
        ("conv,8,8,3,3,16,1,1,\nnext,1,1,1,1,576,4,1,", (36, 9, 1, 16)),  # all of them as a vector
        ("conv,8,8,3,3,1,1,1,\nnext,6,6,1,1,5,4,1,", (36, 9, 1, 5)),  # one channel that stands for all five
        ("conv,8,8,3,3,16,1,1,\nnext,6,6,1,1,1,4,1,", (36, 144, 1, 1)),  # the next row takes the one map
        ("conv,8,8,3,3,16,1,1,\nnext,1,1,1,1,36,4,1,", (36, 144, 1, 1)),  # as a vector
        ("conv,8,8,3,3,16,1,1,#conv\nnext,6,6,1,1,16,4,1,", (36, 144, 1, 1)),
        ("conv,8,8,3,3,16,1,1,#dw\nnext,6,6,1,1,7,4,1,", (36, 9, 1, 16)),
        ("conv,8,8,3,3,16,1,1,#conv\nnext,6,6,1,1,7,4,1,", (36, 144, 1, 1)),
        ("AvgPool,8,8,2,2,5,1,2,", (8 * 8 * 5 + 4 * 4 * 5,)),
        ("poolish,8,8,2,2,5,7,2,", (16, 20, 7, 1)),
    ],
)
def test_rows_that_are_no_plain_convolution(tmp_path, row, product):
    network = import_text(tmp_path, f"{HEADER}\nfirst,10,10,3,3,3,5,1,\n{row}\n")
    assert products(network)[1] == product


@pytest.mark.parametrize(("one_filter", "product"), [("conv", (36, 144, 1, 1)), ("depthwise", (36, 9, 1, 16))])
def test_rows_of_one_filter_that_their_neighbours_leave_open(tmp_path, one_filter, product):
    """One option decides about all of them, and about no others: the last row makes one map in any case."""
    text = f"{HEADER}\na,8,8,3,3,16,1,1,\nb,6,6,1,1,7,4,1,\nc,6,6,1,1,4,1,1,\n"
    network = import_text(tmp_path, text, ReadAs(one_filter=one_filter))
    assert products(network) == [product, (36, 7, 4, 1), (36, 4, 1, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "Layer,M,N,K,\na,8,2,3,\n",
        "a,8,2,3\n",
        "a,8,2,3,1:4,1\n",
        "Layer Name, M, N, K, Sparsity,\na,8,2,3,1:4,\n",
        "Layer,M,N,K,FFN\na,8,2,3,,",
    ],
)
def test_products(tmp_path, text):
    network = import_text(tmp_path, text)
    assert network.gemms == [(8, 3, 2, 1)]
    assert network.layers[0].shape == (8, 1, 2)


def test_a_batch_of_products_is_heads_of_activations(tmp_path):
    network = import_text(tmp_path, "Layer,M,N,K,\na,8,2,3,12,\nb,8,2,3,1:2,4,\n")
    assert network.gemms == [(8, 3, 2, 12), (8, 3, 2, 4)]
    assert all(layer.per_sample for layer in network.layers)


def test_names_are_plain_and_each_their_own(tmp_path):
    network = import_text(
        tmp_path, "Layer,M,N,K,\nTest 1,1,1,1,\nTest 1,1,1,1,\ninput,1,1,1,\nTest_1.2,1,1,1,\n,1,1,1,\n"
    )
    assert [layer.name for layer in network.layers] == ["Test_1", "Test_1.2", "input.2", "Test_1.2.2", "_"]


@given(
    st.lists(st.one_of(st.sampled_from(["a", "a.2", "input", "b" * 90, "b" * 80]), st.text(max_size=90)), max_size=9)
)
def test_any_names_can_be_given(texts):
    names = LayerNames()
    given_names = [names.give(text) for text in texts]
    assert len({*given_names, "input"}) == len(texts) + 1
    assert all(0 < len(name) <= NAME_LENGTH for name in given_names)


FAULTS = {
    "empty": ("", ["expected a SCALE-Sim topology, found an empty file"]),
    "only commas": (",,,\n,,\n", ["found an empty file"]),
    "only a header": (HEADER, ["expected a layer below the header, found none"]),
    "another table": ("time,value\n1,2\n", ["header: expected", '"Layer, M, N, K"', 'found "time,value"']),
    "other order": ("Layer,M,K,N,\na,1,2,3,\n", ["header: expected"]),
    "no number": (HEADER + "\na,8,8,3,3,x,6,1,\n", ['line 2 ("a"): Channels: expected a whole number', 'found "x"']),
    "fraction": (HEADER + "\na,8,8,3,3,4.5,6,1,\n", ["Channels", '"4.5"']),
    "zero": (HEADER + "\na,8,8,3,3,4,6,0,\n", ["Strides", 'found "0"']),
    "negative": (HEADER + "\na,8,8,3,3,4,-6,1,\n", ["Num Filter", '"-6"']),
    "endless": (HEADER + f"\na,8,8,3,3,4,{'9' * 5000},1,\n", ["Num Filter", '"9999']),
    "digits of another script": (HEADER + "\na,8,8,3,3,4,٣,1,\n", ["Num Filter", '"٣"']),
    "short row": (HEADER + "\na,8,8,3,3,4,6\n", ["Strides: expected", 'found ""']),
    "short product": ("Layer,M,N,K\na,8,8\n", ["K: expected"]),
    "filter too large": (HEADER + "\na,8,8,9,9,4,6,1,\n", ["filter 9x9 does not fit into IFMAP 8x8"]),
    "batch": (HEADER[:-1] + ",Batch Size,\na,8,8,3,3,4,6,1,32,\n", ["expected a batch of 1"]),
    "depthwise of any": (HEADER + "\na_dw,8,8,3,3,1,1,1,\n", ["stands for all channels", "(none)"]),
    "depthwise of both": (
        HEADER + "\na,8,8,3,3,1,16,1,\nb_dw,8,8,3,3,1,1,1,\nc,8,8,1,1,32,4,1,\n",
        ['line 3 ("b_dw")', "(16, 32); write the Channels"],
    ),
    "depthwise or not": (
        HEADER + "\na,8,8,3,3,16,1,1,\nb,6,6,1,1,7,4,1,\n",
        ['line 2 ("a"): expected a next row of 1 channel, or of 16', "found one of 7; write #dw behind"],
    ),
    "depthwise of a part": (HEADER + "\na_dw,8,8,3,3,16,24,1,\n", ["a multiple of its 16 channels"]),
    "nothing multiplies": (HEADER + "\navgpool,8,8,3,3,16,1,1,\n", ["at least one layer that multiplies"]),
    "too much": (
        HEADER + f"\na,{2**14},{2**14},1,1,1,1,1,\n",
        ['line 2 ("a"): output positions: expected at most', f"found {2**28}"],
    ),
    "too much work": (HEADER + f"\na,4000,4000,1,1,{2**20},{2**20},1,\n", ['line 2 ("a"): expected at most', "MACs"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_one_clear_line(tmp_path, case):
    text, parts = FAULTS[case]
    with pytest.raises(InputError) as caught:
        import_text(tmp_path, text)
    (line,) = caught.value.faults
    assert line.startswith(f"{tmp_path}/net.csv: ")
    assert all(part in line for part in parts), line
    assert len(line) < 400


def test_every_fault_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        import_text(tmp_path, HEADER + "\na,x,8,3,3,4,6,1,\nb,8,8,3,3,4,6,y,\nc,0,0,3,3,4,6,1,\n")
    assert [fault.split(": ")[1] for fault in caught.value.faults] == [
        'line 2 ("a")',
        'line 3 ("b")',
        *['line 4 ("c")'] * 2,
    ]


def test_no_utf8_is_one_line(tmp_path):
    with pytest.raises(InputError, match="expected UTF-8 text, found byte 0xff at 3"):
        import_text(tmp_path, b"abc\xff,1,2,3")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(st.one_of(st.binary(max_size=200), st.tuples(st.sampled_from(["vww", "gpt2"]), edits)))
def test_no_bytes_break_the_reader(scratch, source):
    raw = source if isinstance(source, bytes) else edited((TABLES / f"{source[0]}.csv").read_bytes(), source[1])
    try:
        assert import_text(scratch, raw).gemms
    except InputError as error:
        assert all(fault.startswith(f"{scratch}/net.csv: ") and "\n" not in fault for fault in error.faults)


@given(edits)
def test_no_bytes_break_the_reader_of_networks(scratch, changes):
    path = scratch / "net.toml"
    path.write_bytes(edited(Path(TINY).read_bytes(), changes))
    try:
        assert load_network(str(path)).gemms
    except InputError as error:
        assert all(fault.startswith(f"{path}: ") for fault in error.faults)


# --- what is written reads back ---

_name = st.from_regex(r"[A-Za-z0-9_.:-]{1,8}", fullmatch=True)
_count = st.integers(1, 9)
_pair = st.lists(_count, min_size=2, max_size=2)
_sides = st.lists(st.integers(0, 2), min_size=4, max_size=4)
_shape = st.lists(_count, min_size=3, max_size=3)
_window = {"kernel": _pair, "stride": _pair, "pad": _sides}
_conv = {**_window, "out": _count, "groups": _count, "dilation": _pair}
_KEYS: dict[str, dict[str, Any]] = {
    "conv": _conv,
    "convtranspose": {**_conv, "extra": _pair},
    "maxpool": {**_window, "ceil": st.booleans()},
    "avgpool": _window,
    "globalavgpool": {},
    "linear": {"out": _count},
    "flatten": {},
    "matmul": {"heads": _count, "transposed": st.booleans()},
    "gemm": {"rows": _count, "inner": _count, "columns": _count, "groups": _count, "per_sample": st.booleans()},
    "recurrent": {"hidden": _count, "gates": st.integers(1, 8), "directions": st.integers(1, 2), "sequences": _count},
    "memory": {"reads": st.one_of(st.none(), st.integers(0, 9))},
    "view": {"shape": _shape},
    "add": {},
    "concat": {},
    "fuse": {},
}


@st.composite
def operators(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from([*_KEYS]))
    content = {"name": draw(_name), "op": op, **{key: draw(values) for key, values in _KEYS[op].items()}}
    if draw(st.booleans()):
        content["from"] = draw(st.lists(_name, min_size=1, max_size=3))
    if draw(st.booleans()):
        content["shape"] = draw(_shape)
    return content


_operators = st.lists(operators(), min_size=1, max_size=3)
_exits = st.fixed_dictionaries({"after": _name, "rate": st.floats(0, 1)}).flatmap(
    lambda exit_: st.one_of(
        st.just({**exit_, "head": "msdnet", "classes": 7}), _operators.map(lambda ops: {**exit_, "layers": ops})
    )
)
_networks = st.fixed_dictionaries(
    {
        "schema": st.just("fluidb.network/1"),
        "name": _name,
        "title": st.text(),
        "input": st.fixed_dictionaries({"height": _count, "width": _count, "channels": _count}),
        "layers": _operators,
        "exits": st.lists(_exits, max_size=3),
        "sources": st.dictionaries(st.text(), st.text(), max_size=3),
    }
)


def test_every_character_is_written(scratch):
    text = "".join(map(chr, range(0x300)))
    file = read_toml(NetworkFile, Path(TINY)).model_copy(update={"title": text, "sources": {text: text}})
    path = scratch / "back.toml"
    path.write_text(network_text(file), encoding="utf-8", newline="")
    assert read_toml(NetworkFile, path) == file


def test_every_operator_is_written():
    assert set(_KEYS) == {name for op in NetworkFile.model_json_schema()["$defs"].values() for name in _ops_of(op)}


def _ops_of(definition: dict[str, Any]) -> list[str]:
    op = definition["properties"].get("op", {})
    return [*op.get("enum", []), *([op["const"]] if "const" in op else [])]


@given(_networks)
def test_any_network_reads_back(scratch, content):
    file = NetworkFile.model_validate(content)
    path = scratch / "back.toml"
    path.write_text(network_text(file), encoding="utf-8")
    assert read_toml(NetworkFile, path) == file


@pytest.mark.parametrize("name", [*NETWORKS.names(), TINY])
def test_networks_that_ship_read_back(tmp_path, name):
    path = tmp_path / "back.toml"
    path.write_text(network_text(read_toml(NetworkFile, NETWORKS.find(name))))
    assert load_network(str(path)) == load_network(name)


# --- the command ---


def test_import_writes_a_file_that_works_wherever_a_name_does(fluidb: Run, tmp_path: Path) -> None:
    done = fluidb("models", "import", TABLES / "vww.csv", "-o", "net.toml", "--name", "mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert "8 GEMMs, 1,915,424 MACs" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["net.toml"]
    assert "from a SCALE-Sim topology (mine)" in fluidb("models", "show", "net.toml").stdout
    assert fluidb("models", "check", "net.toml").stdout == "net.toml: no faults; 8 GEMMs, 1,915,424 MACs, 1 exit\n"
    assert fluidb("dse", "net.toml", DATA / "pocket.toml", "--b-max", 1).returncode == 0


def test_same_table_same_bytes(fluidb: Run, tmp_path: Path) -> None:
    fluidb("models", "import", TABLES / "vww.csv", "-o", "vww.toml")
    golden = Path(__file__).parents[1] / "golden" / "vww.toml"
    if os.environ.get("GOLDEN") == "write":
        golden.write_bytes((tmp_path / "vww.toml").read_bytes())
    assert (tmp_path / "vww.toml").read_bytes() == golden.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bad.csv"], 'bad.csv: line 1 ("a"): Strides: expected a whole number'),
        (["net.bin"], "net.bin: expected a name that ends in .onnx (onnx) or .csv (scalesim), found another"),
        (["nowhere.csv"], "nowhere.csv: expected a file to import, found none"),
        ([".", "--format", "scalesim"], ".: expected a file to import, found a folder"),
        (
            ["one.csv", "--rates", "0.5"],
            "--rates: expected a network with exits, found none in one.csv; add exits",
        ),
        (["bad.csv", "--format", "yaml"], "format: expected onnx, scalesim"),
        (["bad.csv", "--name", "a b"], "name: expected 1 to 80 letters"),
        (["bad.csv", "-o", "there.toml"], "there.toml: output exists already"),
    ],
)
def test_a_refused_import_leaves_nothing(fluidb: Run, tmp_path: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "bad.csv").write_text("a,8,8,3,3,4,6,0,\n")
    (tmp_path / "one.csv").write_text("a,8,8,3,3,4,6,1,\n")
    (tmp_path / "net.bin").write_text("")
    (tmp_path / "there.toml").write_text("mine")
    before = sorted(tmp_path.iterdir())
    (line,) = lines(fluidb("models", "import", *arguments, *([] if "-o" in arguments else ["-o", "out.toml"])))
    assert expected in line
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there.toml").read_text() == "mine"


TORCH = 'in Python, `torch.onnx.export(model.eval(), (sample,), "net.onnx")`'
FOREIGN = {
    "net.pt": f"a file of PyTorch; export it: {TORCH}",
    "net.PTH": f"a file of PyTorch; export it: {TORCH}",
    "net.safetensors": f"a file of PyTorch; export it: {TORCH}",
    "net.keras": "a file of Keras; export it: in Python, "
    '`keras.saving.load_model("net.keras").export("net.onnx", format="onnx")`',
    "net.h5": "a file of Keras; export it: in Python, "
    '`keras.saving.load_model("net.h5").export("net.onnx", format="onnx")`',
    "net.tflite": "a file of TensorFlow Lite; export it: "
    "`python -m tf2onnx.convert --tflite net.tflite --output net.onnx`",
    "in/net.pb": "a file of TensorFlow; export it: "
    "`python -m tf2onnx.convert --graphdef in/net.pb --inputs INPUT:0 --outputs OUTPUT:0 --output net.onnx`",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_model_of_another_tool_is_exported_first(fluidb: Run, tmp_path: Path, name: str) -> None:
    said, then = FOREIGN[name], ", then `fluidb models import net.onnx -o net.toml`"
    for there in (False, True):
        if there:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"\x80\x02other bytes")
        for command in (["dse", name, "zc706"], ["latency", name, "rtx-2080-ti", "-o", "d"], ["models", "show", name]):
            (line,) = lines(fluidb(*command))
            assert line == f"fluidb: {name}: expected the TOML file of a network, found {said}{then}"
        (line,) = lines(fluidb("models", "import", name, "-o", "n.toml"))
        assert line.endswith(f"that ends in .onnx (onnx) or .csv (scalesim), found {said}{then}")
    (line,) = lines(fluidb("models", "import", name, "--format", "onnx", "-o", "n.toml"))
    assert line == f"fluidb: {name}: expected an ONNX model, found {said}"
    (line,) = lines(fluidb("measure", name, "-o", "d"))
    assert line == f"fluidb: {name}: expected an ONNX model, found {said}"


def test_an_onnx_model_that_is_not_there_is_no_unknown_name(fluidb: Run) -> None:
    (line,) = lines(fluidb("models", "show", "net.onnx"))
    assert line == "fluidb: net.onnx: expected the TOML file of a network, found no such file"


def test_check_reports_every_fault(fluidb: Run, tmp_path: Path) -> None:
    """Of shapes, exits and rates alike, and more than other commands would show."""
    layers = [f'{{ name = "c{i}", op = "conv", out = 3, kernel = 99, from = "input" }}' for i in range(30)]
    exits = (
        '[[exits]]\nafter = "nowhere"\nrate = 0.9\nhead = "none"\n[[exits]]\nafter = "c1"\nrate = 0.9\nhead = "none"\n'
    )
    head = 'schema = "fluidb.network/1"\nname = "n"\ntitle = "t"\ninput = { height = 8, width = 8, channels = 4 }\n'
    (tmp_path / "n.toml").write_text(f"{head}layers = [{', '.join(layers)}]\n{exits}")
    faults = lines(fluidb("models", "check", "n.toml"))
    assert sum("window of 99 does not fit" in fault for fault in faults) == 30
    assert any("exits[0].after: expected the name of a layer" in fault for fault in faults)
    assert any("rates that sum to at most 1, found 1.8" in fault for fault in faults)
    assert len(fluidb("models", "show", "n.toml").stderr.splitlines()) == 21


def test_check_as_json(fluidb: Run) -> None:
    content = json.loads(fluidb("models", "check", TINY, "--json").stdout)
    assert content["schema"] == "fluidb.model-check-output/1"
    assert (content["name"], content["file"]) == ("tiny", TINY)
