"""Serves a kernel's calls of the host's functions and journals their results.

A result is journalled by round, function, arguments and order. A cell that is re-run, after a crash or in a
replay, gets the same results: the effects of a function happen once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.run_context import RunContext
from rlm.children.tools import Toolbox
from rlm.errors import BudgetExhausted
from rlm.events import ToolEnded
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ToolCall
from rlm.telemetry import span

__all__ = ["ToolCalls"]

MAX_CALLS = 1_000
"""Calls of all functions in one round."""
MAX_BYTES = 64 * 2**20
"""Bytes of all results in one run: each is journalled."""
_ERROR_CHARS = 2_000
_ARGUMENTS_SHOWN = 2_000


class ToolCalls:
    """Serves the tool calls of one run."""

    def __init__(self, toolbox: Toolbox, run_context: RunContext) -> None:
        self._toolbox = toolbox
        self._budget = run_context.budget
        self._log = run_context.log
        self._playback = run_context.playback
        self._observe = run_context.observe
        self._bytes = 0

    async def serve(self, call: ToolCall) -> Any:
        """Return the result of the function, with secrets redacted. Raises BadCall."""
        arguments = json.dumps([call.args, call.kwargs], sort_keys=True)
        digest = hashlib.sha256(arguments.encode()).hexdigest()[:16]
        name = f"tool {call.name} {digest}"
        order = self._playback.order(name)
        recorded = self._playback.helper(name, order)
        if recorded is None:
            self._playback.miss()
            began = time.monotonic()
            with span("tool", name=call.name, arguments=arguments) as note:
                recorded = self._log.redact(await self._call(call))
                note(recorded.get("value"), recorded.get("type", ""))
            self._observe(ToolEnded(call.name, "value" in recorded, round(time.monotonic() - began, 3)))
            facts = {"round": self._playback.round, "helper": name, "order": order, "result": recorded}
            await self._log.append(
                "helper", {**facts, "tool": call.name, "arguments": arguments[:_ARGUMENTS_SHOWN]}
            )
        if "value" not in recorded:
            raise BadCall(recorded["type"], recorded["message"])
        self._bytes += len(json.dumps(recorded["value"]))
        return recorded["value"]

    async def _call(self, call: ToolCall) -> Mapping[str, Any]:
        """Return the result or the error of a call, as the journal keeps it."""
        if self._playback.order("tools") >= MAX_CALLS:
            return _failure(
                "tool", f"{MAX_CALLS:,} calls of tools in one block are the limit; continue in the next block"
            )
        if self._bytes > MAX_BYTES:
            return _failure(
                "tool", f"tools have returned {MAX_BYTES >> 20} MB in this run, which is the limit"
            )
        try:
            async with seconds_left(self._budget):
                return {"value": await self._toolbox.run(call)}
        except BudgetExhausted as error:
            return _failure("tool", str(error))
        except BadCall as error:
            # Redact before cutting: half a key is a secret, too.
            message = str(self._log.redact(str(error)))
            cut = message if len(message) <= _ERROR_CHARS else f"{message[:_ERROR_CHARS]}…"
            return _failure(error.type, cut)


def _failure(type_: str, message: str) -> Mapping[str, Any]:
    return {"type": type_, "message": message}
