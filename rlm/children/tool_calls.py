"""Serves a kernel's calls of the host's functions, and journals each result at once.

The effects of a function happen once: a cell that is run again gets the journalled results.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.run_context import RunContext
from rlm.children.tools import Toolbox
from rlm.errors import BudgetExhausted
from rlm.events import ToolEnded
from rlm.playback.border import call_digest
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
        self._observe = run_context.observe
        self._bytes = 0
        self._round, self._calls = 0, 0

    async def serve(self, call: ToolCall) -> Any:
        """Return the result of the function, with secrets redacted. Raises BadCall."""
        arguments = json.dumps([call.args, call.kwargs], sort_keys=True)
        began = time.monotonic()
        with span("tool", name=call.name, arguments=arguments) as note:
            got = self._log.redact(await self._call(call))
            type_, message = got.get("refused", ("", ""))
            note(got.get("value"), type_)
        self._observe(ToolEnded(call.name, not type_, round(time.monotonic() - began, 3)))
        facts = {
            "round": self._budget.rounds,
            "call": call_digest("tool", call.name, call.args, call.kwargs),
            "tool": call.name,
            "arguments": arguments[:_ARGUMENTS_SHOWN],
        }
        await self._log.append("tool", {**facts, **got})
        if type_:
            raise BadCall(type_, message)
        self._bytes += len(json.dumps(got["value"]))
        return got["value"]

    async def _call(self, call: ToolCall) -> Mapping[str, Any]:
        """Return the result or the error of a call, as the journal keeps it."""
        if self._budget.rounds != self._round:
            self._round, self._calls = self._budget.rounds, 0
        self._calls += 1
        if self._calls > MAX_CALLS:
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
    return {"refused": [type_, message]}
