"""The work behind the tools: permission, runs, the journal. It is thin over `rlm.tasks`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlm.documents import Source, TextSource
from rlm.errors import JournalError, UsageError
from rlm.escaping import terminal_line
from rlm.events import Observer
from rlm.journal import Journal
from rlm.mcp.calls import Call, Calls
from rlm.mcp.permission import Permission
from rlm.mcp.places import Wanted, read_citation, read_passage
from rlm.mcp.results import MAX_TEXT, Answer, Found, Hit, Passage, RunLine, Runs, cut
from rlm.results import Citation, RunResult
from rlm.runs.stored_run import stored_result
from rlm.runtime import RLM
from rlm.status import StatusReader
from rlm.tasks.comparison import Comparison
from rlm.tasks.passages import find_matches, find_passages
from rlm.tasks.question import ask
from rlm.tasks.reports.research import research
from rlm.tasks.resuming import resume_job
from rlm.tasks.summaries.summarize import Kind, summarize

__all__ = ["Service", "answer_text"]

_MAX_HITS = 50
_MAX_RUNS = 50
_SCANNED_RUNS = 500
_MAX_TASK = 200


@dataclass
class Service:
    """What a server offers.

    make_rlm: makes the runtime of one call, for an observer.
    open_journal: opens the store.
    roots: the folders of --root, below which files may be read.
    cached: files may be kept in the cache of documents.
    """

    make_rlm: Callable[[Observer], RLM]
    open_journal: Callable[[], AbstractAsyncContextManager[Journal]]
    roots: Sequence[Path] = ()
    cached: bool = True
    calls: Calls = field(default_factory=lambda: Calls(4))
    _own_runs: set[str] = field(default_factory=set)

    async def ask(
        self,
        call: Call,
        question: str,
        paths: Sequence[str],
        text: str,
        choices: Sequence[str],
        schema: Mapping[str, Any] | None,
    ) -> RunResult:
        """Answer a question. Raises RLMError."""
        sources = self._sources(paths, text)
        async with self._runtime(call) as rlm:
            found = await ask(rlm, question, sources, choices=choices, schema=schema)
        return found.result

    async def research(
        self, call: Call, task: str, paths: Sequence[str], text: str, questions: int
    ) -> RunResult:
        """Research a task; the answer is the report. Raises RLMError."""
        sources = self._sources(paths, text)
        async with self._runtime(call) as rlm:
            return (await research(rlm, task, sources, most=questions)).result

    async def summarize(
        self,
        call: Call,
        paths: Sequence[str],
        text: str,
        kind: Kind,
        tokens: int | None,
        focus: str,
        since: str | None,
    ) -> RunResult:
        """Summarize the input. Raises RLMError."""
        sources = self._sources(paths, text)
        if since is not None:
            async with self.open_journal() as journal:
                since = await self._resolve(journal, since)
        async with self._runtime(call) as rlm:
            found = await summarize(rlm, sources, kind=kind, tokens=tokens, focus=focus, since=since)
        return found.result

    async def search(self, call: Call, query: str, paths: Sequence[str], limit: int, *, regex: bool) -> Found:
        """Search without a model. Raises RLMError."""
        if not 1 <= limit <= _MAX_HITS:
            raise UsageError(f"limit is {limit}: give 1 to {_MAX_HITS}")
        sources = self._sources(paths, "")
        if regex:
            found = await find_matches(query, sources, limit=limit, cached=self.cached)
        else:
            found = await find_passages(
                query, sources, limit=limit, cached=self.cached, on_event=call.on_event
            )
        each = MAX_TEXT // max(1, limit)
        hits = [_hit(one, each) for one in found["hits" if regex else "packs"]]
        return Found(
            hits=hits,
            total=found.get("total", len(hits)),
            unread=[terminal_line(one) for one in found["unread"][:_MAX_HITS]],
            warnings=[terminal_line(one) for one in found["warnings"][:_MAX_HITS]],
        )

    async def peek(self, path: str, wanted: Wanted) -> Passage:
        """Read a place of a document. Raises RLMError."""
        return await read_passage(self._sources([path], ""), wanted)

    async def runs(self, run: str | None, limit: int) -> Runs:
        """List the newest runs whose files may be read. Raises JournalError."""
        doing = {call.status.run_id: call.status.line for call in self.calls.running if call.status.run_id}
        self._own_runs.update(doing)
        async with self.open_journal() as journal:
            if run is not None:
                listed = [await journal.get(await self._resolve(journal, run))]
            else:
                every = await journal.runs(_SCANNED_RUNS)
                listed = [one for one in every if self._may_see(one.run_id, one.settings)]
            reader = StatusReader(journal)
            shown = [(one, await reader.read(one)) for one in listed[: max(1, min(limit, _MAX_RUNS))]]
        return Runs(
            runs=[
                RunLine(
                    run_id=one.run_id,
                    task=cut(terminal_line(one.task), _MAX_TASK),
                    state=status.state,
                    stop_reason=one.stop_reason,
                    started_at=datetime.fromtimestamp(one.started_at, UTC).isoformat(timespec="seconds"),
                    rounds=status.round,
                    sub_calls=status.done,
                    cost_usd=status.cost_usd,
                    doing=doing.get(one.run_id),
                )
                for one, status in shown
            ]
        )

    async def resume(self, call: Call, run: str) -> RunResult:
        """Resume a run that was interrupted. Raises RLMError."""
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run)
        async with self._runtime(call) as rlm:
            found = await resume_job(rlm, name)
        if isinstance(found, Comparison):
            row = next((row for row in found.rows if row.method == "rlm"), found.rows[0])
            return replace(row.result, run_id=name)
        return found if isinstance(found, RunResult) else found.result

    async def answer_of(self, run: str) -> str:
        """Return the whole answer of a run, with its sources. Raises JournalError."""
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run)
            result = stored_result(name, await journal.events(name))
        if result is None:
            raise JournalError(f"run {name} has not ended: the tool runs shows what it does")
        return result.markdown()

    async def citation_of(self, run: str, number: int) -> str:
        """Return the place of a citation with its context. Raises RLMError."""
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run)
            return await read_citation(journal, name, number)

    def note_run(self, run_id: str) -> None:
        """Note a run of this server: its client may read it."""
        self._own_runs.add(run_id)

    @property
    def _permission(self) -> Permission:
        return Permission.of(self.roots)

    def _sources(self, paths: Sequence[str], text: str) -> list[Source]:
        if not paths and not text:
            raise UsageError("no input is given: give paths of files or folders, or a text")
        permission = self._permission
        sources: list[Source] = [permission.source(path) for path in paths]
        if text:
            sources.append(TextSource("text", text))
        return sources

    async def _resolve(self, journal: Journal, run: str) -> str:
        """Return the name of a run that the client may see. Another one is as if it did not exist."""
        unknown = JournalError(f"no run {run[:100]!r} may be read here: the tool runs lists them")
        try:
            name = await journal.resolve(run)
            facts = (await journal.get(name)).settings
        except JournalError:
            raise unknown from None
        if not self._may_see(name, facts):
            raise unknown
        return name

    def _may_see(self, run_id: str, facts: Mapping[str, Any]) -> bool:
        return run_id in self._own_runs or self._permission.allows_run(facts)

    @asynccontextmanager
    async def _runtime(self, call: Call) -> AsyncIterator[RLM]:
        """Yield the runtime of one call. Its run belongs to the client."""

        def observe(event: Any) -> None:
            call.on_event(event)
            if call.status.run_id:
                self.note_run(call.status.run_id)

        rlm = self.make_rlm(observe)
        try:
            yield rlm
        finally:
            await rlm.aclose()


def _hit(found: Mapping[str, Any], limit: int) -> Hit:
    """Return a pack or a match as a client sees it."""
    text = found["text"] if "text" in found else found["line_text"]
    place = Citation(
        "",
        "",
        found["start"],
        found["end"],
        found["document"],
        found.get("page"),
        found["line"],
        verified=True,
        heading_path=tuple(found.get("heading_path", ())),
        part=found.get("part"),
    )
    return Hit(
        document=None if found["document"] is None else terminal_line(found["document"]),
        place=terminal_line(place.place),
        page=found.get("page"),
        line=found["line"],
        start=found["start"],
        end=found["end"],
        score=found.get("score"),
        text=cut(text, limit),
    )


def answer_text(result: RunResult, shown: Answer) -> str:
    """Return an answer as Markdown, with its sources, cut where it is too long."""
    text = cut(result.markdown(), remark=f"\n\n(cut: the resource {shown.resource} is the whole answer)")
    if shown.citations:
        text += f"\nThe places with their context: {shown.citations[0].resource} and so on.\n"
    if shown.resumable:
        text += f"\nThe run can be resumed: resume(run={shown.run_id!r}). Nothing is paid twice.\n"
    return text
