"""Outputs: whole or not at all, apart from what else a command uses, and nothing left of killed commands."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from builders import DATA, POCKET, TINY, Run, call_fluidb, files, lines
from fluidb.formats import (
    InputError,
    OwnFolder,
    check_free,
    check_resumable,
    held,
    outputs,
    together,
    write_directory,
    write_file,
)

OLD, NEW = {"a": "old"}, {"b": "new", "c": "new"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_what_stood_there(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    write_file(path, "old", replace=False)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_file(path, "new", replace=True)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["t.txt"]


def test_a_folder_of_its_own_is_replaced_and_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = OwnFolder("a thing", "thing.json", ("thing.json", "times.csv"))
    kind.check("d", force=False)
    kind.write("d", {"thing.json": "old"})
    refused = {
        "d: output folder exists already; .* add --force": lambda: kind.write("d", {"thing.json": "new"}),
        "d: expected another folder than the folder of d/thing.json": lambda: kind.check(
            "d", True, apart=["d/thing.json"]
        ),
        "-: expected the name of a folder": lambda: kind.check("-", force=True),
        "f: expected a folder to write, found a file; choose another name": lambda: kind.check("f", force=False),
        "f: expected a folder to write, found a file": lambda: kind.check("f", force=True),
    }
    Path("f").touch()
    for fault, call in refused.items():
        with pytest.raises(InputError, match=fault):
            call()
    kind.check("d", force=True, apart=[None, "elsewhere"])
    kind.write("d", {"thing.json": "new", "times.csv": ""}, replace=True)
    assert Path("d/thing.json").read_text() == "new"
    Path("d/mine").touch()  # after the check that a command makes before its work
    with pytest.raises(
        InputError, match="--force replaces a thing only, and this folder holds mine, too; move it away"
    ):
        kind.write("d", {"thing.json": "newer"}, replace=True)
    Path("d/thing.json").unlink()
    with pytest.raises(InputError, match="--force replaces a thing only, and this folder holds no thing.json; choose"):
        kind.write("d", {"thing.json": "newer"}, replace=True)
    assert not Path("d/thing.json").exists()


@pytest.mark.parametrize(
    "write", [lambda path: write_file(path, "x", replace=False), lambda path: write_directory(path, NEW)]
)
def test_folders_above_an_output_are_made_with_it_or_not_at_all(tmp_path, monkeypatch, write):
    (tmp_path / "a").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device"):
            write(tmp_path / "a" / "b" / "c" / "t")
    assert (names(tmp_path), names(tmp_path / "a")) == (["a"], [])
    write(tmp_path / "a" / "b" / "c" / "t")
    assert names(tmp_path / "a" / "b" / "c") == ["t"]


@pytest.mark.parametrize("arguments", [
    ["dse", TINY, POCKET, "--b-max", 1, "-o", "a/b/design"],
    ["trace", "poisson", "--rate", 5, "--count", 3, "-o", "a/b/t.csv"],
    ["models", "exits", "resnet50", "--at", "layer3.1", "-o", "a/b/n.toml"],
    ["latency", TINY, "v100-tensorrt", "-o", "a/b/table"],
    ["pareto", TINY, POCKET, "--b-max", 1, "--over", "dsp", "--plot", "a/b/p.svg"],
])  # fmt: skip
def test_commands_make_the_folders_above_their_outputs(fluidb: Run, tmp_path: Path, arguments: list[object]):
    assert fluidb(*arguments).returncode == 0
    assert (tmp_path / str(arguments[-1])).exists()


def test_a_full_disk_names_the_folder_that_the_user_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as caught:
        write_directory(tmp_path / "d", OLD)
    (fault,) = caught.value.faults
    assert fault == f"{tmp_path / 'd'}: could not be written (No space left on device); nothing was changed"
    assert names(tmp_path) == []


@pytest.mark.parametrize(("place", "calls"), [("f", 0), ("d", 2), ("g", 4)])
def test_outputs_that_belong_together_are_all_written_or_none(tmp_path, monkeypatch, place: str, calls: int):
    write_file(tmp_path / "f", "old", replace=False)
    write_directory(tmp_path / "d", OLD)
    fsync, left = os.fsync, iter(range(calls))

    def write() -> None:
        with together():
            write_file(tmp_path / "f", "new", replace=True)
            write_directory(tmp_path / "d", NEW, replace=True)
            write_file(tmp_path / "g", "new", replace=False)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: full(0) if next(left, None) is None else fsync(descriptor))
        with pytest.raises(InputError, match=rf"{place}: could not be written \(No space .*\); nothing was changed"):
            write()
    assert files(tmp_path) == {"f": b"old", "d/a": b"old"}
    write()
    assert files(tmp_path) == {"f": b"new", "d/b": b"new", "d/c": b"new", "g": b"new"}
    with pytest.raises(
        InputError, match=f"g: another program made it meanwhile; {tmp_path / 'd'} was written before; choose"
    ):
        write()
    assert sorted(files(tmp_path)) == ["d/b", "d/c", "f", "g"]


@pytest.mark.parametrize("failing", range(3))
def test_commands_with_several_outputs_write_all_or_none(fluidb: Run, tmp_path: Path, failing: int, monkeypatch):
    """Each of several outputs meets a full disk in turn."""
    fluidb("trace", "poisson", "--rate", 5, "--count", 9, "-o", "t.csv")
    fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 2, "-o", "p")
    kept, write = files(tmp_path), outputs._write
    commands: tuple[list[object], ...] = (
        ["serve-sim", "p", "--trace", "t.csv", "--slo", "1s", "--requests", "r", "--timeline", "l", "--plot", "p.svg"],
        ["pipeline", "p", "-o", "lanes", "--timeline", "l"],
        ["explain", "p", "--timeline", "l", "--plot", "e.svg"],
        ["latency", "ee_bert", "rtx-2080-ti", "-o", "gpu", "--plot", "g.svg"],
    )
    for command in commands:
        calls = iter(range(99))
        monkeypatch.setattr(outputs, "_write", lambda *a, calls=calls: full(0) if next(calls) == failing else write(*a))
        done = fluidb(*command)
        if done.returncode:
            assert lines(done)[0].endswith("could not be written (No space left on device); nothing was changed")
            assert files(tmp_path) == kept
        else:
            assert next(calls) == failing
            kept = files(tmp_path)


@pytest.mark.parametrize("one_step", [True, False])
def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, one_step):
    path = tmp_path / "d"
    write_directory(path, OLD)
    if not one_step:  # a file system that cannot exchange two names
        monkeypatch.setattr(outputs, "_exchanged", lambda *_: False)
    with monkeypatch.context() as broken:
        broken.setattr(outputs, "_write", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            write_directory(path, NEW, replace=True)
    assert files(tmp_path) == {"d/a": b"old"}
    with pytest.raises(InputError, match="Directory not empty"):
        write_directory(path, NEW)
    write_directory(path, NEW, replace=True)
    assert files(tmp_path) == {"d/b": b"new", "d/c": b"new"}


def test_two_folders_change_names_in_one_step(tmp_path):
    write_directory(tmp_path / "one", OLD)
    write_directory(tmp_path / "two", NEW)
    if not outputs._exchanged(tmp_path / "one", tmp_path / "two"):
        pytest.skip("this file system cannot exchange two names")
    assert names(tmp_path / "one") == sorted(NEW)


KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from fluidb.formats import outputs
outputs._exchanged = lambda *_: False
rename = Path.rename
def killed(self, target):
    if self.name == "new":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = killed
outputs.write_directory(Path(sys.argv[1]), {"b": "new"}, replace=True)
"""


