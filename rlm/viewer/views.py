"""Page data of the runs in one journal: what every face that shows the page serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self

from rlm.errors import RLMError
from rlm.escaping import page_json
from rlm.journal import Journal
from rlm.journal.events import JournalEvent, RunSummary
from rlm.sandbox.text.body import Body
from rlm.status import RunStatus, StatusReader
from rlm.viewer.answer_view import result_facts
from rlm.viewer.events import cut, event_facts, whole_event
from rlm.viewer.source_text import SourceTexts, place

__all__ = ["NoSuchView", "RunViews"]

_TASK_LISTED, _TASK = 300, 20_000
_DOCUMENTS = 5_000
_EVENTS_A_READ = 1_000
_PAGE_CHARS = 2_000_000
"""JSON of a page of events. It has at least one event."""
_POLL_SECONDS = 0.5
_PATH = re.compile(
    r"(?P<overview>overview)"
    r"|events/(?P<after>\d{1,9})"
    r"|event/(?P<event>\d{1,9})"
    r"|place/(?P<citation>\d{1,9})"
    r"|span/(?P<start>\d{1,15})-(?P<end>\d{1,15})",
    re.ASCII,
)


class NoSuchView(RLMError):
    """A page asked for something that a run does not have."""


class RunViews:
    """Serves the data of runs as JSON-safe values of bounded size. Send them through `page_json`.

    Runs of other processes are read while they go on.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._statuses = StatusReader(journal)
        self._sources = SourceTexts(journal)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def runs(self, limit: int | None = 200) -> list[dict[str, Any]]:
        """Return the newest runs, newest first."""
        return [
            _run_facts(run, await self._statuses.read(run), _TASK_LISTED)
            for run in await self._journal.runs(limit)
        ]

    async def run(self, run_id: str) -> dict[str, Any]:
        """Return a run as the list has it."""
        run = await self._journal.get(run_id)
        return _run_facts(run, await self._statuses.read(run), _TASK_LISTED)

    async def get(self, run_id: str, path: str) -> dict[str, Any]:
        """Return one piece of a run, given by its full name.

        `path` is `overview`, `events/AFTER` (a page of those behind AFTER), `event/SEQ`, `place/CITATION`
        (from 1) or `span/START-END` (characters of the input). Raises NoSuchView for a path or a number that
        is not there, and JournalError for an unknown run.
        """
        asked = _PATH.fullmatch(path)
        if asked is None:
            raise NoSuchView(f"{path[:100]!r} is nothing that a page asks for")
        run = await self._journal.get(run_id)
        if asked["overview"]:
            return await self._overview(run)
        if asked["after"]:
            return await self._events(run_id, int(asked["after"]))
        if asked["event"]:
            return await self._event(run_id, int(asked["event"]))
        if asked["citation"]:
            return await self._citation(run, int(asked["citation"]))
        return await self._span(run, int(asked["start"]), int(asked["end"]))

    async def follow(self, run_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the `version` and `state` of a run: at once, and whenever they change. Ends when the run has
        ended."""
        shown: tuple[int, str] | None = None
        version = 0
        while True:
            # The state first: what is written before a run ends is then in the events.
            state = (await self._journal.get(run_id)).state
            if shown is None:
                last = await self._journal.last_event(run_id)
                version = 0 if last is None else last.seq
            else:
                while found := await self._journal.events(run_id, after=version, limit=_EVENTS_A_READ):
                    version = found[-1].seq
            if (version, state) != shown:
                shown = (version, state)
                yield {"version": version, "state": state}
            if state != "running":
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def aclose(self) -> None:
        """Release the texts that were opened."""
        await self._sources.aclose()

    async def _overview(self, run: RunSummary) -> dict[str, Any]:
        body = await self._sources.body(run)
        end = await self._end(run)
        facts = _run_facts(run, await self._statuses.read(run), _TASK)
        return {
            "run": {**facts, "limits": run.settings.get("limits")},
            "result": None if end is None else result_facts(end.data),
            "text": None if body is None else _text_facts(body),
        }

    async def _end(self, run: RunSummary) -> JournalEvent | None:
        last = await self._journal.last_event(run.run_id)
        return last if last is not None and last.kind == "finished" else None

    async def _events(self, run_id: str, after: int) -> dict[str, Any]:
        """Return a page of events. `next` is what to ask for behind it, None at the end."""
        found = await self._journal.events(run_id, after=after, limit=_EVENTS_A_READ)
        shown: list[dict[str, Any]] = []
        left = _PAGE_CHARS
        for event in found:
            facts = event_facts(event)
            left -= len(page_json(facts))
            if left < 0 and shown:
                return {"events": shown, "next": shown[-1]["seq"]}
            shown.append(facts)
        return {"events": shown, "next": found[-1].seq if len(found) == _EVENTS_A_READ else None}

    async def _event(self, run_id: str, seq: int) -> dict[str, Any]:
        found = await self._journal.events(run_id, after=seq - 1, limit=1) if seq > 0 else ()
        if not found:
            raise NoSuchView(f"run {run_id} has no event {seq}")
        return whole_event(found[0])

    async def _citation(self, run: RunSummary, number: int) -> dict[str, Any]:
        last = await self._end(run)
        citations = () if last is None else last.data.get("citations", ())
        if not 1 <= number <= len(citations):
            raise NoSuchView(f"run {run.run_id} has no citation {number}")
        start, end = citations[number - 1].get("start"), citations[number - 1].get("end")
        if start is None or end is None:
            return {"missing": "This quote was not found in the input."}
        return await self._span(run, start, end)

    async def _span(self, run: RunSummary, start: int, end: int) -> dict[str, Any]:
        body = await self._sources.body(run)
        if body is None:
            return {"missing": "The text of this run is not in the journal. Only its quotes can be shown."}
        found = place(body, start, end)
        if found is None:
            raise NoSuchView(f"the input of run {run.run_id} has no characters {start} to {end}")
        return found


def _run_facts(run: RunSummary, status: RunStatus, size: int) -> dict[str, Any]:
    settings = run.settings
    return {
        "run_id": run.run_id,
        "task": cut(run.task, size),
        "state": run.state,
        "status": status.state,
        "answer": status.answer,
        "doing": status.figures,
        "stop_reason": run.stop_reason,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "rounds": status.round,
        "sub_calls": status.done,
        "cost_usd": status.cost_usd,
        "chars": settings.get("context_chars"),
        "documents": settings.get("documents"),
        **{name: cut(settings.get(name) or "", 100) for name in ("model", "sub_model", "strategy", "job")},
    }


def _text_facts(body: Body) -> dict[str, Any]:
    documents = body.documents
    return {
        "chars": body.chars,
        "documents": [
            {"name": cut(one.name, 300), "start": one.start, "end": one.end} for one in documents[:_DOCUMENTS]
        ],
        "more_documents": max(0, len(documents) - _DOCUMENTS),
    }
