"""What is installed: every subpackage and data file, importable under one name only."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import fluidb
import pytest
from builders import POCKET, ROOT, TINY
from fluidb import jit
from markdown_it import MarkdownIt
from setuptools import build_meta  # it ships no types

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = ["fluidb", *(module.name for module in pkgutil.walk_packages(fluidb.__path__, "fluidb."))]
MODULES = [name for name in MODULES if name.split(".")[1:2] not in (["tests"], ["benchmarks"], ["__main__"])]


DATA = (".pyi", ".toml", ".csv", ".css", ".sv", ".cpp", ".hpp", ".in", ".md", ".json", ".onnx", ".npz")


def subpackages() -> list[str]:
    folders = [path.parent.relative_to(ROOT) for path in ROOT.glob("*/**/__init__.py")]
    ours = [
        folder
        for folder in folders
        if folder.parts[0] not in ("tests", "benchmarks", "build") and folder.parts[0][0] != "."
    ]
    return sorted(".".join(["fluidb", *folder.parts]) for folder in [*ours, Path("docs")])


def test_every_subpackage_is_listed():
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == ["fluidb", *subpackages()]


def test_the_wheel_holds_all_of_it_and_nothing_else(tmp_path, monkeypatch):
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in tracked.stdout.splitlines():
        target = tmp_path / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        tmp_path / "source",
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        held = {name for name in content.namelist() if name.startswith("fluidb/")}
        (metadata,) = (content.read(name).decode() for name in content.namelist() if name.endswith("METADATA"))
        content.extractall(tmp_path / "site")
    command = [sys.executable, "-m", "fluidb", "dse", TINY, POCKET]
    installed = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=installed, capture_output=True, text=True, check=True)
    assert "<T_R,T_P,T_C>" in done.stdout
    (tmp_path / "mine").mkdir()  # a paper of the user's own needs no checkout
    (tmp_path / "mine" / "__init__.py").write_text(
        "from ..paper import Paper\n"
        "PAPER = Paper(name='mine', package=__name__, title='', introduction='', items={'here': 'items'})\n"
    )
    (tmp_path / "mine" / "items.py").write_text(
        "from ..rows import Claim, Item\nfrom ... import __file__\n"
        "def here(lab):\n    return Item('here', 'Mine', [], [], claims=[Claim(__file__, '', '', '', True)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "fluidb", "reproduce", "./mine", "--json"],
        cwd=tmp_path, env=installed, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "site" / "fluidb" / "__init__.py") in done.stdout
    assert re.findall("^Provides-Extra: (.*)$", metadata, re.MULTILINE) == [
        "onnx",
        "plot",
        "runtime",
        "server",
        "cluster",
    ]
    assert "\nAuthor: " in metadata
    assert metadata.endswith("\n\n" + (ROOT / "website" / "package-index.md").read_text())
    packages = [Path(*name.split(".")[1:]) for name in PROJECT["tool"]["setuptools"]["packages"]]
    packages += [
        Path("dse/hardware/rtl"),
        Path("dse/hardware/rtl/axi"),
        Path("dse/hardware/rtl/engine"),
        Path("studies/scenarios"),
        Path("docs/schemas"),
    ]
    wanted = {
        str("fluidb" / folder / path.name)
        for folder in packages
        for path in (ROOT / folder).iterdir()
        if path.suffix == ".py" or (path.suffix in DATA and path.parent != ROOT) or path == ROOT / "__init__.pyi"
    }
    assert held == wanted | {"fluidb/py.typed"}
    monkeypatch.chdir(tmp_path / "source")
    archive = build_meta.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / archive) as content:
        inside = {name.partition("/")[2] for name in content.getnames()}
    assert not [name for name in inside if name.startswith("tests/")]
    assert {name.removeprefix("fluidb/") for name in held} <= inside | {"py.typed"}


def test_the_page_of_a_package_index_works_alone():
    """A link to a file of the repository would lead nowhere there, and what the page says is what README says."""
    page = (ROOT / "website" / "package-index.md").read_text()
    targets = re.findall(r'(?:href|src)="([^"]*)"', MarkdownIt("commonmark").render(page))
    assert [target for target in targets if not target.startswith("https://")] == []
    *told, last = page.strip().split("\n\n")
    assert [part for part in told if part not in (ROOT / "README.md").read_text()] == []
    for name in re.findall(r"`fluidb docs ([a-z-]+)`", last):
        assert (ROOT / "docs" / f"{name}.md").exists(), name


def test_every_package_is_reached_and_completes_from_fluidb():
    below = {folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").exists()}
    assert set(dir(fluidb)) & {*below, "__version__"} == below - {"cli", "tests", "benchmarks"} | {"__version__"}
    code = "import fluidb; print(fluidb.serving.find_policy('fluid').spec)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fluid\n"
    with pytest.raises(AttributeError, match="^No fluidb attribute nothing$"):
        _ = fluidb.nothing


def test_version_is_stated_once():
    assert fluidb.__version__ == PROJECT["project"]["version"]
    (version, day), *_ = re.findall(r"^## \[([\d.]+)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version == fluidb.__version__
    assert f"version: {version}\ndate-released: {day}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("arguments", ["--help", "trace poisson --rate 1 --count 1 -o t.csv"])
def test_a_system_that_is_not_posix_is_refused_in_one_line(arguments, tmp_path):
    """Windows has no fcntl."""
    code = "import sys; sys.modules['fcntl'] = None; from fluidb.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = "fluidb needs Linux, macOS or another POSIX system; on Windows, use WSL"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"fluidb: {said}\n")
    code = "import sys; sys.modules['fcntl'] = None; from fluidb.formats import write_file"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"\nImportError: {said}\n")
    assert "Operating System :: POSIX" in PROJECT["project"]["classifiers"]


def test_extras_are_installed_from_the_sources():
    """fluidb is not on a package index: by its name nothing would be installed, or a stranger's package."""
    packages = [ROOT.joinpath(*name.split(".")[1:]) for name in subpackages()]
    for path in [ROOT / "README.md", *(path for folder in packages for path in folder.glob("*.*"))]:
        if path.suffix in (".py", ".md"):
            assert "pip install 'fluidb" not in path.read_text(), path


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


