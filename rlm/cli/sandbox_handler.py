"""A kernel's handler without a run: it has no children, and accepts any final answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import (
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    SubRLMBatch,
    ToolCall,
)

__all__ = ["OfflineHandler"]


class OfflineHandler:
    """Implements KernelHandler. `final` is the answer of the cell's finalize(), None without one."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self.final: Finalization | None = None

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        raise BadCall("value", "there is no model here: children work in a run only (rlm ask)")

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        raise BadCall(
            "value", "there is no ranked index here: rank() works in a run only (rlm ask); use search()"
        )

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        raise BadCall("value", "there is no model here: a sub-RLM works in a run only (rlm ask)")

    async def tool(self, call: ToolCall) -> Any:
        raise BadCall("tool", "there are no host tools here: tools work in a run only (rlm ask)")

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        self.final = final
        return FinalizeVerdict(accepted=True)

    async def chunk_chars(self) -> int:
        return 20_000

    async def progress(self) -> Progress:
        return Progress(
            has_final_answer=self.final is not None,
            limits={},
            coverage={"input_chars": self._chars},
            plan={"recommended_chunk": 0, "calls": 0, "cost_usd": None},
        )
