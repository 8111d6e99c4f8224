"""Summarize a chat, a card, a log or documents. Every sentence names the entries that it rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from rlm.answers.citations import cite_spans
from rlm.documents import Context, Source, sources_of
from rlm.documents.cards import Card
from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.tokens.counters import get_counter
from rlm.results import Citation, RunResult
from rlm.runs.opening import require_model
from rlm.runtime import RLM
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.tasks.jobs.job import Job, PreviousJob, open_job
from rlm.tasks.summaries.board_summary import board_counts
from rlm.tasks.summaries.checking import check_summary
from rlm.tasks.summaries.entries import Entry, entries_of, is_history, paragraphs_of
from rlm.tasks.summaries.extracts import extract_summary
from rlm.tasks.summaries.forms import certain_form, read_form
from rlm.tasks.summaries.writing import SummaryRequest, Written, write_summary

__all__ = ["Kind", "Summary", "summarize"]

Kind = Literal["auto", "card", "chat", "document", "story"]

_MIN_TOKENS = 100
_MAX_TOKENS = 8_000
_TOKENS_A_ROOT = 10
"""A summary whose length nobody gave has so many tokens times the root of the tokens of its input: 1,000 for
10,000, 3,000 for 100,000."""
_COUNTER = get_counter()
_MAX_CHARS = 50_000_000


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary as Markdown (`text`), with its sources and checks.

    `result` is the job's result: its answer is `text`, and its citations are the entries that the sentences
    cite. `[m12]` is the 12th message of the input, `[p3]` the third paragraph of documents. `form` names the
    headings: those of work or a board, your own (`own`), `subjects` if there are none, or `extracts` for
    sentences of the messages, which no model wrote. `messages` counts the entries. The first `known` of them
    are unchanged since the run that `since` named. `supported` of the `lines` (sentences) of the summary are
    supported by what they cite; the others say so in `text`. `result.support` says so of each."""

    kind: Literal["history", "document"]
    text: str
    result: RunResult
    messages: int = 0
    known: int = 0
    lines: int = 0
    supported: int = 0
    form: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result's JSON with the fields of the summary."""
        return {
            "kind": self.kind,
            "summary": self.text,
            "messages": self.messages,
            "known": self.known,
            "lines": self.lines,
            "supported": self.supported,
            "form": self.form,
            **self.result.to_json(),
        }


async def summarize(
    rlm: RLM,
    context: Context,
    *,
    kind: Kind = "auto",
    tokens: int | None = None,
    since: str | None = None,
    focus: str = "",
    form: str | Path | None = None,
) -> Summary:
    """Summarize `context` in about `tokens` tokens, marks not counted; without them in a length that suits
    the input, at most 8,000.

    `kind`: `card`, `chat` and `story` are read message by message, `document` paragraph by paragraph, and
    `auto` decides by the input. `focus` says what the summary is for. `form` is the name of a form (`work`,
    `meeting`, `talk`, `story`, `log`, `board`) or a file of headings; by default cards and commits have those
    of work, and other texts go by subject. A model compares each sentence with the entries that it cites,
    unless the setting `check_support` is False.

    `since` is the run of an earlier summary of the same input, which may have grown: new entries are read
    beside the earlier summary. Calls that it has paid for are not made again. Raises UsageError and
    JournalError before anything is spent."""
    if tokens is not None and tokens < _MIN_TOKENS:
        raise UsageError(f"a summary cannot have only {tokens:,} tokens: give {_MIN_TOKENS} or more")
    wanted = None if form is None else read_form(form)
    is_own, focus = wanted is not None, focus.strip()
    model = rlm.summary_model
    sources = sources_of(context)
    cards: dict[str, Card] = {}
    entries: tuple[Entry, ...] = ()
    is_document = False
    limit = tokens or 0

    def describe(body: Body) -> Mapping[str, Any]:
        nonlocal entries, is_document, limit, wanted
        is_document = kind == "document" or (kind == "auto" and not is_history(body))
        if body.chars > _MAX_CHARS:
            raise UsageError(
                f"the input has {body.chars:,} characters ({_MAX_CHARS:,} at most): summarize it in parts"
            )
        entries = paragraphs_of(body) if is_document else entries_of(body)
        boards = {document.name for document in body.documents if document.kind == "board"}
        for entry in entries:
            if entry.document in boards and entry.message.author:
                cards[entry.message.content] = Card.read(entry.message.content, entry.message.author)
        if not any(re.search(r"\w", entry.message.content) for entry in entries):
            raise UsageError("there is nothing to summarize: the input has no text")
        if not is_document and wanted is None:
            wanted = certain_form(entries, cards, is_log=any(one.kind == "commits" for one in body.documents))
        is_work = wanted is not None and not is_own and not any(entry.card for entry in entries)
        if is_document or (is_work and len(cards) != 1) or not _is_talk(kind, body, entries):
            require_model(model, "a summary of anything but a chat")
        limit = tokens or _usual_tokens(entries)
        return {
            "summary_kind": "document" if is_document else "history",
            "summary_tokens": limit,
            "entries": len(entries),
            "entries_sha256": _digest(entries),
        }

    async with open_job(rlm, "summarize", _task(sources), sources, facts=describe, since=since) as (
        job,
        past,
    ):
        known = _count_known(job, past, entries)
        request = SummaryRequest(
            limit if tokens or past is None else _tokens_of(past, limit),
            wanted,
            focus,
            is_card=wanted is not None and not is_own,
            is_document=is_document,
            computed=tuple(board_counts(entries, cards)),
        )
        written, request = await _write(job, past, entries, known, request)
        if written.text:
            checked = await check_summary(job, model, written.text, entries, cards)
            form_name = wanted.name if wanted else "subjects"
            _note_coverage(job, entries, written)
        else:
            job.coverage.note("read", [Span(0, job.body.chars)])
            extract = lambda: extract_summary(entries, tokens or _MAX_TOKENS)  # noqa: E731
            checked = await run_in_daemon_thread(extract, name="rlm-extract")
            form_name = "extracts"
        result = await job.finish(
            checked.text,
            _cite(job.body, checked.names, entries),
            support=checked.support,
            details=_details(written, request),
        )
    claims = checked.support.claims
    return Summary(
        "document" if is_document else "history",
        checked.text,
        result,
        len(entries),
        known,
        len(claims),
        sum(claim.status == "supported" for claim in claims),
        form_name,
    )


