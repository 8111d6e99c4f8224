"""Reads the short forms of a JSON Schema: names of types, lists of one type, and objects of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.answers.bounded_validator import CHECKED, KEYWORDS, find_schema_fault

__all__ = ["ShorthandError", "expand"]

_TYPES: Mapping[str, str] = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
    "None": "null",
    "null": "null",
}
_ACCEPTED = (
    "Give a JSON Schema, or types: 'str', 'int', 'float', 'bool', 'list', 'dict', None, ['str'] for a list "
    "of texts, {'name': 'str', 'tags': ['str']} for an object with these keys"
)


class ShorthandError(ValueError):
    """A schema that is neither a JSON Schema nor a short form. The message names the place."""


def expand(given: Any) -> dict[str, Any]:
    """Return the JSON Schema that `given` is or stands for. All keys of an object are required.

    `{"a": "int"}` is an object, `["str"]` an array of texts, `"int"` and None are types. A mapping is a JSON
    Schema if all its keys are keywords and at least one has a value that fits. Raises ShorthandError.
    """
    return _expand(given, "it")


def _expand(given: Any, place: str) -> dict[str, Any]:
    if given is None:
        return {"type": "null"}
    if isinstance(given, str) and given in _TYPES:
        return {"type": _TYPES[given]}
    if isinstance(given, (list, tuple)):
        if len(given) != 1:
            raise ShorthandError(f"{place} is a list of {len(given)} types, and a list has one. {_ACCEPTED}")
        return {"type": "array", "items": _expand(given[0], f"{place}[0]")}
    if not isinstance(given, Mapping):
        raise ShorthandError(f"{place} is {given!r:.60}, which is no type. {_ACCEPTED}")
    if _is_schema(given):
        return dict(given)
    try:
        properties = {name: _expand(value, f"{place}[{name!r:.60}]") for name, value in given.items()}
    except ShorthandError:
        if KEYWORDS & set(given):
            return dict(given)  # a JSON Schema with a fault: its own check tells
        raise
    return {"type": "object", "properties": properties, "required": list(given)}


def _is_schema(given: Mapping[str, Any]) -> bool:
    if not given:
        return True
    if set(given) != {"type"} and all(isinstance(one, str) and one in _TYPES for one in given.values()):
        return False
    if not all(key in KEYWORDS or key.startswith(("$", "x-")) for key in given):
        return False
    return any(
        key in CHECKED and find_schema_fault({key: value}, resolve=False) is None
        for key, value in given.items()
    )
