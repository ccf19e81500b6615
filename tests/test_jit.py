"""Compiled functions: ours are kept, damage shows, and a user's policy is compiled from what it is now."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from builders import COMPILED, FLUIDB, everybody, table_of
from fluidb import jit
from fluidb.jit import Reference, fields_in, refer
from fluidb.serving import find_policy, simulate
from numba import types
from numba.core.errors import NumbaError

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")


def double(x):
    return 2 * x


PARTS = {
    "numba.core.cgutils": ("alloca_once_value", "gep_inbounds", "get_null_value"),
    "numba.core.caching": ("NullCache.load_overload", "NullCache.save_overload", "NullCache.flush"),
    "numba.core.compiler": ("CompileResult._reduce", "CompileResult._rebuild"),
    "numba.core.compiler_lock": ("global_compiler_lock",),
    "numba.core.datamodel.models": ("PointerModel",),
    "numba.core.ir": ("Loc", "Scope"),
    "numba.core.imputils": ("impl_ret_untracked",),
    "numba.core.runtime.nrt": ("rtsys.initialize",),
    "numba.core.serialize": ("dumps",),
    "numba.core.types": ("CPointer", "FunctionType", "WrapperAddressProtocol.__wrapper_address__"),
    "numba.core.typing.templates": ("AttributeTemplate",),
    "numba.experimental.function_type": ("_get_wrapper_address",),
    "numba.np.arrayobj": ("fix_integer_index",),
}
"""Parts of numba that are not public and that jit.py uses."""


@pytest.mark.parametrize(("module", "part"), [(module, part) for module, parts in PARTS.items() for part in parts])
def test_numba_has_the_parts_that_are_not_public(module: str, part: str):
    found = import_module(module)
    for name in part.split("."):
        assert hasattr(found, name), f"numba {numba.__version__} has no {module}.{part}, which jit.py uses"
        found = getattr(found, name)


def test_numba_keeps_its_cache_where_ours_replaces_it():
    made = numba.njit(double)
    assert hasattr(made, "_cache"), f"a dispatcher of numba {numba.__version__} has no _cache, which jit.py replaces"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled functions, which takes functions of this file too; `double` is there already."""
    monkeypatch.setattr(jit, "sources", lambda: {Path(__file__).resolve()})
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path / "kept")
    assert jit.compiled("i8(i8)")(double)(21) == 42
    return tmp_path / "kept"


def test_a_function_that_was_kept_is_not_compiled_again(kept: Path):
    again = jit.compiled("i8(i8)")(double)
    assert again(21) == 42
    assert sum(again.stats.cache_hits.values()) == 1
    assert len(list(kept.iterdir())) == 1


def test_a_function_that_was_kept_is_loaded_without_what_compiles():
    """That would take a quarter of the time of a short command, and SciPy where it is installed."""
    simulate(table_of([[1.0]]), everybody(1, 1), find_policy("serial"))  # keeps it
    code = """if True:
        import sys
        from builders import everybody, table_of
        from fluidb.serving import find_policy, simulate
        print(simulate(table_of([[1.0]]), everybody(1, 1), find_policy("serial")).finish_s, *sys.modules)
        """
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    found, modules = done.stdout.split("]")
    assert found == "[1."
    assert not {"numba.np.linalg", "scipy.linalg"} & set(modules.split())


def test_a_function_that_makes_no_array_is_compiled_without_counts_of_references():
    assert jit.compiled("i8(i8)", lean=True)(double)(21) == 42
    with pytest.raises(NumbaError, match="NRT required"):
        jit.compiled("f8(i8)", lean=True)(lambda n: np.zeros(n).sum())


def test_only_a_lean_function_takes_an_index_as_it_is():
    numbers, signature = np.arange(3.0), "f8(f8[::1], i8)"
    lean, usual = (jit.compiled(signature, lean=kind)(lambda values, k: values[k]) for kind in (True, False))
    assert lean(numbers[1:], 1) == usual(numbers[1:], 1) == 2.0
    assert lean(numbers[1:], -1) == 0.0  # what lies before
    assert usual(numbers[1:], -1) == 2.0


class Inner(NamedTuple):
    counts: np.ndarray
    factor: float


class Outer(NamedTuple):
    inner: Inner
    values: np.ndarray


@numba.njit
def weigh(fields, k):
    """Changes what it was given, and makes a view and a copy of it."""
    upper = fields.values[k:]
    fields.inner.counts[k] += 1
    return fields.inner.factor * upper.sum() + fields.values.copy()[0]


@numba.njit
def weigh_by_reference(fields, k):
    return weigh(refer(fields), k)


def test_a_named_tuple_by_its_address_is_read_and_written_as_itself():
    fields = Outer(Inner(np.zeros(3, np.int64), 0.5), np.array([1.0, 2.0, 4.0]))
    before = [sys.getrefcount(array) for array in (fields.values, fields.inner.counts)]
    for k in range(3):
        assert weigh_by_reference(fields, k) == weigh.py_func(fields, k)
    assert refer(fields) is fields
    assert fields.inner.counts.tolist() == [2, 2, 2]
    assert [sys.getrefcount(array) for array in (fields.values, fields.inner.counts)] == before


@numba.njit
def stays(fields):
    return refer(fields) is None


