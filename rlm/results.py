"""The result of a run: frozen, plain, and the same in Python as in JSON.

Offsets are characters of the context body, 0-based, end-exclusive; lines and pages count from 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from rlm.citation_markers import marker, unmark_unknown, write_marks
from rlm.escaping import (
    has_false_sources,
    html_answer,
    html_text,
    markdown_answer,
    markdown_line,
    terminal_text,
)
from rlm.sandbox.types import Span

__all__ = [
    "EXTRACTIVE",
    "GUESSED_WINDOW",
    "LIMITS_OF",
    "NOT_SUPPORTED",
    "RESUMABLE",
    "SEEN",
    "Citation",
    "ClaimSupport",
    "Confidence",
    "Coverage",
    "Gate",
    "Note",
    "ProposedAnswer",
    "RunResult",
    "RunTotals",
    "Span",
    "StopReason",
    "Strategy",
    "Support",
    "SupportStatus",
    "SupportTest",
    "TokenUsage",
    "Usage",
]

_QUOTE_SHOWN = 160
_NOTES_SHOWN = 3
"""Notes that HTML shows before the others are folded away."""
EXTRACTIVE = "extractive"
"""The name of the built-in model that is a program. It needs no key, and its cells need no isolation."""
SEEN = "seen on the page (not verifiable by text)"
"""What is shown of a citation of a picture, which has no quote."""

StopReason = Literal[
    "finalized",
    "rounds",
    "sub_calls",
    "tokens",
    "cost",
    "time",
    "contract_violation",
    "kernel",
    "model",
    "cancelled",
    "nearest",
    "not_found",
    "unverified",
    "empty_reply",
    "truncated_reply",
    "refused_reply",
    "invalid_reply",
]
"""Why a run ended. The last six are those of the strategies direct and map-reduce, whose last reply is no
answer: it says that the text does not hold it, its quotes are not in the text or it has none, it is empty,
cut by the output limit, refused by the model, or not of the type asked for. `nearest` is that of `extractive`
where no passage has enough of the question's words: the answer shows the nearest passages, and denies
nothing, because an answer may stand in other words."""
RESUMABLE: frozenset[StopReason] = frozenset({"model", "cancelled"})
"""Stop reasons after which a run can be resumed."""
LIMITS_OF: Mapping[StopReason, str] = MappingProxyType(
    {
        "rounds": "max_rounds",
        "sub_calls": "max_calls",
        "tokens": "max_total_tokens",
        "cost": "max_cost",
        "time": "max_seconds",
    }
)
"""The field of `Limits` behind each stop reason that a limit causes."""
Strategy = Literal["rlm", "direct", "map-reduce"]
Confidence = Literal["low", "medium", "high"] | float
SupportStatus = Literal["supported", "unsupported", "unchecked"]
SupportTest = Literal["extract", "words", "model"]
NOT_SUPPORTED = "(not supported by its source)"
"""The remark behind a claim that its sources do not support."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote and its place. `line` and `page` are those of the document at the quote's begin, `last_page` is
    that of its end if it is another one. `message` is the message of a chat,
    with its author or role and its time as given. `heading_path` holds the headings above, the top one
    first. `cell_place` is the place in a workbook or database, as its program names it: `book.xlsx,
    Sheet1!A12:D12`. `part` is what the format counts instead of lines: `slide 3`, `cell 7`, or a time
    (`00:12:05`). `verified` is False when the body does not hold the quote there. `seen`: a child saw it on
    the picture of the page, which no text verifies; `quote` is then what it read there, or empty.
    `rows_place` are the places of the rows that a value was computed from; `quote` is the first."""

    marker: str
    quote: str
    start: int | None
    end: int | None
    document: str | None
    page: int | None
    line: int | None
    verified: bool
    message: int | None = None
    author: str | None = None
    time: str | None = None
    heading_path: tuple[str, ...] = ()
    seen: bool = False
    cell_place: str | None = None
    part: str | None = None
    rows_place: str | None = None
    last_page: int | None = None

    @property
    def place(self) -> str:
        """`contract.pdf, page 12, line 340`, `talk.pptx, slide 3` or `notes.md:17`; with the message and the
        heading, if any. In a workbook or database, `cell_place`. Of a computed value, `rows_place`."""
        if self.rows_place is not None:
            return self.rows_place
        if self.cell_place is not None:
            return self.cell_place
        place = self.document or "input"
        if self.part:
            # The top heading names the part. A line of it is not a place that the file's program shows.
            below = self.heading_path[1:]
            return f"{place}, {self.part}" + (f", under “{below[-1]}”" if below else "")
        if self.page is not None:
            place += f", pages {self.page} to {self.last_page}" if self.last_page else f", page {self.page}"
        if self.line is not None:
            place += f":{self.line}" if self.page is None else f", line {self.line}"
        if self.message is not None:
            by = " ".join(part for part in (self.author, self.time) if part)
            place += f", message {self.message}" + (f" ({by})" if by else "")
        return place + (f", under “{self.heading_path[-1]}”" if self.heading_path else "")

    def __repr__(self) -> str:
        return f"Citation({self.marker!r}, {self.place!r}, {self.shown!r}, verified={self.verified})"

    @property
    def remark(self) -> str:
        """What a reader must know before the quote: that it is not found, or was seen on a picture."""
        return SEEN if self.seen else "" if self.verified else "not found in the input"

    @property
    def shown(self) -> str:
        """The quote on one line, cut if it is long."""
        quote = " ".join(self.quote.split())
        return quote if len(quote) <= _QUOTE_SHOWN else quote[: _QUOTE_SHOWN - 1] + "…"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the body was seen, in characters, whatever the answer claims.

    sent, answered and failed are the driver's own account of children; read (handed to a cell) and
    scanned (searched by machine) are the kernel's word, bounds-checked. `complete` is true exactly when
    every character was answered for or read; `uncovered_chars` were not, and `gaps` are the first 20
    stretches of them. `chunks_processed` of `chunks_total` chunks of batches over `chunk()` were answered.
    `pages_looked` pages were seen by children as pictures.
    """

    input_chars: int
    read_chars: int = 0
    scanned_chars: int = 0
    sent_chars: int = 0
    answered_chars: int = 0
    failed_chars: int = 0
    chunks_processed: int = 0
    chunks_total: int = 0
    complete: bool = False
    gaps: tuple[Span, ...] = ()
    uncovered_chars: int = 0
    pages_looked: int = 0

    @property
    def shown(self) -> str:
        """`all of the input read`, `12.3 % of the input read`: by code and by children together."""
        if self.input_chars == 0:
            return "no input"
        if self.uncovered_chars == 0 and self.complete:
            return "all of the input read"
        share = max(0.0, 1 - self.uncovered_chars / self.input_chars)
        # Neither 0 nor 100 unless it is so.
        percent = 100 * share
        return ("0" if not percent else f"{min(99.9, max(0.1, percent)):.1f}") + " % of the input read"


