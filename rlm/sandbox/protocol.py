"""The two protocols between driver and kernel.

`Sandbox` is what the driver needs of a kernel. `KernelHandler` is everything that a kernel may request from
the driver; the sandbox calls it and does not know its implementation.
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
"""Takes (position in the batch, answer), once for each position, in any order.

Await it: it applies backpressure when answers arrive faster than the kernel reads them."""


class KernelHandler(Protocol):
    """Serves the requests of cells.

    Arguments have been checked for type, size and bounds. Their content is not trusted. The time of a call
    counts as the cell's own, except while the handler waits within `compute_clock.waiting`.
    """

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        """Call the children of `batch` and pass each answer to `answered`.

        Raises BadCall with the remedy, before any call is paid for, if the batch cannot be executed.
        """

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """Run sub-RLMs in the same way. Each has its own kernel and its own handle over its source."""

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        """Accept the final answer, or reject it with the reason."""

    async def chunk_chars(self) -> int:
        """Return the characters of a chunk where a cell names no size. They stay the same in a run."""

    async def progress(self) -> Progress:
        """Return limits, coverage and plan of the run."""

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        """Return the best passages, best first, at most `query.k`. May be cancelled.

        Raises BadCall with the remedy if the body cannot be ranked.
        """

    async def tool(self, call: ToolCall) -> Any:
        """Run a host tool and return its JSON value, which must fit in one frame. May be cancelled.

        Raises BadCall: `tool` if the tool failed, `type` if the arguments do not match its signature.
        """


class Sandbox(Protocol):
    """One kernel with one context handle. Variables persist between cells."""

    async def open(self) -> None:
        """Start the kernel. Raises KernelStartError or SandboxRefused."""

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        """Run one cell. `round` is its number for `output_of`.

        `timeout` is in seconds of computing; time spent waiting for children does not count. `deadline` is
        in seconds from now, and nothing pauses it. A cell that
        fails, times out or kills its kernel is a result, not an exception. Raises KernelDied only if no
        kernel was running.
        """

    async def interrupt(self) -> None:
        """Stop the running cell. Variables are kept."""

    async def close(self) -> None:
        """Shut down the kernel and every process it started. Safe to call twice."""