def test_a_kill_between_two_renames_is_taken_back_by_the_next_command(tmp_path):
    path = tmp_path / "d"
    write_directory(path, OLD)
    subprocess.run([sys.executable, "-c", KILLED_BETWEEN, str(path)], check=False)
    assert not path.exists()
    with pytest.raises(InputError, match="exists already"):
        check_free(path, force=False)
    assert files(tmp_path) == {"d/a": b"old"}


def test_what_was_moved_aside_goes_to_nobody_s_place(tmp_path):
    path = tmp_path / "d"
    write_directory(path, OLD)
    subprocess.run([sys.executable, "-c", KILLED_BETWEEN, str(path)], check=False)
    write_directory(path, NEW)  # the name is free
    check_free(tmp_path / "other", force=False)
    assert files(tmp_path) == {"d/b": b"new", "d/c": b"new"}


KILLED_WRITER = """
import os, signal
from pathlib import Path
from fluidb.formats import write_directory, write_file
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
{}
"""


@pytest.mark.parametrize(
    "write", ['write_file(Path("f"), "x", replace=False)', 'write_directory(Path("d"), {"a": "x"})']
)
def test_what_a_killed_command_left_is_removed_and_in_nobodys_way(tmp_path, write):
    subprocess.run([sys.executable, "-c", KILLED_WRITER.format(write)], cwd=tmp_path, check=False)
    assert len(names(tmp_path)) == 1
    assert held(tmp_path) == []
    check_resumable(tmp_path, "fluidb compare", ours=False)
    assert names(tmp_path) == []


