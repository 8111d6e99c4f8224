"""Works before and after each cell: bounds its output and reports what changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from . import wire
from .channel import CallError, Channel
from .handle import Handle
from .output import STDERR_LIMIT, BoundedStream, sendable
from .variables import VariableWatch

__all__ = ["Cells"]

MAX_OUTPUTS = 64
"""Rounds whose output `output_of` remembers. Older ones are dropped."""


class Cells:
    """Call `before` and `after` around each cell.

    `ours` are the helpers by their names. A name that was bound before is no user variable. In a shared
    kernel it asks the driver before each cell which part of the body the question covers.
    """

    def __init__(
        self,
        channel: Channel,
        handle: Handle,
        namespace: dict[str, Any],
        ours: Mapping[str, Any],
        *,
        shared: bool,
    ) -> None:
        self.outputs: dict[int, str] = {}
        self._channel = channel
        self._handle = handle
        self._namespace = namespace
        self._code = ""
        self._round = 0
        self._ours = ours
        self.watch = VariableWatch(namespace, ours)
        self._stdout = BoundedStream()
        self._stderr = BoundedStream(STDERR_LIMIT)
        sys.stdout = self._stdout
        sys.stderr = self._stderr
        self._shared = shared
        self._question = 0

    def before(self, code: str, cell_id: object) -> None:
        """Restore the helpers and start to collect output. `cell_id` is the number of the round."""
        self._code = code
        number = str(cell_id or "")
        self._round = int(number) if number.isdecimal() else self._round + 1
        # First of all: whatever interrupts this, the output of an earlier cell is not sent again.
        self._stdout.begin()
        self._stderr.begin()
        if self._shared:
            self._follow_question()
        for name, value in self._ours.items():
            # A cell may have deleted it (`%reset` deletes all).
            self._namespace.setdefault(name, value)
        self._namespace["helpers"] = self._ours["helpers"]

    def _follow_question(self) -> None:
        """Switch to the question that this cell belongs to."""
        try:
            view, _ = self._channel.call("view", {})
        except CallError:
            os._exit(0)
        if view["question"] != self._question:
            self._question = view["question"]
            self.outputs.clear()
            self._handle._show(view["chars"])

    def after(self) -> dict[str, str]:
        """Keep the output of the cell. Return stdout, stderr and the report, which is JSON."""
        stdout = self.outputs[self._round] = self._stdout.end()
        stderr = self._stderr.end()
        while len(self.outputs) > MAX_OUTPUTS:
            del self.outputs[next(iter(self.outputs))]
        self._restore_streams()
        read, scanned = self._handle.drain_access()
        changed, changed_count = self.watch.changes(self._code)
        report = wire.encode(
            {
                "read": read,
                "scanned": scanned,
                "changed": [[sendable(word) for word in row] for row in changed],
                "changed_count": changed_count,
                "rebound": self.watch.rebound(),
                "stdout_chars": self._stdout.written,
            },
            wire.MAX_CALL,
        )
        return {"stdout": stdout, "stderr": stderr, "report": report[wire.HEADER_SIZE :].decode()}

    def _restore_streams(self) -> None:
        """Put our streams back where a cell left something in their place that cannot be flushed: ipykernel
        flushes them before it replies."""
        for name, ours in (("stdout", self._stdout), ("stderr", self._stderr)):
            try:
                getattr(sys, name).flush()
            except Exception:
                # What a cell left there may raise anything.
                setattr(sys, name, ours)
