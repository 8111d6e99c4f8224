"""The work behind the tools: permission, runs, the journal. It is thin over `rlm.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rlm.documents import Source, TextSource
from rlm.errors import JournalError, UsageError
from rlm.escaping import terminal_line
from rlm.events import Observer
from rlm.journal import Journal
from rlm.lazy_dataclass import dataclass
from rlm.mcp.calls import Call, Calls
from rlm.mcp.permission import Permission, folder_of_root
from rlm.mcp.places import Wanted, read_citation, read_passage, stored_result
from rlm.mcp.results import MAX_TEXT, Answer, Found, Hit, Passage, RunLine, Runs, cut
from rlm.mcp.sampling import SamplingModel
from rlm.models.base import Model, ModelWindow
from rlm.results import Citation, RunResult
from rlm.runtime import RLM
from rlm.tasks.passages import find_matches, find_passages
from rlm.tasks.question import ask
from rlm.tasks.reports.research import research, resume_research
from rlm.tasks.summaries.summarize import Kind, summarize

__all__ = ["Service", "answer_text"]

_MAX_HITS = 50
_MAX_RUNS = 50
_SCANNED_RUNS = 500
_MAX_TASK = 200


@dataclass
class Service:
    """What a server offers.

    make_rlm: makes the runtime of one call, for an observer and the client's model; None if no model of the
        server is the client's.
    open_journal: opens the store.
    roots: the folders of --root.
    samples: a model is the client's; `window` is the one that the user gives it.
    trusts_roots: a client's own roots may be read, too. True on stdio, where the client started this process
        and can read the files itself.
    """

    make_rlm: Callable[[Observer, Model | None], RLM]
    open_journal: Callable[[], AbstractAsyncContextManager[Journal]]
    roots: Sequence[Path] = ()
    trusts_roots: bool = False
    samples: bool = False
    window: ModelWindow | None = None
    cached: bool = True
    calls: Calls = field(default_factory=lambda: Calls(4))
    _own_runs: set[str] = field(default_factory=set)

    async def ask(
        self,
        call: Call[Any],
        question: str,
        paths: Sequence[str],
        text: str,
        choices: Sequence[str],
        schema: Mapping[str, Any] | None,
    ) -> RunResult:
        """Answer a question. Raises RLMError."""
        sources = await self._sources(call, paths, text)
        async with _Runtime(self, call) as rlm:
            found = await ask(rlm, question, sources, choices=choices, schema=schema)
        return found.result

    async def research(
        self, call: Call[Any], task: str, paths: Sequence[str], text: str, questions: int
    ) -> RunResult:
        """Research a task; the answer is the report. Raises RLMError."""
        sources = await self._sources(call, paths, text)
        async with _Runtime(self, call) as rlm:
            return (await research(rlm, task, sources, most=questions)).result

    async def summarize(
        self, call: Call[Any], paths: Sequence[str], text: str, kind: Kind, tokens: int | None, focus: str
    ) -> RunResult:
        """Summarize the input. Raises RLMError."""
        sources = await self._sources(call, paths, text)
        async with _Runtime(self, call) as rlm:
            return (await summarize(rlm, sources, kind=kind, tokens=tokens, focus=focus)).result

    async def search(
        self, call: Call[Any], query: str, paths: Sequence[str], limit: int, *, regex: bool
    ) -> Found:
        """Search without a model. Raises RLMError."""
        if not 1 <= limit <= _MAX_HITS:
            raise UsageError(f"limit is {limit}: give 1 to {_MAX_HITS}")
        sources = await self._sources(call, paths, "")
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

    async def read(self, call: Call[Any], path: str, wanted: Wanted) -> Passage:
        """Read a place of a document. Raises RLMError."""
        return await read_passage(await self._sources(call, [path], ""), wanted)

    async def status(self, call: Call[Any], run: str | None, limit: int) -> Runs:
        """List the newest runs whose files may be read. Raises JournalError."""
        permission = await self._permission(call)
        doing = {one.run_id: one.doing for one in self.calls.running if one.run_id is not None}
        self._own_runs.update(doing)
        async with self.open_journal() as journal:
            if run is not None:
                listed = [await journal.get(await self._resolve(journal, run, permission))]
            else:
                every = await journal.runs(_SCANNED_RUNS)
                listed = [one for one in every if self._may_see(one.run_id, one.settings, permission)]
        return Runs(
            runs=[
                RunLine(
                    run_id=one.run_id,
                    task=cut(terminal_line(one.task), _MAX_TASK),
                    state=one.state,
                    stop_reason=one.stop_reason,
                    started_at=datetime.fromtimestamp(one.started_at, UTC).isoformat(timespec="seconds"),
                    rounds=one.totals.rounds,
                    sub_calls=one.totals.sub_calls,
                    cost_usd=one.totals.cost_usd,
                    doing=doing.get(one.run_id),
                )
                for one in listed[: max(1, min(limit, _MAX_RUNS))]
            ]
        )

    async def resume(self, call: Call[Any], run: str) -> RunResult:
        """Resume a run that was interrupted. Raises RLMError."""
        permission = await self._permission(call)
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run, permission)
            job = (await journal.get(name)).settings.get("job")
        async with _Runtime(self, call) as rlm:
            if job == "research":
                return (await resume_research(rlm, name)).result
            return await rlm.resume(name)

    async def answer_of(self, run: str) -> str:
        """Return the whole answer of a run, with its sources. Raises JournalError."""
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run, Permission.of(self.roots))
            result = stored_result(await journal.events(name))
        if result is None:
            raise JournalError(f"run {name} has not ended: the tool status shows what it does")
        return result.markdown()

    async def citation_of(self, run: str, number: int) -> str:
        """Return the place of a citation with its context. Raises RLMError."""
        async with self.open_journal() as journal:
            name = await self._resolve(journal, run, Permission.of(self.roots))
            return await read_citation(journal, name, number)

    def note_run(self, run_id: str) -> None:
        """Note a run of this server: its client may read it."""
        self._own_runs.add(run_id)

    async def _permission(self, call: Call[Any]) -> Permission:
        named = [folder_of_root(uri) for uri in await call.roots()] if self.trusts_roots else []
        return Permission.of([*self.roots, *(one for one in named if one is not None)])

    async def _sources(self, call: Call[Any], paths: Sequence[str], text: str) -> list[Source]:
        if not paths and not text:
            raise UsageError("no input is given: give paths of files or folders, or a text")
        sources: list[Source] = []
        if paths:
            permission = await self._permission(call)
            sources += [permission.source(path) for path in paths]
        if text:
            sources.append(TextSource("text", text))
        return sources

    async def _resolve(self, journal: Journal, run: str, permission: Permission) -> str:
        """Return the name of a run that the client may see. Another one is as if it did not exist."""
        unknown = JournalError(f"no run {run[:100]!r} may be read here: the tool status lists them")
        try:
            name = await journal.resolve(run)
            facts = (await journal.get(name)).settings
        except JournalError:
            raise unknown from None
        if not self._may_see(name, facts, permission):
            raise unknown
        return name

    def _may_see(self, run_id: str, facts: Mapping[str, Any], permission: Permission) -> bool:
        return run_id in self._own_runs or permission.allows_run(facts)


class _Runtime:
    """The runtime of one call. Its run belongs to the client."""

    def __init__(self, service: Service, call: Call[Any]) -> None:
        self._service = service
        self._call = call
        self._rlm: RLM | None = None

    async def __aenter__(self) -> RLM:
        def observe(event: Any) -> None:
            self._call.on_event(event)
            if self._call.run_id is not None:
                self._service.note_run(self._call.run_id)

        model = SamplingModel(self._call, self._service.window) if self._service.samples else None
        self._rlm = self._service.make_rlm(observe, model)
        return self._rlm

    async def __aexit__(self, *_: object) -> Literal[False]:
        if self._rlm is not None:
            await self._rlm.aclose()
        return False


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
