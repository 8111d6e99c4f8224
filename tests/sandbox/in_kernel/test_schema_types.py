"""Test how the Python types of a schema are made into JSON Schemas."""

from __future__ import annotations

from typing import Any, Literal, Optional

import pytest

from rlm.sandbox.in_kernel.schema_types import json_schema_of

TEXT, WHOLE, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        (int, WHOLE),
        ({"a": int}, {"a": WHOLE}),
        ({"a": ["str"]}, {"a": ["str"]}),
        (["str"], ["str"]),
        ([str], [TEXT]),
        ((str,), [TEXT]),
        (list[int], {"type": "array", "items": WHOLE}),
        (list[list[str]], {"type": "array", "items": {"type": "array", "items": TEXT}}),
        (set[str], {"type": "array", "items": TEXT}),
        (tuple[int, ...], {"type": "array", "items": WHOLE}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        ({"a": {"b": bool, "c": None}}, {"a": {"b": {"type": "boolean"}, "c": None}}),
        ({"a": type(None)}, {"a": NULL}),
        ({"a": int | None}, {"a": {"anyOf": [WHOLE, NULL]}}),
        (Optional[str], {"anyOf": [TEXT, NULL]}),  # noqa: UP045 - models write it so
        (Literal["x", 2, None], {"enum": ["x", 2, None]}),
        ({"a": Any, "b": list, "c": dict}, {"a": {}, "b": {"type": "array"}, "c": {"type": "object"}}),
        ({"type": "object", "properties": {"a": int}}, {"type": "object", "properties": {"a": WHOLE}}),
    ],
)
def test_a_type_is_its_json_schema(given, schema) -> None:
    assert json_schema_of(given) == schema


ENDLESS: dict[str, Any] = {}
ENDLESS["a"] = ENDLESS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": {1, 2}}, "schema['a'] is a set, which is no type of JSON"),
        ({"a": object()}, "schema['a'] is an object,"),
        ({"a": [len]}, "schema['a'][0] is a builtin_function_or_method,"),
        ({1: int}, "schema has the key 1, which is no str"),
        (len, "schema is a builtin_function_or_method,"),
        ({"a": 1j}, "schema['a'] is a complex,"),
        (ENDLESS, "nested deeper than 50 levels"),
    ],
)
def test_anything_else_is_told_what_is_accepted(given, words) -> None:
    with pytest.raises(TypeError) as caught:
        json_schema_of(given)
    assert words in str(caught.value)
    assert "Give a JSON Schema, or types: {'name': str, 'tags': [str]" in str(caught.value)
