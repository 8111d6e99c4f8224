"""Decides whether a provider is asked to enforce the schema of a reply, and remembers who refused to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlm.models.base import Request
from rlm.models.structured.portable_schema import PortableSchema, portable

__all__ = ["SchemaMode", "merged"]

_MAX_REMEMBERED = 1_000
_refusals: set[tuple[str, str, str]] = set()
"""Base URL, model and schema of refusals; "" is every schema. They hold for all models of this process: a
server that knows no schema mode would else be asked in vain by each run."""


class SchemaMode:
    """The schema mode of one model at the server with this base URL."""

    def __init__(self, base_url: str, model: str) -> None:
        self._where = (base_url, model)

    def schema_of(self, request: Request) -> PortableSchema | None:
        """Return what to enforce for `request`. None if it has no schema, or one that providers cannot
        enforce, or if the server has refused it."""
        found = None if request.schema is None else portable(request.schema)
        if found is None or not _refusals.isdisjoint(self._keys(found)):
            return None
        return found

    def remember(self, schema: PortableSchema, *, alone: bool) -> None:
        """Note that the server refused `schema`, so that it is not asked again. `alone`: others may be."""
        anything, this = self._keys(schema)
        if len(_refusals) < _MAX_REMEMBERED:
            _refusals.add(this if alone else anything)

    def _keys(self, schema: PortableSchema) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        return (*self._where, ""), (*self._where, json.dumps(schema.schema))


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `body` with `fields`. An object that both hold has the keys of both."""
    both = {
        name: {**body[name], **value}
        for name, value in fields.items()
        if isinstance(value, dict) and isinstance(body.get(name), dict)
    }
    return {**body, **fields, **both}
