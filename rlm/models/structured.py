"""Replies that must follow a schema: what a provider can enforce of it, and calls of tools.

A schema is reduced to the keywords that providers know. The result may be wider than the original, because
the prompt holds the original and the caller checks the reply against it. What a server refuses all the same
is left to the prompt alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from rlm.models.base import Reply, Request, ToolCall

__all__ = ["PortableSchema", "as_text", "merged", "portable"]

_MAX_CHARS = 20_000
_KEPT = ("type", "enum", "$ref", "description")
_NOT_EXPRESSIBLE = frozenset(
    {"allOf", "not", "if", "then", "else", "prefixItems", "patternProperties", "dependentSchemas"}
    | {"dependentRequired", "propertyNames", "contains", "unevaluatedProperties", "unevaluatedItems"}
    | {"$dynamicRef", "$recursiveRef", "$id", "$anchor", "definitions"}
)
"""Keywords whose loss would leave a different schema, rather than a wider one."""


class PortableSchema(NamedTuple):
    """`schema` has an object at its root and no limits of numbers or lengths. `closed`: no object of it takes
    other keys than those that it names. `strict`: besides, all of them are required."""

    schema: Mapping[str, Any]
    closed: bool
    strict: bool


class _Odd(Exception):
    """The schema says what no provider enforces."""


def portable(schema: Mapping[str, Any]) -> PortableSchema | None:
    """Return what a provider can enforce of `schema`, or None if that is nothing: a schema that is too large,
    no object at its root, or one that needs other keywords."""
    try:
        text = json.dumps(schema)
        return _portable(text) if len(text) <= _MAX_CHARS else None
    except (_Odd, TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=128)
def _portable(text: str) -> PortableSchema:
    root = json.loads(text)
    is_open: list[str] = []  # objects that take keys of any name
    optional: list[str] = []

    def rewrite(schema: Any) -> dict[str, Any]:
        if not isinstance(schema, dict) or _NOT_EXPRESSIBLE & set(schema):
            raise _Odd
        kept = {name: schema[name] for name in _KEPT if name in schema}
        if "const" in schema:
            kept["enum"] = [schema["const"]]
        union = schema.get("anyOf", schema.get("oneOf"))
        if union is not None:
            kept["anyOf"] = [rewrite(branch) for branch in union]
        if not kept.keys() & {"type", "enum", "$ref", "anyOf"} or kept.get("$ref", "") not in references:
            raise _Odd
        if schema.get("type") == "array":
            kept["items"] = rewrite(schema.get("items"))
        if schema.get("type") == "object":
            kept |= rewrite_object(schema)
        return kept

    def rewrite_object(schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = {name: rewrite(one) for name, one in schema.get("properties", {}).items()}
        required = schema.get("required", [])
        if not set(required) <= set(properties):
            raise _Odd
        if not properties or schema.get("additionalProperties") not in (None, False):
            # Keys that the schema does not name: closing the object would lose them.
            is_open.append("")
            fields = {"properties": properties, "required": required}
            return {name: value for name, value in fields.items() if value} | {"additionalProperties": True}
        # A key that may be null need not be left out.
        needed = [name for name in properties if name in required or _takes_null(properties[name])]
        optional.extend(properties.keys() - set(needed))
        return {"properties": properties, "required": needed, "additionalProperties": False}

    parts = root.get("$defs", {})
    references = {"", *(f"#/$defs/{name}" for name in parts)}
    rewritten = rewrite(root)
    if parts:
        rewritten["$defs"] = {name: rewrite(part) for name, part in parts.items()}
    if rewritten.get("type") != "object" or not rewritten.get("properties"):
        raise _Odd
    return PortableSchema(rewritten, not is_open, not is_open and not optional)


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return "null" in (schema.get("type"), *schema.get("type", ())) or any(
        map(_takes_null, schema.get("anyOf", ()))
    )


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `body` with `fields`. An object that both hold has the keys of both."""
    both = {
        name: {**body[name], **value}
        for name, value in fields.items()
        if isinstance(value, dict) and isinstance(body.get(name), dict)
    }
    return {**body, **fields, **both}


def as_text(reply: Reply, request: Request) -> Reply:
    """Return `reply` with its tool calls in its text, where `request` has a use for them.

    Journals, histories and other providers know only text. A root's calls are written as many models write
    them, which the reply contract reads. A reply that must follow a schema may have come as the arguments of
    a call. Calls of other replies mean nothing and are dropped.
    """
    calls = reply.tool_calls
    if not calls or reply.finish_reason in ("length", "refusal"):
        return reply
    if request.role == "root":
        parts = [reply.text.strip(), *map(_written, calls)]
        return replace(reply, text="\n".join(filter(None, parts)), finish_reason="stop", tool_calls=())
    if request.schema is not None and len(calls) == 1 and not reply.text.strip():
        return replace(reply, text=calls[0].arguments, finish_reason="stop", tool_calls=())
    return replace(reply, tool_calls=())


def _written(call: ToolCall) -> str:
    arguments: Any = call.arguments
    try:
        # Some models write line breaks into a string as they are.
        parsed = json.loads(arguments, strict=False)
        arguments = parsed if isinstance(parsed, (dict, str)) else arguments
    except (ValueError, RecursionError):
        pass  # code without JSON around it
    # A tag within the code must not end the call.
    body = json.dumps({"name": call.name, "arguments": arguments}).replace("<", "\\u003c")
    return f"<tool_call>\n{body}\n</tool_call>"
