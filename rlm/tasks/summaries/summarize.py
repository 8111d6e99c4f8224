"""Summarize talk, work, stories, cards and logs in a form that fits, other documents section by section."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rlm.documents import Context, Source, sources_of
from rlm.errors import UsageError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import is_extractive
from rlm.prompts.tokens.counters import get_counter
from rlm.results import RunResult
from rlm.runs.setup import require_model
from rlm.runtime import RLM
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.tasks.jobs.job import Job, PreviousJob, open_job
from rlm.tasks.summaries.board_summary import boards_of
from rlm.tasks.summaries.boards import Cards, with_cards
from rlm.tasks.summaries.commits import commits_in
from rlm.tasks.summaries.document_summary import summarize_documents
from rlm.tasks.summaries.entries import Entry, entries_of, is_history
from rlm.tasks.summaries.fact_check import Fact
from rlm.tasks.summaries.github import with_chats
from rlm.tasks.summaries.history_summary import (
    HistorySummary,
    Wish,
    carried_start,
    cite_entries,
    digest,
    extract_history,
    summarize_history,
)
from rlm.tasks.summaries.whole_text import WholeRequest, fits_one_call, paragraphs_of, summarize_whole
from rlm.tasks.summaries.writing.fold import Start, line_limit
from rlm.tasks.summaries.writing.forms import FORMS, WORK, Form, certain_form, is_story, read_form

__all__ = ["Kind", "Summary", "summarize"]

Kind = Literal["auto", "card", "chat", "document", "story"]

_MIN_TOKENS = 100
_TOKENS = 8_000
_TOKENS_A_LINE = 35
_CHARS_A_TOKEN = 8
"""Characters of a token, at most: a longer text is not counted to know that it fits no call."""
_COUNTER = get_counter()
_MAX_HISTORY_CHARS = 50_000_000
_EXAMINED_CHARS = 2_000_000
"""Characters that decide which form fits."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary as Markdown (`text`), with its sources and checks.

    `result` is the job's result: its answer is `text`, and its citations are the sources of the lines.
    `[m12]` is the 12th message of the input, `[¹]` a passage of a document. `form` names the headings of a
    history: those of work, a meeting, talk, a story, a log, a board, your own (`own`), or none of a model's
    (`extracts`: sentences of the messages). `facts` are what the summary of work was checked for. `messages`
    counts the entries of the history. The first `known` of them are unchanged since the run that `since`
    named. `supported` of the `lines` of a history's summary are supported by the messages that they cite; the
    others say so in `text`. `result.support` says so of each line."""

    kind: Literal["history", "document"]
    text: str
    result: RunResult
    facts: tuple[Fact, ...] = ()
    messages: int = 0
    known: int = 0
    lines: int = 0
    supported: int = 0
    form: str = ""

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
            "form": self.form if self.kind == "history" else None,
            "facts": [asdict(fact) for fact in self.facts],
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
    """Summarize `context` in at most `tokens` tokens, by an estimate that is never too low; without them in a
    length that suits the input, at most 8,000.

    `kind`: `card`, `chat` and `story` are read message by message or paragraph by paragraph, `document` in
    sections, and `auto` decides by the input. `focus` says what the summary is for. `form` is the name of a
    form (`work`, `meeting`, `talk`, `story`, `log`, `board`) or a file of headings; by default the input
    decides, or the model. A model compares each line with the messages that it cites, unless the setting
    `check_support` is False.

    `since` is the run of an earlier summary of the same input, which may have grown. Its lines are carried
    word for word, and only new messages are read. Calls that it has paid for are not made again. Raises
    UsageError and JournalError before anything is spent."""
    if tokens is not None and tokens < _MIN_TOKENS:
        raise UsageError(f"a summary cannot have only {tokens:,} tokens: give {_MIN_TOKENS} or more")
    own_form = None if form is None else read_form(form)
    has_model = not is_extractive(rlm.summary_model)
    with_boards, cards = with_cards(sources_of(context))
    sources = with_chats(with_boards)
    entries: tuple[Entry, ...] = ()

    def describe(body: Body) -> Mapping[str, Any]:
        nonlocal entries
        is_talk = is_history(body) or (has_model and (own_form is not None or is_story(body)))
        if kind == "document" or (kind == "auto" and not is_talk):
            if own_form is not None or focus:
                raise UsageError(
                    "--form and --focus need text that is read by messages: add --kind chat or --kind story"
                )
            if not re.search(r"\w", body.text(0, 1_000_000)):
                raise UsageError("there is nothing to summarize: the input has no text")
            require_model(rlm.summary_model, "a summary of anything but a chat")
            return {"summary_kind": "document", "summary_tokens": tokens or _TOKENS}
        if body.chars > _MAX_HISTORY_CHARS:
            raise UsageError(
                f"the history has {body.chars:,} characters ({_MAX_HISTORY_CHARS:,} at most): summarize "
                "it in parts, or use --kind document"
            )
        entries = entries_of(body)
        if not entries:
            raise UsageError("there is nothing to summarize: the input has no text")
        if not _is_chat(_form_of(kind, entries, cards, body), body):
            require_model(rlm.summary_model, "a summary of anything but a chat")
        return {
            "summary_kind": "history",
            "summary_tokens": tokens or _TOKENS,
            "entries": len(entries),
            "entries_sha256": digest(entries),
        }

    async with open_job(rlm, "summarize", _task(sources), sources, facts=describe, since=since) as (
        job,
        past,
    ):
        known = _count_known(job, past, entries) if entries else 0
        model = rlm.summary_model
        by_model = has_model
        may_fit = has_model and job.body.chars <= _CHARS_A_TOKEN * model.window.context
        units = entries or (paragraphs_of(job.body) if may_fit else ())
        limit = tokens or (_usual_tokens(units) if may_fit else _TOKENS)
        if may_fit and fits_one_call(model, units, limit):
            wanted = own_form or (_card_form(entries, cards, job.body) if entries else None)
            earlier = (past.ended or {}).get("answer") if past and 0 < known < len(entries) else None
            request = WholeRequest(
                limit,
                wanted,
                focus.strip(),
                is_card=wanted is not None and own_form is None,
                is_document=not entries,
                earlier=earlier if isinstance(earlier, str) else "",
                known=known if isinstance(earlier, str) else 0,
                computed=tuple(line.text for board in boards_of(entries, cards) for line in board.counts()),
            )
            whole = await summarize_whole(job, model, units, request, alone=cards)
            if whole is not None:
                job.coverage.note("answered", [Span(0, job.body.chars)])
                citations = cite_entries(job.body, whole.names, units)
                result = await job.finish(whole.text, citations, support=whole.support)
                return Summary(
                    "history" if entries else "document",
                    whole.text,
                    result,
                    messages=len(entries),
                    known=known,
                    lines=len(whole.support.claims),
                    supported=whole.support.supported,
                    form=wanted.name if wanted else "subjects",
                )
            by_model = False
        if not entries:
            summary = await summarize_documents(job, tokens or _TOKENS, by_model=by_model)
            result = await job.finish(summary.text or None, summary.citations)
            return Summary("document", summary.text, result)
        if not by_model:
            history = await extract_history(job, entries, tokens or _TOKENS, cards)
        else:
            history = await _by_parts(job, past, known, entries, cards, own_form, kind, tokens, focus.strip())
        result = await job.finish(
            history.text,
            history.citations,
            # Sentences of the messages are what they cite: there is nothing to check.
            support=history.support if has_model else None,
            details=history.details,
        )
        return Summary(
            "history",
            history.text,
            result,
            history.facts,
            len(entries),
            known,
            len(history.support.claims),
            len(history.support.claims) - history.doubtful,
            history.form,
        )


def _usual_tokens(entries: Sequence[Entry]) -> int:
    """Return the length of a summary whose length nobody gave."""
    size = sum(_COUNTER.count_each([entry.message.content for entry in entries]))
    return max(_MIN_TOKENS, _TOKENS_A_LINE * line_limit(None, _TOKENS, size, len(entries)))


def _card_form(entries: Sequence[Entry], cards: Cards, body: Body) -> Form | None:
    """Return the form of cards and commits, which have fixed headings; None for what goes by subject."""
    form = certain_form(entries, cards, body.text(0, _EXAMINED_CHARS))
    return form if form is not None and form.name in ("work", "board") else None


async def _by_parts(
    job: Job,
    past: PreviousJob | None,
    known: int,
    entries: Sequence[Entry],
    cards: Cards,
    own_form: Form | None,
    kind: Kind,
    tokens: int | None,
    focus: str,
) -> HistorySummary:
    """Summarize a history that is too long for one call."""
    wanted = own_form or _form_of(kind, entries, cards, job.body)
    wish = Wish(tokens, wanted, focus, job.config.settings.check_support is not False)
    start = _start(job, past, known, own_form, focus)
    return await summarize_history(job, entries, wish, cards, start)


def _is_chat(form: Form | None, body: Body) -> bool:
    """Return whether sentences of the messages may stand for a summary: in talk, and in the talk on a card.
    Stories, logs, commits and boards have to be read for their meaning."""
    if form is None:
        return True
    if form.name == "log":
        # Talk whose names look like those of programs, or that stands in Markdown with times, but no names.
        return any(document.messages or document.kind == "markdown" for document in body.documents)
    return form is WORK and not commits_in(body.text(0, _EXAMINED_CHARS))


def _form_of(kind: Kind, entries: Sequence[Entry], cards: Cards, body: Body) -> Form | None:
    """Return the form if the input decides it; None if a model has to."""
    if kind == "story" or (kind == "auto" and not is_history(body)):
        return FORMS["story"]
    return certain_form(entries, cards, body.text(0, _EXAMINED_CHARS))


def _start(
    job: Job,
    past: PreviousJob | None,
    known: int,
    form: Form | None,
    focus: str,
) -> Start | None:
    """Return what is carried from the earlier run. Warns if its summary cannot be."""
    if past is None:
        return None
    start, note = carried_start(past, known, form, focus)
    if note:
        job.warn(note)
    return start


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
