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
