"""The model `replay:RUN`: it repeats the replies of a run in the journal."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm.errors import ModelRejected
from rlm.models.base import ModelWindow, Reply, Request, TokenUsage, call_key

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["ReplayModel"]


class ReplayModel:
    """Implements Model. It plays root and children, and costs nothing.

    A round of the run's root gets the recorded reply of the same number, whatever its prompt. A round of a
    sub-RLM must also have the recorded first prompt. Any other call must have exactly the recorded prompt.
    """

    def __init__(self, name: str, facts: Mapping[str, Any], events: Sequence[JournalEvent]) -> None:
        self._name = name
        self._facts = facts
        self._replies: dict[str, deque[Reply]] = {}
        self._max_tokens: dict[str, int] = {}
        roots: dict[str, dict[int, tuple[str, Reply]]] = {}
        for event in events:
            data = event.data
            if "reply" not in data:
                continue
            reply = Reply(data["reply"], data["finish_reason"], TokenUsage(**data["usage"]))
            if data["role"] == "root":
                prompt = data["messages"][-1]["content"]
                roots.setdefault(data.get("within", ""), {})[data["round"]] = (prompt, reply)
            else:
                self._replies.setdefault(data["key"], deque()).append(reply)
                self._max_tokens[data["role"]] = data["max_output_tokens"]
        self._rounds = {number: reply for number, (_, reply) in roots.pop("", {}).items()}
        self._sub_rounds: dict[tuple[str, int], deque[Reply]] = {}
        for rounds in roots.values():
            first, _ = rounds[min(rounds)]
            for number, (_, reply) in rounds.items():
                self._sub_rounds.setdefault((first, number), deque()).append(reply)
        self._sub_tasks = {event.data["prompt"] for event in events if event.kind == "sub_rlm"}

    @classmethod
    def of(cls, run: str, store: str | Path) -> ReplayModel:
        """Return the model for the run with this name or a unique start of it. Raises JournalError."""
        # The caller may already run in an event loop, so this one needs its own thread.
        with ThreadPoolExecutor(1, "rlm-replay") as thread:
            return thread.submit(lambda: asyncio.run(cls._read(run, store))).result()

    @classmethod
    async def _read(cls, run: str, store: str | Path) -> ReplayModel:
        from rlm.journal import Journal

        async with Journal.open(store) as journal:
            name = await journal.resolve(run)
            summary = await journal.get(name)
            return cls(f"replay:{name}", summary.settings, await journal.events(name))

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return ModelWindow(**self._facts["windows"]["model"])

    async def generate(self, request: Request) -> Reply:
        reply = self._find_reply(request)
        if reply is None:
            raise ModelRejected(
                f"{self._name} has no reply to this {request.role} call: use the same question, input and "
                "options as the recorded run"
            )
        return reply

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _find_reply(self, request: Request) -> Reply | None:
        if request.role == "root":
            replies = self._sub_rounds.get((request.messages[1].content, request.round))
            if replies or request.task in self._sub_tasks:
                return replies.popleft() if replies else None
            return self._rounds.get(request.round)
        model = "sub_model" if request.role == "child" else "model"
        limit = self._max_tokens.get(request.role, request.max_output_tokens)
        replies = self._replies.get(call_key(self._facts[model], replace(request, max_output_tokens=limit)))
        return replies.popleft() if replies else None
