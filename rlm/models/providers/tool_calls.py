"""Collects the tool calls of a reply. No tool is ever offered, but some models call one all the same."""

from __future__ import annotations

import json
from collections.abc import Hashable

from rlm.models.base import ToolCall
from rlm.models.http.reply_limits import BoundedText

__all__ = ["ToolCallCollector"]

_MAX_CALLS = 32
_MAX_NAME = 200


class ToolCallCollector:
    """Puts the pieces of a stream together. Keeps no more text than `max_output_tokens` can hold."""

    def __init__(self, max_output_tokens: int) -> None:
        self._limit = max_output_tokens
        self._calls: list[_Call] = []

    def add(
        self, key: Hashable, *, id_: object = None, name: object = None, arguments: object = None
    ) -> None:
        """Take in one piece. `key` is the call's place in the reply, or None where the server names none.
        Arguments that are no text (some servers send the object) are kept as JSON."""
        name = name if isinstance(name, str) else ""
        id_ = id_ if isinstance(id_, str) else ""
        call = self._find(key, id_, name)
        if call is None:
            return
        call.name = (call.name or name)[:_MAX_NAME]
        call.id_ = call.id_ or id_
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments) if arguments else ""
        if isinstance(arguments, str):
            call.arguments.add(arguments)

    @property
    def is_full(self) -> bool:
        """Return whether a piece was cut or dropped."""
        return any(call.arguments.is_full for call in self._calls)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(call.name, str(call.arguments)) for call in self._calls)

    def _find(self, key: Hashable, id_: str, name: str) -> _Call | None:
        if key is None:
            begun = self._calls[-1] if self._calls else None
        else:
            begun = next((call for call in reversed(self._calls) if call.key == key), None)
        if begun is not None and not _is_another(begun, key, id_, name):
            return begun
        if len(self._calls) == _MAX_CALLS:
            return None
        self._calls.append(_Call(key, self._limit))
        return self._calls[-1]


def _is_another(begun: _Call, key: Hashable, id_: str, name: str) -> bool:
    """Return whether a piece begins another call. Some servers give all calls of a reply the same place."""
    if id_ and begun.id_:
        return id_ != begun.id_
    return key is None and bool(name) and bool(begun.name)


class _Call:
    def __init__(self, key: Hashable, limit: int) -> None:
        self.key = key
        self.id_ = ""
        self.name = ""
        self.arguments = BoundedText(limit)
