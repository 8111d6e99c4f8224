"""Lists the keywords of JSON Schema that a cell may use, and checks that a schema uses no others.

The driver applies the schema of a cell to the reply of a child, and both may be hostile. With these keywords
each subschema meets each part of a value at most once, so the work is at most subschemas times characters.
References, regular expressions and comparisons of all items with all others are not on the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["MAX_DEPTH", "ForbiddenSchema", "count_parts"]

MAX_DEPTH = 50
"""Levels of subschemas within each other."""

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})


class ForbiddenSchema(Exception):
    """A schema that a cell may not use. The message is one line for a model."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: Any) -> bool:
    return _is_list(value) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_types(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _is_names(value) and bool(value) and all(name in _TYPES for name in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_anything(value: Any) -> bool:
    return True


_PLAIN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_types, "the name of a JSON type, or a list of different ones"),
    "enum": (_is_list, "a list of values"),
    "examples": (_is_list, "a list of values"),
    "const": (_is_anything, "a value"),
    "required": (_is_names, "a list of different names"),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "a whole number from 0"),
    ),
    "default": (_is_anything, "a value"),
    **dict.fromkeys(("title", "description", "$comment", "$schema"), (_is_text, "a text")),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), (_is_flag, "true or false")),
}  # fmt: skip
"""Keywords whose value holds no subschema. Whatever such a value looks like, it is data."""

_SUBSCHEMA = frozenset({"additionalProperties", "items", "propertyNames", "not", "if", "then", "else"})
_LIST_OF_SUBSCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SUBSCHEMAS = frozenset({"properties"})
_SHOWN = frozenset({"enum", "const"})
_SHOWN_CHARS_PER_PART = 5


def count_parts(schema: Any) -> int:
    """Return the number of subschemas, names and listed values: what a part of a value may be compared with.

    A long listed value counts as several, because errors show it. Raises ForbiddenSchema for a keyword that
    is not on the list, or whose value does not have its form.
    """
    parts = 0
    waiting = [(schema, 0)]
    while waiting:
        one, level = waiting.pop()
        parts += 1
        if isinstance(one, bool):
            continue
        if not isinstance(one, Mapping):
            raise ForbiddenSchema(f"it is no JSON Schema: {one!r:.80} is given where a dict is expected")
        if level > MAX_DEPTH:
            raise ForbiddenSchema(f"it is nested deeper than {MAX_DEPTH} levels. Flatten it.")
        for keyword, value in one.items():
            inner = _subschemas(keyword, value)
            if keyword in _SHOWN:
                parts += len(repr(value)) // _SHOWN_CHARS_PER_PART
            if isinstance(value, (list, Mapping)):
                parts += len(value)
            waiting += [(subschema, level + 1) for subschema in inner]
    return parts


def _subschemas(keyword: Any, value: Any) -> list[Any]:
    """Return the subschemas that are the value of a keyword. Raises ForbiddenSchema."""
    if keyword in _SUBSCHEMA:
        return [value]
    if keyword in _LIST_OF_SUBSCHEMAS:
        if not isinstance(value, list) or not value:
            raise ForbiddenSchema(
                f"it is no JSON Schema: {keyword} must be a list of schemas, not {value!r:.80}"
            )
        return value
    if keyword in _NAMED_SUBSCHEMAS:
        if not isinstance(value, Mapping):
            raise ForbiddenSchema(
                f"it is no JSON Schema: {keyword} must be a dict of names to schemas, not {value!r:.80}"
            )
        return list(value.values())
    if keyword in _PLAIN:
        fits, form = _PLAIN[keyword]
        if not fits(value):
            raise ForbiddenSchema(f"it is no JSON Schema: {keyword} must be {form}, not {value!r:.80}")
        return []
    if isinstance(keyword, str) and keyword.startswith("x-"):
        return []
    raise ForbiddenSchema(
        f"{keyword!s:.80} is not supported. Describe the shape without it and check in Python"
    )
