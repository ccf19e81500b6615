"""Reading TOML files, with every fault reported at once and by its key; and writing them."""

from __future__ import annotations

import functools
import json
import re
import tomllib
import weakref
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

import pydantic

from .display import brief
from .errors import InputError
from .files import AnyPath, read_text
from .near import did_you_mean

if TYPE_CHECKING:  # a type checker sees the parameters of the records
    Checked = pydantic.BaseModel
else:

    class _CheckedMeta(type(pydantic.BaseModel)):
        """Makes a record that is called with bad values raise what a bad file raises.

        Records inside a record do not pass here: their faults are collected by the outer one.
        """

        def __call__(cls, **values):
            try:
                return super().__call__(**values)
            except pydantic.ValidationError as error:
                raise _faults(error, cls, values, cls.__name__) from None

    class Checked(pydantic.BaseModel, metaclass=_CheckedMeta):
        """Base of records whose faults are ours."""


class Strict(Checked):
    """Base of every file schema: nothing coerced, nothing unknown, nothing changed later."""

    # a schema is built when a file first needs it: no command reads them all
    model_config = pydantic.ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    __repr__ = __str__ = brief


Record = TypeVar("Record", bound=Strict)
Given = ParamSpec("Given")
Found = TypeVar("Found")


def memoized(compute: Callable[Concatenate[Record, Given], Found]) -> Callable[Concatenate[Record, Given], Found]:
    """A function of a record, which never changes: it computes once for each set of arguments."""
    known: dict[tuple[Any, ...], Found] = {}  # while the record lives

    @functools.wraps(compute)
    def recall(record: Record, /, *args: Given.args, **given: Given.kwargs) -> Found:
        key = id(record), args, *given.items()
        if key not in known:
            known[key] = compute(record, *args, **given)
            weakref.finalize(record, known.pop, key, None)
        return known[key]

    return recall


def with_fields(record: type[Record], fields: Mapping[str, Any]) -> type[Record]:
    """The record with more fields, each with its type and default, under the same name."""
    more: Any = fields
    return pydantic.create_model(
        record.__name__, __base__=record, __module__=record.__module__, __doc__=record.__doc__, **more
    )


class SparseRecord(Strict):
    """A record whose file has no key for a field that has its default."""

    sparse: ClassVar[set[str] | None] = None
    """The fields for which this is so; all but the inputs of a table if there are none."""

    @pydantic.model_serializer(mode="wrap")
    def _stated(self, write: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        sparse = self.sparse or fields.keys() - {"inputs"}
        return {key: value for key, value in write(self).items() if key not in sparse or value != fields[key].default}


Choice = TypeVar("Choice", bound=StrEnum)


def by_name(choices: type[Choice]) -> pydantic.BeforeValidator:
    """A field with one of some choices, which a file states by its name."""

    def find(value: object) -> Choice:
        if isinstance(value, str) and value in list(choices):
            return choices(value)
        raise ValueError(f"expected one of {', '.join(choices)}, found {value}")

    return pydantic.BeforeValidator(find)


Model = TypeVar("Model", bound=Strict)


def _where(location: Sequence[str | int], data: object) -> str:
    """Dotted path of a fault, without the tags that pydantic adds for unions: they are not keys of the file."""
    path = ""
    for depth, part in enumerate(location):
        last = depth == len(location) - 1
        if isinstance(part, int) and isinstance(data, Sequence):
            if part >= len(data):
                break  # the schema has made more of it: both sides of a padding, say
            data = data[part]
            label = data.get("name") if isinstance(data, Mapping) else None
            path += f"[{part}]" + (f' ("{label}")' if isinstance(label, str) else "")
        elif isinstance(data, Mapping) and (part in data or last):
            data = data.get(part)
            path += f".{part}" if path else str(part)
    return path


def shown(value: object) -> str:
    """A value that was found, for a fault: as JSON, cut where it is long."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=True)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        return "something too long to show"
    return text if len(text) <= 60 else text[:57] + "..."


_WORDS = {
    "Value error, ": "",
    "Input should be": "expected",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid list": "a list",
}
"""Words of pydantic, and ours."""


def in_our_words(message: str) -> str:
    """A message of pydantic, or of one who uses it, in our words."""
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message


_MESSAGES = {
    "missing": "expected this key, found none",
    "union_tag_not_found": "expected the key {discriminator}, found none",
    "too_long": "expected at most {max_length} entries, found {actual_length}",
    "too_short": "expected at least {min_length} entries, found {actual_length}",
    "string_too_long": "expected at most {max_length} characters, found {found}",
    "string_too_short": "expected at least {min_length} characters, found {found}",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected a table of keys, found {found}"),
}
"""Our messages where more than words differ, by pydantic's type of fault."""


def _fault(error: Any, data: object, known: set[str]) -> str:
    where, given = _where(error["loc"], data), shown(error["input"])
    context = {key: str(value).replace("'", "") for key, value in error.get("ctx", {}).items()}
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        if key in known:
            return f"{where}: unknown key in this place; move it to the table that it belongs to, or remove it"
        return f"{where}: unknown key; {did_you_mean(key, sorted(known), 'remove it')}"
    if error["type"] == "union_tag_invalid":
        tags, key = context["expected_tags"], context["discriminator"]
        return f"{where}.{key}: expected one of {tags}, found {shown(error['ctx']['tag'])}"
    if error["type"] in _MESSAGES:
        return f"{where or 'file'}: {_MESSAGES[error['type']].format(found=given, **context)}"
    message = in_our_words(error["msg"])
    if error["type"] == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where or 'file'}: {message}, found {given}"