def test_kernels_refuse_a_second_name():
    """Its compiled functions would be kept a second time (dse/__init__.py says so)."""
    code = "import dse"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "import this package as fluidb.dse" in done.stderr


KERNEL = """
import fluidb
from fluidb.rules.pad_or_split import split_pays
print(fluidb.__file__, split_pays(2.0, 1.0, 0.5))
"""


def test_an_install_that_may_not_be_written_keeps_kernels_elsewhere_or_nowhere(tmp_path: Path) -> None:
    """Beside the sources a file is in the way of numba's folder: that stops root too, where no permission would."""
    site = tmp_path / "site" / "fluidb"
    unwanted = shutil.ignore_patterns("__pycache__", ".*", "tests", "build", "results", "docs", "*.egg-info")
    shutil.copytree(ROOT, site, ignore=unwanted)
    for folder in [site, *(path for path in site.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_DISABLE_JIT"}
    plain = {key: value for key, value in os.environ.items() if key not in unset}

    def start(home: Path, **more: str) -> subprocess.Popen[str]:
        where = {
            "HOME": str(home),
            "PYTHONPATH": str(site.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(temporary),
        }
        command = [sys.executable, "-c", KERNEL]
        return subprocess.Popen(
            command, env=plain | where | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    home, nowhere, temporary = tmp_path / "home", tmp_path / "nowhere", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    nowhere.touch()
    running = [start(home), start(home), start(nowhere)]  # at once, with nothing compiled yet
    printed = [process.communicate()[0] for process in running]
    assert printed == [f"{site / '__init__.py'} True\n"] * 3
    kept = {path: path.stat().st_mtime_ns for path in (home / ".cache" / "fluidb").rglob("*") if path.is_file()}
    assert kept
    assert start(home).communicate()[0] == printed[0]
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert list(temporary.iterdir()) == []


HELP = """
import sys
sys.argv = ["fluidb", "dse", "--help"]
from fluidb.cli import main
try:
    main()
except SystemExit:
    print([name for name in ("numba", "numpy", "rich", "tabulate") if name in sys.modules])
"""


IMPORTS = """
import atexit, sys
sys.argv = ["fluidb", *sys.argv[1:]]
atexit.register(lambda: print("modules", *sys.modules))
from fluidb.cli import main
main()
"""


EXTRAS = ["dask", "distributed", "matplotlib", "onnx"]


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["models"], ["numba", "numpy", "fluidb.platforms", "fluidb.dse"]),
        (["trace", "poisson", "--rate", "5", "--count", "9", "-o", "t.csv"], ["numba", "fluidb.dse"]),
        (["dse", TINY, POCKET], ["rich", "fluidb.serving", "fluidb.plots"]),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_use(arguments, unused, tmp_path):
    code = [sys.executable, "-c", IMPORTS, *arguments]
    done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert imported[0] == "modules"
    assert "fluidb.formats" in imported
    assert [name for name in [*unused, *EXTRAS] if name in imported] == []


def test_help_imports_neither_numba_nor_numpy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("package", ["dse", "formats", "serving", "studies", "tables", "traffic"])
def test_every_name_that_a_package_exports_is_there(package):
    """Names are listed once, in the package's stub; a function may have the name of its module, as `search` has."""
    module = importlib.import_module(f"fluidb.{package}")
    names = re.findall(r" as (\w+)", (ROOT / package / "__init__.pyi").read_text())
    assert sorted(names) == sorted(dir(module))
    for name in names:
        assert not inspect.ismodule(getattr(module, name)), name
    with pytest.raises(AttributeError, match="nonsense"):
        _ = module.nonsense


def test_an_edit_of_any_compiled_source_gives_a_new_cache():
    """A policy is compiled with functions of other files, whose edits numba does not notice."""
    listed = {path for pattern in jit.SOURCES for path in ROOT.glob(pattern)}
    mark = re.compile(r"^(@compiled|@compile_policy|@kernel|compile_policy = |kernel = )", re.MULTILINE)
    folders = [ROOT.joinpath(*name.split(".")[1:]) for name in subpackages()]
    held = {path for folder in folders for path in folder.glob("*.py") if mark.search(path.read_text())}
    assert held
    assert held <= listed