@dataclass(frozen=True, slots=True)
class ClaimSupport:
    """Whether the cited passages support one claim, a sentence or a line of the answer.

    `sources` are the numbers of its citations, from 1; () if it cites none. `test` decided: `extract` (the
    claim is words of its source), `words` (its numbers and names were compared) or
    `model`; None if it is unchecked. `reason` says why it is not supported or unchecked. `start` and `end`
    are its characters in an answer that is text.
    """

    text: str
    sources: tuple[int, ...]
    status: SupportStatus
    test: SupportTest | None
    reason: str = ""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """Whether the quotes of an answer support its claims. `model` is the model that was asked, if any.
    `notes` say what kept a check from being made."""

    claims: tuple[ClaimSupport, ...] = ()
    model: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def supported(self) -> int:
        """The number of claims that their sources support."""
        return self._count("supported")

    @property
    def unsupported(self) -> int:
        """The number of claims that their sources do not support."""
        return self._count("unsupported")

    @property
    def unchecked(self) -> int:
        """The number of claims that no test decided, including those without a source."""
        return self._count("unchecked")

    @property
    def uncited(self) -> int:
        """The number of claims without a source."""
        return sum(not claim.sources for claim in self.claims)

    @property
    def shown(self) -> str:
        """`5 of 6 claims are supported (checked by gpt-5), 1 not`."""
        total = len(self.claims)
        if self.unchecked == total:
            return f"{total:,} {'claim' if total == 1 else 'claims'} unchecked"
        shown = f"{self.supported:,} of {total:,} {'claim is' if total == 1 else 'claims are'} supported"
        shown += f" (checked by {self.model or 'comparing numbers and names'})"
        if self.unsupported:
            shown += f", {self.unsupported:,} not"
        if self.unchecked:
            shown += f", {self.unchecked:,} unchecked"
            shown += f" ({self.uncited:,} without a citation)" if self.uncited else ""
        return shown

    def _count(self, status: SupportStatus) -> int:
        return sum(claim.status == status for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the claims, the model and the notes."""
        return {
            "supported": self.supported,
            "unsupported": self.unsupported,
            "unchecked": self.unchecked,
            "uncited": self.uncited,
            "model": self.model,
            "notes": self.notes,
            "claims": [asdict(claim) for claim in self.claims],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Support:
        """Return the support that `to_json` wrote."""
        claims = (ClaimSupport(**{**claim, "sources": tuple(claim["sources"])}) for claim in data["claims"])
        return cls(tuple(claims), data["model"], tuple(data["notes"]))


@dataclass(frozen=True, slots=True)
class Gate:
    """A check that an answer of the run had to pass: `input` (something was looked at), `schema`, `evidence`
    (quotes and spans stand in the input) or `check` (the caller's own). `passed` is its last verdict, None
    if it judged no answer. `refusals` are its reasons, in order. `rejected` is the answer that it refused
    last, if the run ended without one."""

    name: str
    passed: bool | None = None
    refusals: tuple[str, ...] = ()
    rejected: Any = None


GUESSED_WINDOW = "the window of "
"""Begins the note that a window is a guess: the same for each question to that model."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a reader should know of a run, in a line. `kind` is one word: `warning`, or what the run
    did without (`kernel`, `isolation`, `cost_limit`, `folded_history`, `cut_reply`, `direct_call`,
    `strategy`)."""

    text: str
    kind: str = "warning"


@dataclass(frozen=True, slots=True)
class ProposedAnswer:
    """An answer before it is accepted, for `RLM(check=…)`. `parsed` is it as the caller's own type, or equal
    to `answer`. `sub_calls` are the child calls so far."""

    task: str
    answer: Any
    parsed: Any
    confidence: Confidence | None
    citations: tuple[Citation, ...]
    coverage: Coverage
    sub_calls: int


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens as the provider counted them. `input_tokens` includes `cached_tokens` (read from its cache) and
    `cache_write_tokens` (written to it, where that is charged apart). Of these, `cache_write_1h_tokens` are
    kept for an hour, which costs more. `output_tokens` includes `reasoning_tokens`, which the model thought
    with."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0

    def __bool__(self) -> bool:
        return self != TokenUsage()

    def __add__(self, other: TokenUsage) -> TokenUsage:
        both = zip(astuple(self), astuple(other), strict=True)
        return TokenUsage(*(one + more for one, more in both))


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls to one model. `output_tokens` includes `reasoning_tokens`. `cost_usd` is None when its price
    is not known."""

    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = 0.0
    reasoning_tokens: int = 0

    def plus(self, tokens: TokenUsage, cost_usd: float | None, calls: int = 1) -> Usage:
        """Return the usage with so many more calls, which took `tokens` together."""
        return Usage(
            self.model,
            self.calls + calls,
            self.input_tokens + tokens.input_tokens,
            self.output_tokens + tokens.output_tokens,
            self.cached_tokens + tokens.cached_tokens,
            None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd,
            self.reasoning_tokens + tokens.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What a run has used so far, as the list of runs shows it. `cost_usd` is None if a price is unknown.

    The fields are columns of the journal's table `runs` and keys of the events that end a run.
    """

    rounds: int = 0
    sub_calls: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run. `answer` is None when it ended without one: `cause` says why, and `variables`
    what the kernel held then (`name: type, size`). `answer` is JSON-safe. `found` is False if there is no
    answer, if it says that the documents hold none, or if it shows the nearest passages only. `unread` names
    documents that were not read, or only in part. `support` says of each claim of the answer whether its
    citations support it; None if that was not checked. `gates` are the checks that the answer had to pass.
    `notes` are what went wrong, and what the run did without, in order. `parsed` is the answer as the
    caller's own type (`schema=Answer`), and is not part of the JSON."""

    run_id: str
    answer: Any
    confidence: Confidence | None
    stop_reason: StopReason
    forced: bool
    strategy: Strategy
    citations: tuple[Citation, ...]
    coverage: Coverage
    usage: tuple[Usage, ...]
    rounds: int
    sub_calls: int
    seconds: float
    notes: tuple[Note, ...] = ()
    variables: tuple[str, ...] = ()
    found: bool = True
    unread: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    support: Support | None = None
    parsed: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        answer = repr(self.answer)
        answer = answer if len(answer) <= _QUOTE_SHOWN else answer[: _QUOTE_SHOWN - 1] + "…"
        return (
            f"RunResult({self.run_id!r}, answer={answer}, stop_reason={self.stop_reason!r}, "
            f"citations={len(self.citations)}, cost_usd={self.cost_usd})"
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping; `from_json` reads it back to an equal result."""
        data = asdict(replace(self, parsed=None))
        del data["parsed"]
        data["warnings"] = list(self.warnings)
        data["coverage"]["gaps"] = [list(gap) for gap in self.coverage.gaps]
        data["support"] = None if self.support is None else self.support.to_json()
        return data

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of the notes."""
        return tuple(note.text for note in self.notes)

    @property
    def cost_usd(self) -> float | None:
        """What the run cost, all models together. None if a price is not known."""
        costs = [one.cost_usd for one in self.usage]
        return None if None in costs else sum(filter(None, costs))

    @property
    def response(self) -> str:
        """The answer as text, by the name that it has in `rlms`; "" for none."""
        return self.text

    @property
    def exhausted_limit(self) -> str | None:
        """The field of `Limits` that ended the run, or None. Raise that one to get further."""
        return LIMITS_OF.get(self.stop_reason)

    @property
    def cause(self) -> str | None:
        """Why there is no answer; None when there is one."""
        if self.answer is not None:
            return None
        return self.warnings[-1] if self.warnings else "no answer was found within the limits"

    @property
    def text(self) -> str:
        """The answer as text, its marks written `[¹]`; an answer that is no text as JSON; "" for none.

        A mark of the answer that names no citation is written `[1]`."""
        if self.answer is None:
            return ""
        if not isinstance(self.answer, str):
            return json.dumps(self.answer, ensure_ascii=False, indent=2)
        numbered = enumerate(self.citations, 1)
        quotes = {number: one.quote for number, one in numbered if one.marker == marker(number)}
        return unmark_unknown(write_marks(self.answer, quotes), quotes)

    @property
    def marked_text(self) -> str:
        """The text with a remark behind each claim that its sources do not support."""
        if not isinstance(self.answer, str) or self.support is None or not self.support.unsupported:
            return self.text
        pieces, at = [], 0
        for claim in self.support.claims:
            if (
                claim.status == "unsupported"
                and claim.end is not None
                and at <= claim.end <= len(self.answer)
            ):
                pieces += [self.answer[at : claim.end], f" {NOT_SUPPORTED}"]
                at = claim.end
        return replace(self, answer="".join([*pieces, self.answer[at:]])).text

    @property
    def listed(self) -> tuple[Citation, ...] | None:
        """The citations for a list of sources, None for a result without one. An answer that claims sources
        and has none gets an empty list: it says so."""
        return self.citations if self.citations or has_false_sources(self.answer) else None

    @property
    def figures(self) -> str:
        """Two figures in a line: the quotes that are in the input, and the claims that they support; "" for
        an answer without either."""
        quotes = len(self.citations)
        found = sum(one.verified for one in self.citations)
        seen = sum(one.seen for one in self.citations)
        of = "citation" if quotes == 1 else "citations"
        shown = [f"{found:,} of {quotes:,} {of} found in the input"] if quotes else []
        shown += [f"{seen:,} seen on pages, not verifiable by text"] if seen else []
        is_extracted = all(one.model == EXTRACTIVE for one in self.usage)
        if self.support is None and quotes and not is_extracted:
            shown.append("whether they support the answer is unchecked")
        elif self.support is not None and self.support.claims:
            shown.append(self.support.shown)
        return "; ".join(shown)

    def __str__(self) -> str:
        """The answer with its sources, as `markdown`."""
        return self.markdown()

    def markdown(self) -> str:
        """The answer, a list of its sources below a rule, and a line about what was read. Nothing in it is a
        link, an image or HTML: URLs are shown as code, and names and quotes are escaped."""
        if self.answer is None:
            parts = [f"*No answer ({self.stop_reason}).*"]
        elif isinstance(self.answer, str):
            parts = [markdown_answer(self.marked_text)]
        else:
            parts = [markdown_answer(f"```json\n{self.text}\n```")]
        sources = self.listed
        if sources is not None:
            parts += [
                "---",
                "**Sources**",
                "\n".join(f"- {_markdown_source(one)}" for one in sources) or "none",
            ]
        return "\n\n".join([*parts, f"*{markdown_line(_account(self))}*"]) + "\n"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """How IPython shows it in a terminal: the answer as text."""
        printer.text(repr(self) if self.answer is None else terminal_text(self.text))

    def _repr_html_(self) -> str:
        """How a notebook shows it: the answer, its sources, what was read and spent. All of it is escaped.
        Colours are the viewer's own, so that dark themes stay dark."""
        if self.answer is None:
            cause = f": {self.cause}" if self.cause else ""
            parts = [f"<p><em>{html_text(f'No answer ({self.stop_reason}){cause}')}</em></p>"]
        else:
            parts = [f"<p style='white-space: pre-wrap'>{html_answer(self.marked_text)}</p>"]
        sources = self.listed
        if sources is not None:
            rows = "".join(map(_html_source, sources)) or "<li>none</li>"
            parts.append(f"<hr><strong>Sources</strong><ul>{rows}</ul>")
        notes = [f"<li>{html_text(note)}</li>" for note in self.warnings if note != self.cause]
        if notes:
            parts.append(f"<ul style='opacity: .8'>{''.join(notes[:_NOTES_SHOWN])}</ul>")
        if more := notes[_NOTES_SHOWN:]:
            parts.append(
                f"<details><summary>Further notes: {len(more)}</summary><ul>{''.join(more)}</ul></details>"
            )
        cost = self.cost_usd
        spent = "cost unknown" if cost is None else f"${cost:.4f}" if cost else "$0"
        account = f"{self.coverage.shown}; {spent}; {_account(self)}"
        parts.append(f"<p style='opacity: .7'><small>{html_text(account)}</small></p>")
        return f"<div style='max-width: 60em'>{''.join(parts)}</div>"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunResult:
        """Return the result that `to_json` wrote. Other keys, like the totals in a journal, are ignored."""
        known = {one.name for one in fields(cls)}
        coverage = dict(data["coverage"])
        coverage["gaps"] = tuple(Span(*gap) for gap in coverage["gaps"])
        return cls(
            **{
                **{name: value for name, value in data.items() if name in known},
                "citations": tuple(
                    Citation(**{**citation, "heading_path": tuple(citation["heading_path"])})
                    for citation in data["citations"]
                ),
                "coverage": Coverage(**coverage),
                "usage": tuple(Usage(**usage) for usage in data["usage"]),
                "notes": tuple(Note(**note) for note in data["notes"]),
                "variables": tuple(data["variables"]),
                "unread": tuple(data["unread"]),
                "gates": tuple(
                    Gate(**{**gate, "refusals": tuple(gate["refusals"])}) for gate in data["gates"]
                ),
                "support": None if data["support"] is None else Support.from_json(data["support"]),
            }
        )


def _markdown_source(citation: Citation) -> str:
    quote = f"“{markdown_line(citation.shown)}”"
    if citation.seen:
        remark = f"{citation.marker} {markdown_line(citation.place)}: *{citation.remark}*"
        return f"{remark} {quote}" if citation.quote else remark
    if citation.remark:
        return f"{citation.marker} **{citation.remark}**: {quote}"
    return f"{citation.marker} {markdown_line(citation.place)}: {quote}"


def _html_source(citation: Citation) -> str:
    remark = citation.remark
    if remark:
        tag = "em" if citation.seen else "strong"
        remark = f"<{tag}>{html_text(remark)}</{tag}> "
    quote = f"<q>{html_text(citation.quote)}</q>" if citation.quote else ""
    return (
        f"<li>{html_text(citation.marker)} {html_text(citation.place)} {remark}"
        f"<span style='opacity: .85'>{quote}</span></li>"
    )


def _account(result: RunResult) -> str:
    coverage = result.coverage
    looked = f"{coverage.pages_looked:,} pages looked at" if coverage.pages_looked else ""
    parts = [
        f"{result.strategy}, {_plural(result.rounds, 'round')}, {_plural(result.sub_calls, 'child call')}, "
        f"{result.seconds:.1f} s",
        f"{coverage.input_chars:,} characters, {coverage.read_chars:,} read by code, "
        f"{coverage.answered_chars:,} read by children{f', {looked}' if looked else ''}",
        result.figures,
        f"run {result.run_id}",
    ]
    return "; ".join(filter(None, parts))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