def _known_keys(model: type[pydantic.BaseModel]) -> set[str]:
    """Every key of the schema at any depth, to suggest one for a mistyped key."""
    schema = model.model_json_schema()
    objects = [schema, *schema.get("$defs", {}).values()]
    return {key for schema_ in objects for key in schema_.get("properties", {})}


def _faults(
    error: pydantic.ValidationError, model: type[pydantic.BaseModel], data: object, where: object
) -> InputError:
    errors = error.errors(include_url=False)
    for fault in errors:
        wrong = fault["loc"] == ("schema",) and fault["type"] == "literal_error"
        if wrong and _kind(fault["input"]) not in (None, _kind(fault["ctx"]["expected"])):
            # a file of another kind, e.g. two arguments exchanged: its keys are no faults
            return InputError(f"{where}: {_fault(fault, data, set())}; give a file of the expected kind")
    known = _known_keys(model)
    return InputError(f"{where}: {_fault(fault, data, known)}" for fault in errors)


def _kind(schema: object) -> str | None:
    """The kind that a schema describes, e.g. ``fluidb.network``; ``None`` if it is no name of ours."""
    named = re.search(r"fluidb\.[a-z-]+(?=/)", str(schema))
    return named and named[0]


def validate(model: type[Model], data: object, path: AnyPath) -> Model:
    """Check what a parser of TOML or JSON gave against a schema; each fault is a line with file and key."""
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as error:
        raise _faults(error, model, data, path) from None


def _key(key: str) -> str:
    """A key as TOML writes it: without quotes if that is allowed."""
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else toml_inline(key)


def toml_lines(values: Mapping[str, object], header: str = "") -> list[str]:
    """Lines of ``key = value``, below an empty line and a header if one is given and there are values."""
    lines = [f"{_key(key)} = {toml_inline(value)}" for key, value in values.items()]
    return ["", header, *lines] if header and lines else lines


def toml_inline(value: object) -> str:
    """A value as TOML writes it on one line; characters that are no Unicode (of a damaged file name) are replaced.

    Examples
    --------
    >>> toml_inline({"name": "a", "sizes": [1, 2.5], "deep": False})
    '{ name = "a", sizes = [1, 2.5], deep = false }'
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {toml_inline(part)}' for key, part in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_inline, value))}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, but for DEL
        text = value.encode(errors="replace").decode()
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value, allow_nan=False)


def read_toml(model: type[Model], path: AnyPath) -> Model:
    """Read a TOML file against a schema."""
    return validate(model, parse_toml(path), path)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def parse_toml(path: AnyPath) -> dict[str, Any]:
    """The content of a TOML file, against no schema yet."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        other = "YAML" if str(path).lower().endswith((".yaml", ".yml")) else "JSON" if _is_json(text) else None
        raise InputError(
            f"{path}: not valid TOML: {error}"
            if other is None
            else f"{path}: expected TOML, found {other}; write each key as KEY = VALUE, and each section as [NAME]"
        ) from error
    except RecursionError:
        raise InputError(f"{path}: not valid TOML: nested too deeply") from None