def test_what_a_living_command_writes_stays(tmp_path):
    with outputs._unfinished(tmp_path) as (partial, _):
        check_free(tmp_path / "f", force=False)
        assert names(tmp_path) == [partial.name]


def test_what_another_command_removes_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    lock = fcntl.flock
    removed: list[Path] = []

    def late(descriptor: int, how: int) -> None:
        if not removed:
            (path,) = tmp_path.iterdir()
            path.unlink()
            removed.append(path)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_file(tmp_path / "f", "x", replace=False)
    assert removed
    assert files(tmp_path) == {"f": b"x"}


def test_a_design_with_something_left_in_it_is_replaced(fluidb: Run, tmp_path: Path):
    search = ["dse", TINY, POCKET, "--tile", "8,2,2", "--b-max", 1, "-o"]
    assert fluidb(*search, "d").returncode == 0
    for left in (tmp_path / ".fluidb.0.part", tmp_path / "d" / ".fluidb.1.part"):
        left.write_text("half")
    assert fluidb(*search, "d", "--force").returncode == 0
    assert names(tmp_path) == ["d"]
    assert names(tmp_path / "d") == ["design.json", "fbcb.json"]


@pytest.mark.parametrize("output", [".", "../d", "../d/../d", "../link/d"])
def test_a_folder_is_replaced_from_within(fluidb: Run, tmp_path: Path, output: str):
    search = ["dse", TINY, POCKET, "--tile", "8,2,2", "-o"]
    assert fluidb(*search, "d", "--b-max", 1).returncode == 0
    (tmp_path / "link").symlink_to(".")
    before = files(tmp_path / "d")
    done = call_fluidb(*search, output, "--b-max", 2, "--force", cwd=tmp_path / "d")
    assert (done.returncode, done.stderr) == (0, "")
    assert names(tmp_path) == ["d", "link"]
    assert names(tmp_path / "d") == ["design.json", "fbcb.json"]
    assert files(tmp_path / "d") != before


def test_an_output_is_no_input_and_no_other_output(fluidb: Run, tmp_path: Path, tiny_design: Path):
    fluidb("trace", "poisson", "--rate", 5, "--count", 9, "-o", "t.csv")
    (tmp_path / "link").symlink_to(".")
    (tmp_path / "same.csv").symlink_to("t.csv")
    fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 2, "-o", "part")
    generate = ["samples", "generate", "imagenet", "--network", "resnet50", "--count", 2000, "-o", "s.npz"]
    assert fluidb(*generate).returncode == 0
    plan = ["--batch", 4, "--precision", "80%", "--slow", "60%", "-o", "plan"]
    assert fluidb("exits", "resnet50", "v100-tensorrt", "--samples", "s.npz", *plan).returncode == 0
    kept = files(tmp_path)
    for command in (
        ["pipeline", "part", "--timeline", "link/part/partition.json", "--force"],
        ["pipeline", "part", "-o", "new", "--timeline", "new"],
        ["explain", "part", "--timeline", "part/latency.json", "--force"],
        ["latency", "ee_bert", "rtx-2080-ti", "-o", "g.svg", "--plot", "g.svg"],
        ["trace", "merge", "same.csv", "-o", "t.csv", "--force"],
        ["trace", "merge", "t.csv", "-o", "link/t.csv", "--force"],
        ["trace", "rescale", "t.csv", "--rate", 3, "-o", "t.csv", "--force"],
        ["trace", "import", "vidur", "t.csv", "-o", "t.csv", "--force"],
        ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", "--requests", "t.csv", "--force"],
        ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", "--requests", "r", "--timeline", "link/r"],
        ["serve-sim", "link", "--trace", "t.csv", "--slo", "1s", "--timeline", "latency.json"],
        ["report", "d", "--trace", "t.csv", "-o", "t.csv", "--force"],
    ):
        (line,) = lines(fluidb(*command))
        assert "expected another file than " in line, command
    for command in (
        ["pipeline", "part", "--groups", 2, "-o", "part", "--force"],
        ["pipeline", "link/part", "-o", "part", "--force"],
        ["exits", "plan/network.toml", "v100-tensorrt", "--samples", "s.npz", *plan, "--force"],
        ["exits", "resnet50", "v100-tensorrt", "--samples", "plan/samples.npz", *plan, "--force"],
    ):
        (line,) = lines(fluidb(*command))
        assert "expected another folder than the folder of " in line, command
    assert files(tmp_path) == kept


