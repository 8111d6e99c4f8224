"""The value that says "nothing there" under a JSON Schema, where the schema has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["empty_form"]


def empty_form(schema: Mapping[str, Any]) -> Any:
    """Return [] for an array, `{"names": []}` for an object of arrays only, and None for any other schema.

    A schema that asks for at least one item has no empty form, either.
    """
    if _is_empty_array(schema):
        return []
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        return None
    if not all(isinstance(one, Mapping) and _is_empty_array(one) for one in properties.values()):
        return None
    if not set(schema.get("required", ())) <= set(properties) or schema.get("minProperties", 0) > len(
        properties
    ):
        return None
    return {name: [] for name in properties}


def _is_empty_array(schema: Mapping[str, Any]) -> bool:
    known = {"enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "prefixItems"}
    return schema.get("type") == "array" and not schema.get("minItems") and not known & set(schema)
