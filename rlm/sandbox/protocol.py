"""The two protocols on which the border between driver and kernel rests.

`Sandbox` is what the driver needs of a kernel; `KernelHandler` is everything a kernel may ask of the
driver. The sandbox calls the handler and never knows who stands behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from rlm.sandbox.types import (
    CellResult,
    ChildAnswer,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    SubRLMBatch,
    ToolCall,
)

__all__ = ["AnswerSink", "KernelHandler", "Sandbox"]

AnswerSink = Callable[[int, ChildAnswer], Awaitable[None]]
"""Takes (position in the batch, answer), once for every position, in any order. To be awaited: it holds back
whoever answers faster than the kernel reads."""


class KernelHandler(Protocol):
    """Whatever a cell asks for. Arguments have been checked for type, size and bounds; none is trusted."""

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        """Ask the children of `batch` and hand each answer on. Raises BadCall, with the remedy, before any
        is paid for, when the batch can't be carried out."""

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """The same for whole RLMs, each with a kernel and a handle of its own over its source."""

    async def finalize(self, final: Finalization) -> FinalizeVerdict: ...

    async def progress(self) -> Progress: ...

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        """The best passages, best first, at most `query.k`. Raises BadCall, with the remedy, when there is no
        ranking to be had. Being cancelled ends it."""

    async def tool(self, call: ToolCall) -> Any:
        """What a function of the host gives: a JSON value that fits a frame. Raises BadCall: `tool` when it
        failed, `type` for arguments that do not match its signature. Being cancelled ends it."""


class Sandbox(Protocol):
    """One kernel with one context handle. Variables live from cell to cell."""

    async def open(self) -> None:
        """Start the kernel. Raises KernelStartError or SandboxRefused."""

    async def execute(self, code: str, *, round: int, timeout: float) -> CellResult:
        """Run one cell; `round` names it for `output_of`, `timeout` is seconds of its own computing: waiting
        for children does not count. A cell that fails, times out or kills its kernel is a result, not an
        exception; KernelDied is raised only when there was no kernel to run it."""

    async def interrupt(self) -> None:
        """Stop the running cell; its variables stay."""

    async def close(self) -> None:
        """End the kernel and every process it started. Safe to call twice."""
