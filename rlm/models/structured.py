"""Replies that must follow a schema: what a provider can enforce of it, who refused to, and calls of tools.

A schema is rewritten into the part of the language that providers know. The result may be wider than the
original, because the prompt holds the original and the caller checks the reply against it. It is never
narrower where that would forbid a valid answer that a model may want to give.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Reply, Request, ToolCall

__all__ = ["PortableSchema", "SchemaMode", "as_text", "merged", "portable"]

_MAX_CHARS = 20_000
_MAX_DEPTH = 10
_MAX_PROPERTIES = 500
_MAX_OPTIONAL = 20
"""Optional keys and unions that Anthropic compiles are limited to some two dozen."""
_MAX_ENUM = 500
_MAX_NODES = 2_000
"""References are replaced by what they name, which may multiply."""
_PRIMITIVES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_NOT_EXPRESSIBLE = frozenset(
    {"allOf", "not", "if", "then", "else", "prefixItems", "patternProperties", "dependentSchemas"}
    | {"dependentRequired", "propertyNames", "contains", "unevaluatedProperties", "unevaluatedItems"}
    | {"$dynamicRef", "$recursiveRef", "$id", "$anchor"}
)
"""Keywords whose loss would leave a different schema, rather than a wider one."""


@dataclass(frozen=True, slots=True)
class PortableSchema:
    """`schema` has an object at its root, no references and no limits of numbers or lengths. `closed`: no
    object of it takes other keys than those that it names. `strict`: besides, all of them are required."""

    schema: Mapping[str, Any]
    closed: bool
    strict: bool


class _Odd(Exception):
    """The schema says what no provider enforces."""


def portable(schema: Mapping[str, Any]) -> PortableSchema | None:
    """Return what a provider can enforce of `schema`, or None if that is nothing: a schema that is too large,
    recursive, a union at its root, or one that needs other keywords."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return None
    return _portable(text) if len(text) <= _MAX_CHARS else None


@lru_cache(maxsize=128)
def _portable(text: str) -> PortableSchema | None:
    root = json.loads(text)
    rewriter = _Rewriter(root)
    try:
        rewritten = rewriter.rewrite(root, 0, ())
    except (_Odd, RecursionError):
        return None
    if rewritten.get("type") != "object" or not rewritten.get("properties"):
        return None
    return PortableSchema(rewritten, rewriter.closed, rewriter.closed and not rewriter.optional)


class _Rewriter:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._properties = self._nodes = 0
        self.optional = 0
        self.closed = True

    def rewrite(self, schema: Any, depth: int, refs: tuple[str, ...]) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise _Odd
        if _NOT_EXPRESSIBLE & set(schema):
            raise _Odd
        ref = schema.get("$ref")
        if ref is not None:
            if ref in refs or set(schema) - {"$ref", "title", "description", "default", "$defs"}:
                raise _Odd
            return self._described(schema, self.rewrite(self._resolve(ref), depth, (*refs, ref)))
        if "const" in schema or "enum" in schema:
            return self._described(schema, _literal(schema))
        union = schema.get("anyOf", schema.get("oneOf"))
        if union is not None:
            # With other keywords beside it, it would be an intersection.
            if not isinstance(union, list) or set(schema) & {"properties", "items", "required"}:
                raise _Odd
            return self._described(schema, self._union(union, depth, refs))
        type_ = schema.get("type")
        if isinstance(type_, list):
            return self._described(
                schema, self._union([{**schema, "type": one} for one in type_], depth, refs)
            )
        if type_ not in _TYPES:
            raise _Odd
        rewritten: dict[str, Any] = {"type": type_}
        if type_ == "object":
            rewritten |= self._object(schema, depth, refs)
        elif type_ == "array":
            # An array of anything cannot be closed.
            rewritten["items"] = self.rewrite(schema.get("items"), depth + 1, refs)
        return self._described(schema, rewritten)

    def _union(self, branches: list[Any], depth: int, refs: tuple[str, ...]) -> dict[str, Any]:
        rewritten = [self.rewrite(branch, depth, refs) for branch in branches]
        if not rewritten:
            raise _Odd
        return rewritten[0] if len(rewritten) == 1 else {"anyOf": rewritten}

    def _object(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> dict[str, Any]:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not set(required) <= set(properties):
            raise _Odd
        self._properties += len(properties)
        if self._properties > _MAX_PROPERTIES:
            raise _Odd
        if not properties or (others is not None and others is not False):
            # Keys that the schema does not name: closing the object would lose them.
            self.closed = False
            return {
                **({"properties": self._each(properties, depth, refs)} if properties else {}),
                **({"required": list(required)} if required else {}),
                "additionalProperties": True,
            }
        rewritten = self._each(properties, depth, refs)
        # A key that may be null need not be left out.
        needed = [name for name in properties if name in required or _takes_null(rewritten[name])]
        self.optional += len(properties) - len(needed)
        if self.optional > _MAX_OPTIONAL:
            raise _Odd
        return {"properties": rewritten, "required": needed, "additionalProperties": False}

    def _each(self, properties: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> dict[str, Any]:
        return {name: self.rewrite(one, depth + 1, refs) for name, one in properties.items()}

    def _resolve(self, ref: Any) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise _Odd
        found: Any = self._root
        for step in ref[2:].split("/"):
            if not isinstance(found, dict) or step not in found:
                raise _Odd
            found = found[step]
        return found

    def _described(self, schema: Mapping[str, Any], rewritten: dict[str, Any]) -> dict[str, Any]:
        description = schema.get("description")
        return {**rewritten, "description": description} if isinstance(description, str) else rewritten


def _literal(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an enumeration of values of one type."""
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_ENUM:
        raise _Odd
    kinds = {_PRIMITIVES.get(type(value)) for value in values}
    if None in kinds:
        raise _Odd
    if len(kinds) == 1:
        return {"type": kinds.pop(), "enum": values}
    # Each type for itself: a value of several types is understood by few servers.
    by_kind = {kind: [v for v in values if _PRIMITIVES[type(v)] == kind] for kind in sorted(map(str, kinds))}
    return {"anyOf": [{"type": kind, "enum": these} for kind, these in by_kind.items()]}


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null" or any(map(_takes_null, schema.get("anyOf", ())))


_MAX_REMEMBERED = 1_000
_refusals: set[tuple[str, str, str]] = set()
"""Base URL, model and schema of refusals. They hold for all models of this process: a server would else be
asked in vain by each run."""


class SchemaMode:
    """The schema mode of one model at the server with this base URL."""

    def __init__(self, base_url: str, model: str) -> None:
        self._where = (base_url, model)

    def schema_of(self, request: Request) -> PortableSchema | None:
        """Return what to enforce for `request`. None if it has no schema, or one that providers cannot
        enforce, or if the server has refused it."""
        found = None if request.schema is None else portable(request.schema)
        return None if found is None or self._key(found) in _refusals else found

    def remember(self, schema: PortableSchema) -> None:
        """Note that the server refused `schema`, so that it is not asked again."""
        if len(_refusals) < _MAX_REMEMBERED:
            _refusals.add(self._key(schema))

    def _key(self, schema: PortableSchema) -> tuple[str, str, str]:
        return (*self._where, json.dumps(schema.schema))


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
