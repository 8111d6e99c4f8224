"""Turns a kernel's reply to a cell into the bounded parts of a CellResult."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlm.sandbox.in_kernel import wire

__all__ = [
    "MESSAGE_LIMIT",
    "REPORT_LIMIT",
    "RESULT_LIMIT",
    "STREAM_LIMITS",
    "TRACEBACK_LIMIT",
    "outcome_of",
]

STREAM_LIMITS = {"stdout": 1_010_000, "stderr": 210_000}
"""Characters of each stream of one cell: the kernel's own limit, plus room for its note about a gap."""
_MAX_ESCAPED = 3
RESULT_LIMIT = 21_000
MESSAGE_LIMIT = 2_100
TRACEBACK_LIMIT = 8_200
_NAME_LIMIT = 200
REPORT_LIMIT = wire.MAX_CALL
"""Characters of the report about a cell, which stays JSON until the driver reads it."""


def outcome_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an execute reply says of its cell. What is missing or of another type is empty.

    An honest kernel bounds its output. A hostile one may not, so everything is bounded again here. A report
    that is cut does not parse, and the driver ends its kernel.
    """
    cell = reply.get("cell")
    if not isinstance(cell, dict):
        cell = {}
    result = cell.get("result")
    lines = reply.get("traceback")
    joined = "\n".join(line for line in lines[:8] if isinstance(line, str)) if isinstance(lines, list) else ""
    return {
        "ok": reply.get("status") == "ok",
        **{name: _slim(_text(cell.get(name), limit)) for name, limit in STREAM_LIMITS.items()},
        "result": _text(result, RESULT_LIMIT) if isinstance(result, str) else None,
        "report": _text(cell.get("report"), REPORT_LIMIT),
        "ename": _text(reply.get("ename"), _NAME_LIMIT),
        "evalue": _text(reply.get("evalue"), MESSAGE_LIMIT),
        "traceback": joined[:TRACEBACK_LIMIT],
    }


def _slim(text: str) -> str:
    """Return `text`, cut if its control characters make it several times as large on the wire."""
    most = _MAX_ESCAPED * len(text)
    size = len(json.dumps(text, ensure_ascii=False))
    return text if size <= most + 2 else text[: len(text) * most // size]


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""
