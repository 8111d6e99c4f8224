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
