"""Test schemas that a cell passes to the driver."""

from __future__ import annotations

from typing import Any

import pytest

from rlm.answers.json_schema import AnswerSchema, SchemaError

NESTED: dict[str, Any] = {}
for _ in range(500):
    NESTED = {"items": NESTED}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/x"},
        {"$ref": "#"},
        {"properties": {"a": {"$dynamicRef": "#x"}}},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}},
        {"$id": "http://127.0.0.1:9/x", "type": "object"},
        {"type": "string", "pattern": "(a+)+$"},
        {"anyOf": [{"items": {"patternProperties": {"(a+)+$": {}}}}]},
        {"description": "x" * 30_000},
        NESTED,
    ],
)
def test_what_could_load_or_never_end_is_refused(schema) -> None:
    """No cell can make the driver reach a network or hang."""
    with pytest.raises(SchemaError):
        AnswerSchema.of(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "str", "age": "int"},
        {"type": "object", "properties": {"$ref": {"type": "string"}, "pattern": {"enum": ["$ref"]}}},
    ],
)
def test_names_of_properties_are_free(schema) -> None:
    assert AnswerSchema.of(schema)


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ("int", WHOLE),
        (None, {"type": "null"}),
        (["str"], {"type": "array", "items": TEXT}),
        ([WHOLE], {"type": "array", "items": WHOLE}),
        (
            {"a": ["str"], "b": WHOLE},
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": TEXT}, "b": WHOLE},
                "required": ["a", "b"],
            },
        ),
        (
            {"a": {"b": "int", "c": None}},
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": WHOLE, "c": {"type": "null"}},
                        "required": ["b", "c"],
                    }
                },
                "required": ["a"],
            },
        ),
        ({"items": ["str"]}, {"type": "object", "properties": {"items": {"type": "array", "items": TEXT}}}),
        ({"type": "str", "tags": ["str"]}, {"type": "object"}),
        ({"type": WHOLE}, {"type": "object", "properties": {"type": WHOLE}, "required": ["type"]}),
        (
            {"minimum": WHOLE, "title": TEXT},
            {"type": "object", "properties": {"minimum": WHOLE, "title": TEXT}},
        ),
        ({"type": "string"}, {"type": "string"}),
        ({"items": WHOLE}, {"items": WHOLE}),
        ({"enum": ["a", None]}, {"enum": ["a", None]}),
        ({"type": "object", "properties": {"a": WHOLE}, "x-order": ["a"]}, {"properties": {"a": WHOLE}}),
    ],
)
def test_types_are_a_schema(given, schema) -> None:
    """Names of types, lists of one type and objects of these are short for a JSON Schema."""
    found = AnswerSchema.of(given).schema
    assert {key: found[key] for key in schema} == schema


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["str", "int"], "it is a list of 2 types"),
        ({"a": "text"}, "it['a'] is 'text', which is no type. Give a JSON Schema, or types: 'str'"),
        ({"a": {"b": []}}, "it['a']['b'] is a list of 0 types"),
        ({"type": "object", "properties": {"a": "int"}}, "it is no JSON Schema"),
        (5, "it is 5, which is no type"),
    ],
)
def test_another_schema_is_told_what_is_accepted(given, words) -> None:
    with pytest.raises(SchemaError) as caught:
        AnswerSchema.of(given)
    assert words in str(caught.value)


def test_the_text_of_a_flat_form_stays() -> None:
    """Children's calls are found in older journals by it."""
    assert AnswerSchema.of({"name": "str", "age": "int"}).text == (
        '{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, '
        '"required": ["name", "age"]}'
    )