async def _write(
    job: Job, past: PreviousJob | None, entries: Sequence[Entry], known: int, request: SummaryRequest
) -> tuple[Written, SummaryRequest]:
    """Return what the model writes, and the request. What an earlier run wrote is reused where it can be."""
    model = job.config.summary_model
    if is_extractive(model):
        return Written(), request
    ended = (past.ended or {}) if past else {}
    draft = ended.get("draft")
    if known and isinstance(draft, Mapping) and isinstance(draft.get("text"), str):
        is_whole = ended.get("stop_reason") == "finalized"
        if draft.get("request") != _facts(request):
            assert past is not None
            job.warn(f"run {past.run_id} had another form, focus or length: everything is read again")
        elif known == len(entries) and is_whole:
            return Written(draft["text"]), request
        elif is_whole:
            later = replace(request, earlier=draft["text"], known=known)
            return await write_summary(job, model, entries, later), later
    return await write_summary(job, model, entries, request), request


def _details(written: Written, request: SummaryRequest) -> dict[str, Any]:
    """Return what is journalled for a run that continues this one."""
    return {"draft": {"text": written.text, "request": _facts(request)}} if written.text else {}


def _facts(request: SummaryRequest) -> dict[str, Any]:
    headings = request.form.headings if request.form else ()
    return {
        "tokens": request.tokens,
        "focus": request.focus,
        "headings": [list(heading) for heading in headings],
    }


def _tokens_of(past: PreviousJob, usual: int) -> int:
    """Return the length of the earlier summary, so that its prompts are those of this one."""
    found = past.facts.get("summary_tokens")
    draft = (past.ended or {}).get("draft")
    if isinstance(draft, Mapping) and isinstance(draft.get("request"), Mapping):
        found = draft["request"].get("tokens")
    return found if isinstance(found, int) and found >= _MIN_TOKENS else usual


def _note_coverage(job: Job, entries: Sequence[Entry], written: Written) -> None:
    """Note what a model read."""
    if not written.unread:
        job.coverage.note("answered", [Span(0, job.body.chars)])
        return
    for entry in entries:
        is_unread = entry.name in written.unread
        job.coverage.note("failed" if is_unread else "answered", [Span(entry.start, entry.end)])


def _is_talk(kind: Kind, body: Body, entries: Sequence[Entry]) -> bool:
    """Return whether sentences of the messages may stand for a summary: somebody says most of them."""
    if kind in ("card", "chat") or any(document.messages for document in body.documents):
        return True
    named = sum(entry.message.author is not None for entry in entries)
    has_roles = any(entry.card or entry.message.role != "user" for entry in entries)
    return kind != "story" and (has_roles or 2 * named > len(entries))


def _usual_tokens(entries: Sequence[Entry]) -> int:
    """Return the length of a summary whose length nobody gave."""
    size = sum(_COUNTER.count_each([entry.message.content for entry in entries]))
    return max(_MIN_TOKENS, min(_MAX_TOKENS, size // 2, int(_TOKENS_A_ROOT * size**0.5)))


def _digest(entries: Sequence[Entry]) -> str:
    """Return a hash of the entries, by which a later run recognizes them."""
    hashed = sha256()
    for entry in entries:
        message = entry.message
        hashed.update(repr((message.author, message.created_at, message.content)).encode("utf-8", "replace"))
    return hashed.hexdigest()


def _count_known(job: Job, past: PreviousJob | None, entries: Sequence[Entry]) -> int:
    """Return how many of the entries the earlier run had. Warns if it had another input."""
    if past is None:
        return 0
    count = past.facts.get("entries")
    if not isinstance(count, int):
        return 0
    if count <= len(entries) and _digest(entries[:count]) == past.facts.get("entries_sha256"):
        return count
    job.warn(
        f"the first {count:,} entries have changed since run {past.run_id}: changed parts are read again"
    )
    return 0


def _cite(body: Body, names: Sequence[str], entries: Sequence[Entry]) -> tuple[Citation, ...]:
    """Return a citation for each of the entries with these names, in their order."""
    wanted = set(names)
    cited = [entry for entry in entries if entry.name in wanted]
    spans = [_words_of(body, entry) for entry in cited]
    found = {(one.start, one.end): one for one in cite_spans(spans, body)}
    return tuple(
        replace(
            found[span.start, span.end],
            marker=f"[{entry.name}]",
            author=entry.message.author or (None if entry.name.startswith("p") else entry.message.role),
            time=entry.message.created_at,
        )
        for entry, span in zip(cited, spans, strict=True)
    )


def _words_of(body: Body, entry: Entry) -> Span:
    """Return the span of the message without its header line of author and time."""
    raw = body.text(entry.start, entry.end)
    at = max(0, raw.find(entry.message.content[:40].partition("\n")[0]))
    return Span(entry.start + at, entry.start + len(raw.rstrip()))


def _task(sources: Sequence[Source]) -> str:
    names = [source.name for source in sources]
    return f"Summarize {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
