"""JSON Schema of what ``--json`` prints (docs/schemas), made from the outputs of the tests.

``SCHEMAS=write pytest FILE`` widens the schemas by the outputs of these tests, and ``SCHEMAS=check`` holds the outputs
against them. Remove a schema to have it made anew; descriptions that were written into it stay as long as it does.
"""

from __future__ import annotations

import json
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"

BY_NAME = {
    "block_rams", "busy_s", "counts", "differences", "figures", "flip_flops", "kept", "luts", "metrics", "seeds",
    "sources", "ultra_rams",
}  # fmt: skip
"""Keys of objects whose own keys are names, say of requirements, figures or parts."""

TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
    dict: "object",
}


def check_output(output: dict[str, Any]) -> None:
    """Hold an output against its schema, in which no other key is known."""
    validator(output["schema"]).validate(output)


def widen_schema(output: dict[str, Any]) -> None:
    """Widen the schema of an output, which both workers of the tests may do, by this output."""
    name = output["schema"]
    with file_of(name).open("a+", encoding="utf-8") as file:
        flock(file, LOCK_EX)
        file.seek(0)
        old = json.loads(file.read() or "{}")
        schema = {"$schema": Draft202012Validator.META_SCHEMA["$id"], "title": name} | widened(old, output)
        schema["properties"]["schema"] = {"const": name}
        file.truncate(0)
        file.write(json.dumps(schema, indent=1) + "\n")


def file_of(name: str) -> Path:
    """The file of a schema, say of ``fluidb.serve-sim-output/1``."""
    return FOLDER / f"{name.removeprefix('fluidb.').replace('/', '-')}.json"


@cache
def validator(name: str) -> Draft202012Validator:
    """What holds an output against its schema."""
    return Draft202012Validator(closed(json.loads(file_of(name).read_text())))


def widened(old: dict[str, Any], value: object, by_name: bool = False) -> dict[str, Any]:
    """A schema of all that an earlier one allows, and of this value."""
    types = {TYPES[type(value)], *([old["type"]] if isinstance(old.get("type"), str) else old.get("type", []))}
    types -= {"integer"} if "number" in types else set()
    new: dict[str, Any] = {**old, "type": sorted(types) if len(types) > 1 else types.pop()}
    if isinstance(value, list):
        for entry in value:
            new["items"] = widened(new.get("items", {}), entry)
    if isinstance(value, dict) and by_name:
        for entry in value.values():
            new["additionalProperties"] = widened(new.get("additionalProperties", {}), entry)
    elif isinstance(value, dict):
        known = old.get("properties", {})
        parts = {key: widened(known.get(key, {}), entry, key in BY_NAME) for key, entry in value.items()}
        new["properties"] = dict(sorted((known | parts).items()))
        new["required"] = sorted(value.keys() & set(old.get("required", value)))
    return new


def closed(schema: Any) -> Any:
    """A schema that refuses every key that it does not know."""
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    return parts | {"additionalProperties": False} if isinstance(schema.get("required"), list) else parts
