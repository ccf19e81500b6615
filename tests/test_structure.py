"""The structure of the code in numbers: each limit is what was reached, and goes down only.

A limit is at most what the code has.  Where a change brings a number down, bring the limit down with it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
NOT_SHIPPED = {"benchmarks", "build", "shared", "tests", "website"}

LONGEST_BODY, MOST_PARAMETERS, LONGEST_LINE, LONGEST_FILE = 60, 8, 100, 400

LONG_BODIES: dict[str, str] = {}
"""Functions with a body of more lines, with the reason; the aim is four."""

MANY_PARAMETERS = 1
"""Functions with more parameters; the aim is 15: kernels, and commands, whose parameters are their options."""

MANY_EXPORTED: set[str] = set()
"""Exported functions with more parameters; the aim is none."""

NAMED_TWICE = 0
"""Names that several classes have, which a reader takes for one another."""

ONE_OR_SEVERAL = 18
"""Branches on one or several networks: whether they have names, a file or a folder states them, one is alone.

One is the rule what an output states (``stated_for``).  One lets a single queue do without the terms that several need.
"""

SERVES = {"cli", "machine", "plots", "rules", "serving", "studies", "traffic"}
ASKS = re.compile(
    r"""([a-z_.]+\.)?(networks|several|named)$ | [a-z_.]+(?<!dtype)\.names$ | names_of\( | in_one_queue\(
    | all\((self|replay)\.names\)$ | any\(names\)$ | ''\ in\ names$ | len\(names\)\ >\ 1$
    | (Path\(\w+\)|folder)\.suffix\ ==\ '\.toml'$ | .*\bseveral\ is\ (not\ )?None$ | is_networks_file\(
    | .*\.parts\[0\]\ is\b | ((here\.)?network|networks\[0\]|keys)\.name$
    | isinstance\(.*\b(Several\w*|Joint\w*|DeviceTraffic|ServedNetwork)\b
    | len\((row|values|parts)\)\ ==\ 1$
    | len\(([\w.]+\.)?(networks|models|several|uses|of_each|hosts|works|networks\.records)\)\ *[=!<>]+\ *[12]$""",
    re.VERBOSE,
)
"""Questions whether there is one network or several, or whether networks have names."""

BLOCKS = re.compile(r"^\s*(Parameters|Returns|Raises|Yields|Attributes)\n\s*-{3,}", re.MULTILINE)
WRONG = {"GL06", "GL07", "PR01", "PR02", "PR03", "PR10", "RT01", "YD01"}
"""What numpydoc's own check calls a block that is broken, or that does not have the parameters of its function."""


class Function(NamedTuple):
    """A function of the package."""

    file: str
    name: str
    body: int  # lines, without the docstring
    parameters: int


class Documented(NamedTuple):
    """A class or function with blocks in its docstring, and what it stands in."""

    file: str
    node: ast.FunctionDef | ast.ClassDef
    parent: ast.AST


class Code(NamedTuple):
    """What the tests ask of the modules that ship."""

    files: dict[str, int]  # lines of each
    functions: list[Function]
    classes: list[str]  # their names
    documented: list[Documented]
    branches: list[str]  # on one or several networks


def files(ending: str) -> list[Path]:
    """Files of the repository with an ending, without what tools made."""
    tops = [top for top in ROOT.iterdir() if top.name[0] != "." and top.name not in ("build", "demo", "shared")]
    found = [file for top in tops for file in ([top] if top.is_file() else top.rglob(f"*{ending}"))]
    return sorted(file for file in found if file.name.endswith(ending) and "." not in file.parent.name[:1])


@cache
def code() -> Code:
    """Read every module that ships."""
    found = Code({}, [], [], [], [])
    for file in files(".py"):
        name = str(file.relative_to(ROOT))
        if name.partition("/")[0] in NOT_SHIPPED:
            continue
        text = file.read_text()
        found.files[name] = text.count("\n")
        serves = name.partition("/")[0] in SERVES
        for parent in ast.walk(ast.parse(text)):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    if isinstance(node, ast.ClassDef):
                        found.classes.append(node.name)
                    else:
                        found.functions.append(_function(name, node))
                    if BLOCKS.search(ast.get_docstring(node) or ""):
                        found.documented.append(Documented(name, node, parent))
                elif serves:
                    asked = [f"{name}:{line}: {text}" for line, text in questions(node) if ASKS.match(text)]
                    found.branches.extend(one for one in asked if one not in found.branches)
    return found


def questions(node: ast.AST) -> list[tuple[int, str]]:
    """What a branch asks: of an if, of a conditional expression, of a loop's condition, or before an or."""
    if isinstance(node, ast.If | ast.IfExp):
        asked = [node.test]
    elif isinstance(node, ast.comprehension):
        asked = node.ifs
    else:
        asked = [node.values[0]] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else []
    return [(part.lineno, ast.unparse(part)) for test in asked for part in _parts_of(test)]


def _parts_of(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition that and, or and not join."""
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts_of(value)
        case ast.UnaryOp(operand=operand):
            yield from _parts_of(operand)
        case ast.NamedExpr(value=value):
            yield from _parts_of(value)
        case _:
            yield test


def _function(file: str, node: ast.FunctionDef) -> Function:
    body = node.body[ast.get_docstring(node) is not None :]
    lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
    arguments = node.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = len({*names} - {"self", "cls"}) + (arguments.vararg is not None) + (arguments.kwarg is not None)
    return Function(file, node.name, lines, count)


def test_bodies_are_short():
    long = {
        f"{function.file}: {function.name}": function.body
        for function in code().functions
        if function.body > LONGEST_BODY
    }

    assert long.keys() <= LONG_BODIES.keys(), f"bodies of more than {LONGEST_BODY} lines: {long}"


def test_files_are_short():
    long = {name: lines for name, lines in code().files.items() if lines > LONGEST_FILE}

    assert not long, f"files of more than {LONGEST_FILE} lines: {long}"


def test_functions_take_few_parameters():
    many = [f"{function.file}: {function.name} has {function.parameters}" for function in code().functions
            if function.parameters > MOST_PARAMETERS]  # fmt: skip

    assert len(many) <= MANY_PARAMETERS, f"functions with more than {MOST_PARAMETERS} parameters: {many}"


def test_exported_functions_take_few_parameters():
    exported = {
        (str((stub.parent / f"{node.module.replace('.', '/')}.py").relative_to(ROOT)), name.name)
        for stub in files("__init__.pyi")
        for node in ast.walk(ast.parse(stub.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 1
        for name in node.names
    }
    assert ("serving/serve.py", "serve") in exported

    many = {function.name for function in code().functions
            if function.parameters > MOST_PARAMETERS and (function.file, function.name) in exported}  # fmt: skip

    assert many <= MANY_EXPORTED


def test_a_class_has_its_name_alone():
    twice = [name for name, count in Counter(code().classes).items() if count > 1]

    assert len(twice) <= NAMED_TWICE, f"names of several classes: {twice}"


def test_one_network_is_several_with_one():
    assert len(code().branches) <= ONE_OR_SEVERAL, "\n".join(code().branches)


def test_docstrings_have_blocks_that_numpydoc_reads():
    from numpydoc.hooks.validate_docstrings import AstValidator
    from numpydoc.validate import validate

    assert len(code().documented) > 100
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file, node, parent in code().documented:
            where = {"ast_node": node, "filename": ROOT / file, "ancestry": [parent]}
            for code_, text in validate(f"{Path(file).stem}.{node.name}", AstValidator, **where)["errors"]:
                if code_ in WRONG and not (isinstance(node, ast.ClassDef) and code_[:2] == "PR"):
                    wrong.append(f"{file}:{node.lineno}: {node.name}: {text}")

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x" * 99 + " y", 1),
        ("```\n" + "x" * 99 + " y\n```\n", 0),
        ("| " + "x" * 99 + " |", 0),
        ("see\n[" + "x" * 120 + "](y)\n", 0),
    ],
)
def test_long_lines_are_counted(text, count):
    assert len(list(long_lines(text))) == count


def long_lines(text: str) -> Iterator[int]:
    """Numbers of the lines of prose that are too long; code, tables, pictures and single words may be."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif code or line.lstrip().startswith(("|", "![", "<", "#")):
            continue
        elif len(line) > LONGEST_LINE and " " in line.strip().removeprefix("- "):
            yield number


def test_prose_has_short_lines():
    long = [f"{file.relative_to(ROOT)}:{number}" for file in files(".md") for number in long_lines(file.read_text())]

    assert long == []
