"""Test schemas that a cell passes to the driver."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rlm.answers.json_schema import MAX_VALUE_CHARS, AnswerSchema, SchemaError, parse_reply, size_of

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
        {"dependentSchemas": {"const": {"patternProperties": {"^(a|a)+$": {}}}}},
        {"dependentSchemas": {"properties": {"patternProperties": {"^(a|a)+$": {}}}}},
        {"properties": {"const": {"pattern": "(a+)+$"}, "properties": {"properties": {"x": {"$ref": "#"}}}}},
        {"uniqueItems": True},
        {"multipleOf": 1e-300},
        {"contains": {"type": "string"}},
        {"unevaluatedProperties": {"pattern": "a"}},
        {"$anchor": "a"},
        {"unknown": {"pattern": "(a+)+$"}},
        {"additionalProperties": {"if": {"pattern": "a"}}},
        {"type": "text"},
        {"required": "a"},
        {"minLength": -1},
        {"items": 3},
        {"anyOf": []},
        {"enum": "abc"},
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
        {"properties": {"const": {"type": "string"}, "default": {"items": {"minimum": 3}}}},
        {
            "const": {"pattern": "(a+)+$", "$ref": "#"},
            "default": {"$ref": "#"},
            "examples": [{"pattern": "x"}],
        },
        {
            "x-note": {"pattern": "("},
            "type": "string",
            "$schema": "https://json-schema.org/draft/2020-12/schema",
        },
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


KEYWORDS = [
    *("$ref", "$dynamicRef", "$id", "$anchor", "$defs", "pattern", "patternProperties", "format"),
    *("uniqueItems", "multipleOf", "contains", "dependentSchemas", "unevaluatedItems", "propertyNames"),
    *("properties", "items", "prefixItems", "allOf", "anyOf", "not", "if", "then", "additionalProperties"),
    *("const", "enum", "default", "examples", "type", "required", "minimum", "maxLength", "title"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["^(a|a)+$", "#"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)


def keywords_in_force(schema: Any) -> set[str]:
    """Return every keyword that jsonschema applies, by jsonschema's own reading of a schema."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema) & set(Draft202012Validator.VALIDATORS)
    for keyword, value in schema.items():
        if keyword in ("properties", "patternProperties", "dependentSchemas", "$defs"):
            for inner in value.values() if isinstance(value, dict) else ():
                found |= keywords_in_force(inner)
        elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
            for inner in value if isinstance(value, list) else ():
                found |= keywords_in_force(inner)
        elif keyword not in ("const", "enum", "default", "examples"):
            found |= keywords_in_force(value)
    return found


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=4), VALUES)
@settings(max_examples=500, deadline=None)
def test_no_nesting_hides_a_keyword_that_is_not_on_the_list(schema: dict[str, Any], value: Any) -> None:
    """What is accepted is valid, and is made of plain and bounded keywords at every depth."""
    try:
        accepted = AnswerSchema.of(schema)
    except SchemaError:
        return
    Draft202012Validator.check_schema(dict(accepted.schema))
    refused = {"$ref", "$dynamicRef", "pattern", "patternProperties", "format", "uniqueItems", "multipleOf"}
    refused |= {"contains", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"}
    assert not keywords_in_force(accepted.schema) & refused
    assert accepted.parts is not None
    with suppress(SchemaError):
        accepted.check(value)


class Counted(dict[str, Any]):
    """Counts how often a validator looks at an object."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        Counted.looks += 1
        return super().__getitem__(key)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 30))
@settings(deadline=None)
def test_the_work_of_a_check_is_at_most_parts_times_size(depth: int, width: int, count: int) -> None:
    """Each subschema meets each part of a value at most once, however subschemas are nested."""
    schema: dict[str, Any] = {"properties": {"a": {"type": "null"}}}
    for _ in range(depth):
        schema = {"anyOf": [schema] * width} if len(json.dumps(schema)) < 3_000 else {"not": schema}
    accepted = AnswerSchema.of({"items": schema})
    value = [Counted(a=1) for _ in range(count)]
    Counted.looks = 0
    with suppress(SchemaError):
        accepted.check(value)
    assert accepted.parts is not None
    assert Counted.looks <= accepted.parts * size_of([{"a": 1}] * count)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("[1]", [1]),
        ("Here:\n```json\n[1]\n```\nDone.", [1]),
        ("```\n{}\n  ```", {}),
        ("``` json\n[2]\n```", None),
        ("```\n[1]", None),
        ('{"a": NaN}', None),
        ('{"a": 1e999}', None),
        ("[" * 100_000, None),
        ("[" * 150 + "]" * 150, None),
        ('"' + "x" * MAX_VALUE_CHARS + '"', None),
        ("9" * 5_000, None),
        ("x```\n" * 200_000, None),
    ],
)
def test_a_reply_is_parsed_or_refused(reply: str, value: Any) -> None:
    """Whatever a model sends, the driver gets a plain, finite, bounded JSON value."""
    if value is None:
        with pytest.raises(SchemaError):
            parse_reply(reply)
    else:
        assert parse_reply(reply) == value


def test_numbers_that_cannot_be_compared_are_a_fault() -> None:
    """A caller's own schema may ask for what floats cannot do."""
    schema = AnswerSchema.of({"multipleOf": 1e-300}, trusted=True)
    assert schema.parts is None
    with pytest.raises(SchemaError, match="compared"):
        schema.check(10**400)
