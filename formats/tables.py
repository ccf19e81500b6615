"""Tables on disk: JSON objects with ``schema``, the digests of their ``inputs`` by schema, and their own ``sha256``.

A table whose ``inputs`` no longer match the tables beside it is stale.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pydantic

from .errors import InputError
from .files import AnyPath, read_bytes
from .outputs import write_file
from .toml import Strict, validate

MAX_BYTES = 256 * 2**20
"""A larger table is refused; the largest that fluidb writes is a few MiB."""

MAX_DEPTH = 32
"""Lists and objects within one another in a table; tables of fluidb have less than ten."""


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Table(Strict):
    """Base of the tables on disk; a subclass names its layout and adds its columns."""

    schema_name: ClassVar[str]
    made_by: ClassVar[str]

    inputs: dict[str, str] = {}  # digest of each table that it was computed from, by schema name

    def digest(self) -> str:
        """SHA-256 of the content, as other tables refer to it."""
        return _digest({"schema": self.schema_name, **self.model_dump(mode="json", by_alias=True)})

    def derived_from(self, *tables: Table) -> Self:
        """A copy that names the tables it was computed from."""
        return self.model_copy(update={"inputs": {t.schema_name: t.digest() for t in tables}})


AnyTable = TypeVar("AnyTable", bound=Table)


class JsonRecord(Strict):
    """Base of records that a command prints under ``--json`` and another reads: a later version may have added keys."""

    model_config = pydantic.ConfigDict(extra="ignore")


AnyPrinted = TypeVar("AnyPrinted", bound=JsonRecord)


def _finite(text: str) -> float:
    """A number; ``NaN`` and infinities are refused: JSON has none, and no table holds one."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


def _dump(content: dict[str, Any]) -> str:
    """JSON with one record a line, so that a person can read it and a diff shows which record changed."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict | list):
            records = ",\n  ".join(json.dumps(record, allow_nan=False) for record in value)
            lines.append(f"{json.dumps(key)}: [\n  {records}\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def write_table(table: Table, path: AnyPath) -> None:
    """Write a table completely or not at all; an existing file is replaced."""
    write_file(path, table_text(table), replace=True)


def table_text(table: Table) -> str:
    """A table as its file holds it."""
    content = {"schema": table.schema_name, **table.model_dump(mode="json", by_alias=True)}
    return _dump(content | {"sha256": _digest(content)})


def read_printed(model: type[AnyPrinted], path: AnyPath, schema: str, what: str, command: str) -> AnyPrinted:
    """Read a record that a command printed under ``--json``; ``what`` it is and the command are for faults."""
    make = f"make it with `{command}`"
    return validate(
        model, read_json(path, schema, f"expected {what}, found no such file; {make}", "no JSON", make), path
    )


def read_json(path: AnyPath, schemas: str | Sequence[str], missing: str, broken: str, make: str) -> dict[str, Any]:
    """A JSON object of a schema, or of one of several; the last three are texts for the fault of a bad file."""
    raw = read_bytes(path, MAX_BYTES, missing=missing)
    try:
        content = json.loads(raw.decode(), parse_constant=_finite, parse_float=_finite)
        _check_depth(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {broken} ({error}); {make}") from None
    kind = content.get("schema") if isinstance(content, dict) else type(content).__name__
    known = [schemas] if isinstance(schemas, str) else schemas
    if not isinstance(content, dict) or kind not in known:
        expected = " or ".join(f'"{schema}"' for schema in known)
        raise InputError(f"{path}: expected schema {expected}, found {json.dumps(kind)[:60]}; {make}")
    return content


def _check_depth(content: object) -> None:
    """Refuse lists and objects within one another that nothing but an attack has, and that no later step could take."""
    level = [content]
    for _ in range(MAX_DEPTH):
        inner = [value for value in level if isinstance(value, dict | list)]
        level = [value for outer in inner for value in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} deep")


def _whole(path: AnyPath, schema: str, made_by: str) -> dict[str, Any]:
    """A table's content with its checksum, refused if it is missing, damaged or of another layout."""
    again = f"make it again with `{made_by}`"
    content = read_json(path, schema, f"not there; make it with `{made_by}`", "damaged", again)
    if content.get("sha256") != _digest({key: value for key, value in content.items() if key != "sha256"}):
        raise InputError(f"{path}: damaged (its checksum does not fit); {again}")
    return content


def read_table(model: type[AnyTable], path: AnyPath, *inputs: Table) -> AnyTable:
    """Read a table, refusing one that is damaged, of another layout, or not computed from these ``inputs``."""
    content = _whole(path, model.schema_name, model.made_by)
    del content["schema"], content["sha256"]
    table = validate(model, content, path)
    for needed in inputs:
        _check_input(table, path, needed.schema_name, needed.digest())
    return table


def check_beside(table: Table, path: AnyPath, files: Mapping[str, tuple[str, str]]) -> None:
    """Refuse a table that is older than the tables beside it, without knowing what those hold.

    ``files``: name, and command that makes it, of each table that may be among the table's inputs, by schema.
    """
    for schema in table.inputs:
        if schema not in files:
            raise InputError(f"{path}: inputs: expected {', '.join(files)}, found {schema[:60]}")
        name, made_by = files[schema]
        _check_input(table, path, schema, _whole(Path(path).with_name(name), schema, made_by)["sha256"])


def _check_input(table: Table, path: AnyPath, schema: str, digest: str) -> None:
    if table.inputs.get(schema) != digest:
        raise InputError(f"{path}: stale (made from another {schema}); make it again with `{table.made_by}`")
