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
from rlm.models.keys import call_key

if TYPE_CHECKING:
    from rlm.journal import Event

__all__ = ["ReplayModel"]


class ReplayModel:
    """Implements Model. A root's rounds are answered by their numbers, whatever is asked; every other call by
    the reply to the very same prompt. It plays root and children, and costs nothing."""

    def __init__(self, name: str, facts: Mapping[str, Any], events: Sequence[Event]) -> None:
        self._name = name
        self._facts = facts
        self._rounds: dict[int, Reply] = {}
        self._replies: dict[str, deque[Reply]] = {}
        self._most: dict[str, int] = {}
        for event in events:
            data = event.data
            if "reply" not in data:
                continue
            reply = Reply(data["reply"], data["finish_reason"], TokenUsage(**data["usage"]))
            if data["role"] == "root":
                self._rounds[data["round"]] = reply
            else:
                self._replies.setdefault(data["key"], deque()).append(reply)
                self._most[data["role"]] = data["max_output_tokens"]

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
            return self._rounds.get(request.round)
        asked = "sub_model" if request.role == "child" else "model"
        most = self._most.get(request.role, request.max_output_tokens)
        replies = self._replies.get(call_key(self._facts[asked], replace(request, max_output_tokens=most)))
        return replies.popleft() if replies else None
