"""Summarize a chat, a card or a log under five headings, and other documents section by section."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rlm.documents import Context, Source, sources_of
from rlm.errors import UsageError
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.sandbox.in_kernel.body.body import Body
from rlm.tasks.jobs.job import Job, PreviousJob, open_job
from rlm.tasks.summaries.boards import with_cards
from rlm.tasks.summaries.document_summary import summarize_documents
from rlm.tasks.summaries.entries import Entry, entries_of, is_history
from rlm.tasks.summaries.fact_check import Fact
from rlm.tasks.summaries.github import with_chats
from rlm.tasks.summaries.history_summary import digest, summarize_history

__all__ = ["Kind", "Summary", "summarize"]

Kind = Literal["auto", "card", "chat", "document"]

_MIN_TOKENS = 100
_MAX_HISTORY_CHARS = 50_000_000


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary as Markdown (`text`), with its sources and checks.

    `result` is the job's result: its answer is `text`, and its citations are the sources of the lines.
    `[m12]` is the 12th message of the input, `[¹]` a passage of a document. `facts` are what the summary of a
    history was checked for. `messages` counts the entries of the history. The first `known` of them are
    unchanged since the run that `since` named. `supported` of the `lines` of a history's summary share their
    facts with the messages that they cite; the others say so in `text`."""

    kind: Literal["history", "document"]
    text: str
    result: RunResult
    facts: tuple[Fact, ...] = ()
    messages: int = 0
    known: int = 0
    lines: int = 0
    supported: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the result's JSON with the fields of the summary. `lines` and `supported` are null for
        documents."""
        return {
            "kind": self.kind,
            "summary": self.text,
            "messages": self.messages,
            "known": self.known,
            "lines": self.lines if self.kind == "history" else None,
            "supported": self.supported if self.kind == "history" else None,
            "facts": [asdict(fact) for fact in self.facts],
            **self.result.to_json(),
        }


async def summarize(
    rlm: RLM,
    context: Context,
    *,
    kind: Kind = "auto",
    tokens: int = 8_000,
    since: str | None = None,
) -> Summary:
    """Summarize `context` in at most `tokens` tokens, by an estimate that is never too low.

    `kind`: `card` and `chat` give the five headings of a history, `document` gives sections, and `auto`
    decides by the input. `since` is the run of an earlier summary of the same input, which may have grown.
    Calls that it has paid for are not made again. Raises UsageError and JournalError before anything is
    spent."""
    if tokens < _MIN_TOKENS:
        raise UsageError(f"a summary cannot have only {tokens:,} tokens: give {_MIN_TOKENS} or more")
    with_boards, cards = with_cards(sources_of(context))
    sources = with_chats(with_boards)
    entries: tuple[Entry, ...] = ()

    def describe(body: Body) -> Mapping[str, Any]:
        nonlocal entries
        if kind == "document" or (kind == "auto" and not is_history(body)):
            if not re.search(r"\w", body.text(0, 1_000_000)):
                raise UsageError("there is nothing to summarize: the input has no text")
            return {"summary_kind": "document", "summary_tokens": tokens}
        if body.chars > _MAX_HISTORY_CHARS:
            raise UsageError(
                f"the history has {body.chars:,} characters ({_MAX_HISTORY_CHARS:,} at most): summarize "
                "it in parts, or use --kind document"
            )
        entries = entries_of(body)
        if not entries:
            raise UsageError("there is nothing to summarize: the input has no text")
        return {
            "summary_kind": "history",
            "summary_tokens": tokens,
            "entries": len(entries),
            "entries_sha256": digest(entries),
        }

    async with open_job(rlm, "summarize", _task(sources), sources, facts=describe, since=since) as (
        job,
        past,
    ):
        if not entries:
            summary = await summarize_documents(job, tokens)
            result = await job.finish(summary.text or None, summary.citations)
            return Summary("document", summary.text, result)
        known = _count_known(job, past, entries)
        history = await summarize_history(job, entries, tokens, cards)
        result = await job.finish(history.text, history.citations)
        return Summary(
            "history",
            history.text,
            result,
            history.facts,
            len(entries),
            known,
            history.lines,
            history.supported,
        )


def _count_known(job: Job, past: PreviousJob | None, entries: Sequence[Entry]) -> int:
    """Return how many of the entries the earlier run had. Warns if it had another history."""
    if past is None:
        return 0
    count = past.facts.get("entries")
    if not isinstance(count, int):
        job.warn(f"run {past.run_id} summarized documents, not a history: all messages are new")
        return 0
    if count <= len(entries) and digest(entries[:count]) == past.facts.get("entries_sha256"):
        return count
    job.warn(
        f"the first {count:,} messages have changed since run {past.run_id}: changed parts are read again"
    )
    return 0


def _task(sources: Sequence[Source]) -> str:
    names = [source.name for source in sources]
    return f"Summarize {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
