"""Page data of the runs in one journal: what every face that shows the page serves."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rlm.errors import JournalError, RLMError
from rlm.journal import Journal
from rlm.journal.events import RunSummary
from rlm.viewer.overview import overview, summary_facts
from rlm.viewer.run_digest import RunDigest
from rlm.viewer.run_parts import children, event_detail, steps
from rlm.viewer.source_text import SourceTexts, place

__all__ = ["NoSuchView", "RunViews"]

_KEPT = 6
_LISTED = 1_000
_EVENTS_A_READ = 1_000
_POLL_SECONDS = 0.5
_PATH = re.compile(
    r"(?P<overview>overview)"
    r"|(?P<part>steps|children)/(?P<node>\d{1,9})/(?P<chunk>\d{1,9})"
    r"|event/(?P<event>\d{1,9})"
    r"|place/(?P<citation>\d{1,9})"
    r"|span/(?P<start>\d{1,15})-(?P<end>\d{1,15})",
    re.ASCII,
)


class NoSuchView(RLMError):
    """A page asked for something that a run does not have."""


class _Kept:
    """A digest that is brought up to date by one reader at a time."""

    def __init__(self) -> None:
        self.digest = RunDigest()
        self.order = asyncio.Lock()


class RunViews:
    """Serves the data of runs as JSON-safe values of bounded size. Send them through `page_json`.

    Runs of other processes are read while they go on. It keeps what it has read of the last six runs.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sources = SourceTexts(journal)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._ended: OrderedDict[tuple[str, float | None], dict[str, Any]] = OrderedDict()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def runs(self, limit: int | None = 200) -> list[dict[str, Any]]:
        """Return the newest runs, newest first."""
        return [await self._listed(run) for run in await self._journal.runs(limit)]

    async def _listed(self, run: RunSummary) -> dict[str, Any]:
        key = (run.run_id, run.finished_at)
        if key not in self._ended:
            last = None
            if run.state == "finished":
                with suppress(JournalError):  # damaged: the list shows the others
                    last = await self._journal.last_event(run.run_id)
            facts = summary_facts(run, None if last is None or last.kind != "finished" else last.data)
            if run.state != "finished":
                return facts
            while len(self._ended) >= _LISTED:
                self._ended.popitem(last=False)
            self._ended[key] = facts
        return self._ended[key]

    async def get(self, run_id: str, path: str) -> dict[str, Any]:
        """Return one piece of a run, given by its full name.

        `path` is `overview`, `steps/NODE/CHUNK`, `children/NODE/CHUNK`, `event/SEQ`, `place/CITATION` (from
        1) or `span/START-END` (characters of the input). Raises NoSuchView for a path or a number that is
        not there, and JournalError for an unknown run.
        """
        asked = _PATH.fullmatch(path)
        if asked is None:
            raise NoSuchView(f"{path[:100]!r} is nothing that a page asks for")
        run = await self._journal.get(run_id)
        digest = await self.digest(run_id)
        if asked["overview"]:
            return overview(run, digest, await self._sources.body(run))
        if asked["part"]:
            number = int(asked["node"])
            if number >= len(digest.nodes):
                raise NoSuchView(f"run {run_id} has no node {number}")
            shown = steps if asked["part"] == "steps" else children
            return shown(digest.nodes[number], int(asked["chunk"]))
        if asked["event"]:
            return await self._event(run_id, digest, int(asked["event"]))
        if asked["citation"]:
            return await self._citation(run, digest, int(asked["citation"]))
        return await self._span(run, int(asked["start"]), int(asked["end"]))

    async def digest(self, run_id: str) -> RunDigest:
        """Return what the journal says of a run by now."""
        kept = self._kept.setdefault(run_id, _Kept())
        self._kept.move_to_end(run_id)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        async with kept.order:
            while True:
                events = await self._journal.events(run_id, after=kept.digest.version, limit=_EVENTS_A_READ)
                for event in events:
                    kept.digest.add(event)
                if len(events) < _EVENTS_A_READ:
                    return kept.digest
                await asyncio.sleep(0)

    async def follow(self, run_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the `version` and `state` of a run: at once, and whenever they change. Ends when the run has
        ended."""
        shown: tuple[int, str] | None = None
        while True:
            # The state first: what is written before a run ends is then in the digest.
            state = (await self._journal.get(run_id)).state
            now = ((await self.digest(run_id)).version, state)
            if now != shown:
                shown = now
                yield {"version": now[0], "state": state}
            if state != "running":
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def aclose(self) -> None:
        """Release the texts that were opened."""
        await self._sources.aclose()

    async def _event(self, run_id: str, digest: RunDigest, seq: int) -> dict[str, Any]:
        events = await self._journal.events(run_id, after=seq - 1, limit=1) if seq > 0 else ()
        if not events:
            raise NoSuchView(f"run {run_id} has no event {seq}")
        return event_detail(digest, events[0])

    async def _citation(self, run: RunSummary, digest: RunDigest, number: int) -> dict[str, Any]:
        citations = (digest.result or {}).get("citations", ())
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