@pytest.mark.parametrize(
    "command",
    [
        ["models", "import", DATA / "scalesim" / "resnet50.csv"],
        ["platforms", "import", DATA / "fpgaconvnet" / "zc706.toml"],
        ["trace", "import", "vidur", "v.csv"],
    ],
)
def test_an_output_that_appeared_meanwhile_stays(fluidb: Run, tmp_path: Path, command: list[object], monkeypatch):
    (tmp_path / "v.csv").write_text("arrived_at\n1\n2\n")
    theirs = tmp_path / "o.toml"
    locked = outputs._locked

    def late(folder: Path, directory: bool) -> tuple[Path, int]:
        theirs.write_text("theirs")
        return locked(folder, directory)

    monkeypatch.setattr(outputs, "_locked", late)
    (line,) = lines(fluidb(*command, "-o", "o.toml"))
    assert line == "fluidb: o.toml: another program made it meanwhile; nothing was changed; choose another name"
    assert theirs.read_text() == "theirs"


def test_without_hard_links_a_file_in_the_way_stays(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", none)
    write_file(tmp_path / "f", "old", replace=False)
    with pytest.raises(InputError, match="another program made it meanwhile"):
        write_file(tmp_path / "f", "new", replace=False)
    assert files(tmp_path) == {"f": b"old"}


def test_files_get_the_permissions_the_user_asked_for(tmp_path):
    old = os.umask(0o027)
    try:
        write_file(tmp_path / "f", "x", replace=False)
        write_directory(tmp_path / "d", OLD)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "d" / "a").stat().st_mode) == 0o640


def test_an_output_that_cannot_be_written_is_refused_early(tmp_path):
    (tmp_path / "there").write_text("")
    with pytest.raises(InputError, match=r"exists already.*--force"):
        check_free(tmp_path / "there", force=False)
    check_free(tmp_path / "there", force=True)
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(InputError, match="found a link"):
        check_free(tmp_path / "link", force=True)
    with pytest.raises(InputError, match="exists already and is no folder of `fluidb compare`"):
        check_resumable(tmp_path, "fluidb compare", ours=False)
    with pytest.raises(InputError, match="expected a folder .*there, found something else"):
        check_free(tmp_path / "there" / "below" / "where", force=False)
    check_free(tmp_path / "no" / "where", force=False)
    with pytest.raises(InputError, match="found a folder"):
        write_file(tmp_path, "x", replace=True)


def test_what_goes_to_standard_output_goes_last_as_it_cannot_be_taken_back(tmp_path, capsys):
    (tmp_path / "there").write_text("old")

    def print_and_write(name: str) -> None:
        with together():
            write_file(Path("-"), ["é", b"b"], replace=False)
            write_file(tmp_path / name, "new", replace=False)

    with pytest.raises(InputError, match="another program made it meanwhile"):
        print_and_write("there")
    assert capsys.readouterr().out == ""
    print_and_write("new")
    assert capsys.readouterr().out == "éb"
    assert names(tmp_path) == ["new", "there"]
