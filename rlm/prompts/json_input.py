"""Parse JSON, and read records from it by their types. Errors name the path: `$.packs[3].score`.

A record is a dataclass or a NamedTuple. pydantic validates it, on first use: most runs read none.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

from rlm.prompts.errors import InputError

__all__ = ["Bounds", "NotBlank", "parse_json", "read", "read_all"]

T = TypeVar("T")

_MAX_DEPTH = 100
_WANTED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "float_type": "a number",
    "greater_than_equal": "{ge} or more",
    "int_type": "a whole number",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "mapping_type": "an object",
    "named_tuple_type": "an object",
    "string_pattern_mismatch": "a text that is not blank",
    "string_type": "a text",
    "tuple_type": "a list",
}
"""What to give instead, by pydantic's name of the error."""


class Bounds(NamedTuple):
    """The least and the largest value of a number, as its annotation."""

    least: int
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        bounds = {"ge": self.least} if self.most is None else {"ge": self.least, "le": self.most}
        return {**handler(source), **bounds}


class NotBlank(NamedTuple):
    """The annotation of a text that must have more than white space."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "pattern": r"\S"}


def parse_json(data: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8, UTF-16 or UTF-32.

    Raises ValueError, with one short line, for anything else, and for values that are nested more than 100
    deep: code that walks them would exceed the interpreter's limit of recursion.
    """
    too_deep = f"it is nested more than {_MAX_DEPTH} deep"
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError(too_deep) from None
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    except ValueError:
        raise ValueError("it holds a number with too many digits") from None
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise ValueError(too_deep)


def read(kind: type[T], value: object, path: str = "$") -> T:
    """Return a record from an object of JSON, or check one that Python made. Raises InputError.

    A missing or null key gets its default. Unknown keys are named in the `warnings` of the record, but not
    those of rows in a list, which may hold more.
    """
    made, faults = read_all(kind, value, path)
    if made is None:
        raise faults[0]
    return made


def read_all(kind: type[T], value: object, path: str = "$") -> tuple[T | None, list[InputError]]:
    """Return the record that `read` returns, or every error."""
    from pydantic_core import ValidationError

    validate = _validator(kind).validate_python  # type: ignore[arg-type]  # classes are hashable
    try:
        return validate(value), []
    except ValidationError as error:
        value, notes = _without_needless(value, error.errors(include_url=False))
    try:
        made = validate(value)
    except ValidationError as error:
        return None, [_fault(one, path) for one in error.errors(include_url=False)]
    return (replace(made, warnings=(*made.warnings, *notes)) if notes else made), []


@cache
def _validator(kind: type) -> Any:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(TypeAdapter(kind).core_schema))


def _strict(schema: Any) -> Any:
    """Return a schema that converts objects and lists to records and tuples, but no value to another type."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(one) for key, one in schema.items()}
    match schema.get("type"):
        case "int" | "float" | "bool" | "str":
            schema["strict"] = True
        case "dataclass":
            schema["revalidate_instances"] = "always"
        case "dataclass-args":
            schema["extra_behavior"] = "forbid"
    return schema


def _without_needless(value: Any, errors: Sequence[Any]) -> tuple[Any, list[str]]:
    """Return the value without unknown and null keys, and a warning for each unknown one."""
    notes: list[str] = []
    if not isinstance(value, Mapping):
        return value, notes
    value = copy.deepcopy({**value})
    for error in errors:
        is_unknown = error["type"] in ("extra_forbidden", "unexpected_keyword_argument")
        *above, key = error["loc"]
        if not is_unknown and error["input"] is not None:
            continue
        holder = value
        for step in above:
            holder = holder[step]
        if isinstance(holder, dict):
            holder.pop(key, None)
        if is_unknown and all(isinstance(step, str) for step in above):
            notes.append(f"${_steps(error['loc'])} is unknown and was ignored: check its name")
    return value, notes


def _fault(error: Any, path: str) -> InputError:
    path += _steps(error["loc"])
    if error["type"] == "missing" or error["input"] is None:
        return InputError(path, "is missing", "give it")
    wanted = _WANTED.get(error["type"], "another value").format(**error.get("ctx", {}))
    given = error["input"]
    shown = "a list" if isinstance(given, list) else "an object" if isinstance(given, dict) else repr(given)
    return InputError(path, f"is {shown}"[:60], f"give {wanted}")


def _steps(steps: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