def test_none_by_its_address_stays_none():
    assert stays(None)
    assert not stays(Inner(np.zeros(1, np.int64), 0.5))


def test_a_field_that_a_named_tuple_lacks_is_a_fault_of_types():
    fields = Outer(Inner(np.zeros(3, np.int64), 0.5), np.zeros(3))
    with pytest.raises(NumbaError, match="Unknown attribute 'missing'"):
        numba.njit(lambda fields: refer(fields).missing)(fields)


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:-1], lambda raw: raw[:999] + b"?" + raw[1000:]])
def test_a_damaged_file_is_compiled_again_and_said(kept: Path, damage):
    (path,) = kept.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="damaged; the function is compiled again"):
        assert jit.compiled("i8(i8)")(double)(21) == 42
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.compiled("i8(i8)")(double)(21) == 42


def first_of(pair):
    return pair.first


@pytest.mark.parametrize("second", [2, 2.0])  # two numbers of one type are another type of numba
def test_a_function_is_compiled_again_where_fields_change_places(kept: Path, second):
    """In whatever file they stand: compiled code would read the other one."""
    for names in (("first", "second"), ("second", "first")):
        pair = NamedTuple("Pair", [(name, object) for name in names])(first=1, second=second)
        assert jit.compiled()(first_of)(pair) == 1


def test_fields_are_found_in_every_type_that_has_named_tuples():
    kind = numba.typeof(Inner(np.zeros(3), 0.5))
    function = types.FunctionType(types.none(kind))
    for within in (kind, (kind,), types.Tuple((types.int64, kind)), Reference(kind), function):
        assert [*fields_in((types.int64, within))] == [Inner._fields]


class Gone(NamedTuple):
    """An argument whose class another version of a module lacks."""

    value: int


def double_of(gone):
    return 2 * gone.value


def test_a_function_of_a_class_that_has_moved_is_compiled_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    value = numba.typeof(Gone(1))
    for path in kept.iterdir():
        path.unlink()
    assert jit.compiled()(double_of)(Gone(21)) == 42
    (path,) = kept.iterdir()
    assert b"Gone" in path.read_bytes()
    monkeypatch.delattr(sys.modules[__name__], "Gone")
    before = path.stat().st_mtime_ns
    assert jit.compiled()(double_of)(value.instance_class(21)) == 42
    assert path.stat().st_mtime_ns > before


def test_without_a_folder_every_process_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "sources", lambda: {Path(__file__).resolve()})
    for folder in (None, tmp_path / "file" / "below"):
        monkeypatch.setattr(jit, "cache_folder", lambda folder=folder: folder)
        assert jit.compiled("i8(i8)")(double)(21) == 42
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_compiling_is_said_once_and_whether_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "sources", lambda: {Path(__file__).resolve()})
    caplog.set_level("INFO", logger="fluidb")
    for folder, said in [
        (tmp_path / "kept", "compiling functions, once: about 10 s"),
        (tmp_path / "file" / "below", f"at each command, as {tmp_path / 'file' / 'below'} cannot keep them"),
        (None, "at each command, as a missing home cannot keep them"),
    ]:
        caplog.clear()
        jit.tell_compiling.cache_clear()
        monkeypatch.setattr(jit, "cache_folder", lambda folder=folder: folder)
        for function in (double, lambda x: x + 1):
            jit.compiled("i8(i8)")(function)
        (record,) = caplog.records
        assert said in record.getMessage()


@pytest.mark.parametrize("home", [None, "file/below"])
def test_where_there_is_no_home_nothing_is_kept_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path if home is None else f"{tmp_path}/{home}/.cache")
    folder = jit.cache_folder.__wrapped__()
    assert (folder and folder.parent) == (home and tmp_path / home / ".cache" / "fluidb")


def test_a_folder_that_may_not_be_read_stops_no_command(tmp_path: Path):
    (tmp_path / "home").touch()  # whoever runs the tests, nothing below a file can be read or written
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    outside = {key: value for key, value in os.environ.items() if key not in names} | {"HOME": str(tmp_path / "home")}
    done = subprocess.run([FLUIDB, "--version"], env=outside, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_threads_that_need_a_function_at_once_compile_it_once():
    made = jit.compiled()(double)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: jit.compile_for("i8(i8)", made), range(4))) == [None] * 4
    assert (made(21), len(made.signatures)) == (42, 1)


def test_a_policy_that_ships_is_compiled_when_it_first_runs():
    """All together would take half a minute of a new user's first simulation."""
    code = "from fluidb.serving import POLICIES; print(*(len(p.decide.signatures) for p in POLICIES.values()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"0"}


POLICY = """
from fluidb.serving.policies import Policy, compile_policy, go_on, launch
from limit_of_policy import LIMIT

@compile_policy
def decide(view, data):
    return launch(min(view.waiting, LIMIT), view.segments) if view.depth == 0 else go_on(1)

mine = Policy(decide)
"""


def test_a_policy_follows_a_helper_that_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits in a second look the same to Python
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(POLICY)
    last_s = []
    for limit in (1, 4):
        (tmp_path / "limit_of_policy.py").write_text(f"LIMIT = {limit}")
        sys.modules.pop("limit_of_policy", None)
        last_s.append(simulate(table_of([[1.0] * 4]), everybody(4, 1), find_policy("policy.py:mine")).finish_s.max())
    assert last_s == [4.0, 1.0]
