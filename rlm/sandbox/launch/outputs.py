"""Collects a kernel's IOPub messages into the bounded parts of a CellResult."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["MESSAGE_LIMIT", "RESULT_LIMIT", "STREAM_LIMITS", "TRACEBACK_LIMIT", "OutputCollector"]

STREAM_LIMITS = {"stdout": 1_010_000, "stderr": 210_000}
"""Characters of each stream of one cell: the kernel's own limit, plus room for its note about a gap."""
_MAX_ESCAPED = 3
RESULT_LIMIT = 21_000
MESSAGE_LIMIT = 2_100
TRACEBACK_LIMIT = 8_200


class OutputCollector:
    """Collects the IOPub messages of one cell.

    An honest kernel bounds its output. A hostile one may not, so everything is bounded again here, and
    values of a wrong type are skipped.
    """

    def __init__(self) -> None:
        self._streams: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._sizes = {"stdout": 0, "stderr": 0}
        self._results: list[str] = []

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add one message, given by its type and content."""
        if kind == "stream":
            self._add_stream(content.get("name"), content.get("text"))
        elif kind in ("execute_result", "display_data"):
            data = content.get("data")
            text = data.get("text/plain") if isinstance(data, dict) else None
            if isinstance(text, str) and len(self._results) < 20:
                self._results.append(text[:RESULT_LIMIT])

    def _add_stream(self, name: object, text: object) -> None:
        if not isinstance(name, str) or name not in STREAM_LIMITS or not isinstance(text, str):
            return
        room = STREAM_LIMITS[name] - self._sizes[name]
        self._sizes[name] += len(text)
        if room > 0:
            self._streams[name].append(_slim(text[:room]))

    def stream(self, name: str) -> str:
        """Return the collected text of `stdout` or `stderr`."""
        return "".join(self._streams[name])

    @property
    def result(self) -> str | None:
        """Return the text of the last expression and of everything displayed."""
        return "\n".join(self._results)[:RESULT_LIMIT] if self._results else None


def _slim(text: str) -> str:
    """Return `text`, cut if its control characters make it several times as large on the wire."""
    most = _MAX_ESCAPED * len(text)
    size = len(json.dumps(text, ensure_ascii=False))
    return text if size <= most + 2 else text[: len(text) * most // size]


def error_of(reply: Mapping[str, Any]) -> dict[str, str]:
    """Return ename, evalue and traceback of an execute reply, bounded. Missing ones are empty strings."""
    lines = reply.get("traceback")
    joined = "\n".join(line for line in lines[:8] if isinstance(line, str)) if isinstance(lines, list) else ""
    return {
        "ename": _text(reply.get("ename"), 200),
        "evalue": _text(reply.get("evalue"), MESSAGE_LIMIT),
        "traceback": joined[:TRACEBACK_LIMIT],
    }


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""
