"""A model that gives the replies of a run in the journal: `replay:RUN`."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm.errors import ModelRejected
from rlm.models.base import ModelWindow, Reply, Request, TokenUsage
from rlm.models.cache_key import call_key

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["ReplayModel"]


class ReplayModel:
    """Implements Model. The rounds of the run's root are answered by their numbers, whatever is asked; those
    of a sub-RLM by how it begins, too; every other call by the reply to the very same prompt. It plays root
    and children, and costs nothing."""

    def __init__(self, name: str, facts: Mapping[str, Any], events: Sequence[JournalEvent]) -> None:
        self._name = name
        self._facts = facts
        self._replies: dict[str, deque[Reply]] = {}
        self._most: dict[str, int] = {}
        roots: dict[str, dict[int, tuple[str, Reply]]] = {}
        for event in events:
            data = event.data
            if "reply" not in data:
                continue
            reply = Reply(data["reply"], data["finish_reason"], TokenUsage(**data["usage"]))
            if data["role"] == "root":
                roots.setdefault(data.get("within", ""), {})[data["round"]] = (data["prompt"], reply)
            else:
                self._replies.setdefault(data["key"], deque()).append(reply)
                self._most[data["role"]] = data["max_output_tokens"]
        self._rounds = {number: reply for number, (_, reply) in roots.pop("", {}).items()}
        self._below: dict[tuple[str, int], deque[Reply]] = {}
        for rounds in roots.values():
            first, _ = rounds[min(rounds)]
            for number, (_, reply) in rounds.items():
                self._below.setdefault((first, number), deque()).append(reply)
        self._tasks_below = {event.data["prompt"] for event in events if event.kind == "sub_rlm"}

    @classmethod
    def of(cls, run: str, store: str | Path) -> ReplayModel:
        """The model of the run that is named so, or whose name starts so. Raises JournalError."""
        read: list[ReplayModel | BaseException] = []

        def work() -> None:
            # A boundary: whatever ends the thread is raised in the caller's.
            try:
                read.append(asyncio.run(cls._read(run, store)))
            except BaseException as error:
                read.append(error)

        # The caller may stand in an event loop of its own.
        thread = threading.Thread(target=work, name="rlm-replay")
        thread.start()
        thread.join()
        (outcome,) = read
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

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
        reply = self._next(request)
        if reply is None:
            raise ModelRejected(
                f"{self._name} holds no reply to this {request.role} call: give the same question, input and "
                "options as that run had"
            )
        return reply

    async def aclose(self) -> None:
        """Nothing is held."""

    def _next(self, request: Request) -> Reply | None:
        if request.role == "root":
            below = self._below.get((request.messages[1].content, request.round))
            if below or request.task in self._tasks_below:
                return below.popleft() if below else None
            return self._rounds.get(request.round)
        asked = "sub_model" if request.role == "child" else "model"
        most = self._most.get(request.role, request.max_output_tokens)
        replies = self._replies.get(call_key(self._facts[asked], replace(request, max_output_tokens=most)))
        return replies.popleft() if replies else None
