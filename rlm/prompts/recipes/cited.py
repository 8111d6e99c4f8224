"""Build a prompt from retrieved packs with citation markers, and return the citations."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import count
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import StopFirst
from rlm.prompts.assembly.section import Citation, Derived, Item, Section
from rlm.prompts.errors import InputError
from rlm.prompts.json_input import Record
from rlm.prompts.recipes.cited_answer import CitedAnswer
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = [
    "AssembledCited",
    "CitationStyle",
    "CitedInput",
    "CitedPrompt",
    "CitedStyle",
    "Pack",
    "citation_json",
    "citation_marker",
]

CitedStyle = Literal["qa", "summarize"]
CitationStyle = Literal["numeric", "footnote"]

_STYLES: tuple[CitedStyle, ...] = ("qa", "summarize")
_CITATION_STYLES: tuple[CitationStyle, ...] = ("numeric", "footnote")
_HEADROOM = 300
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNBOUNDED = 1 << 62


class Pack(NamedTuple):
    """A retrieved piece of a document. A tuple, because there may be tens of thousands.

    `hits` are (start, end) of a searched phrase in the document, and `span` is the place of the text in it.
    """

    pack_id: str
    doc_id: str
    text: str
    score: float = 0.0
    order: int = 0
    heading_path: tuple[str, ...] = ()
    hits: tuple[tuple[int, int], ...] = ()
    span: tuple[int, int] | None = None


@runtime_checkable
class CitablePack(Protocol):
    """A pack of another kind that can be cited, such as one that a Retriever returns."""

    def citable(self) -> Pack:
        """Return what a prompt shows of it. Its hits are characters of its document."""


@dataclass(frozen=True, slots=True)
class CitedInput:
    """A question and the packs found for it: packs of this module, or of a Retriever.

    System, user and `headroom_tokens` together take at most `max_tokens` (None: no limit). Tokens are
    `counter`'s, by default characters: about four for a real token of English, fewer in code and other
    scripts.
    """

    question: str
    packs: Sequence[Pack | CitablePack] = ()
    style: CitedStyle = "qa"
    citation_style: CitationStyle = "numeric"
    headroom_tokens: int = _HEADROOM
    max_tokens: int | None = None
    counter: Counter = field(default_factory=lambda: get_counter("chars"))
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.question, str):
            raise InputError("$.question", f"is {self.question!r}", "give a text")
        object.__setattr__(self, "packs", tuple(map(_as_pack, self.packs, count())))
        for name, options in (("style", _STYLES), ("citation_style", _CITATION_STYLES)):
            value = getattr(self, name)
            if value not in options:
                raise InputError(f"$.{name}", f"is {value!r}", f"give one of {', '.join(options)}")
        if not self.headroom_tokens >= 1:
            raise InputError("$.headroom_tokens", f"is {self.headroom_tokens!r}", "give 1 or more")

    @classmethod
    def from_json(cls, value: object) -> CitedInput:
        """Read `{question, packs: [{pack_id, doc_id, score, order, heading_path, text, hits?}], style,
        citation_style, headroom_tokens, max_tokens?}`. Raises InputError."""
        given = Record(value)
        return cls(
            question=given.text("question"),
            packs=given.each("packs", _pack),
            style=given.choice("style", _STYLES, "qa"),  # type: ignore[arg-type]
            citation_style=given.choice("citation_style", _CITATION_STYLES, "numeric"),  # type: ignore[arg-type]
            headroom_tokens=given.whole("headroom_tokens", _HEADROOM, minimum=1),
            max_tokens=given.whole_or_none("max_tokens", minimum=0),
            counter=get_counter(given.text("counter", "chars")),
            warnings=given.unknown_keys(tuple(name for name in cls.__slots__ if name != "warnings")),
        )


@dataclass(frozen=True, slots=True)
class AssembledCited(AssembledPrompt):
    """A cited prompt. `tokens_estimated` counts the system and the user message."""

    tokens_estimated: int

    @property
    def prompt(self) -> dict[str, str]:
        """Return `{system, user}`."""
        return {"system": self.system, "user": self.user}

    def answer(self, reply: str) -> CitedAnswer:
        """Return the model's reply to this prompt with its sources, looked up by their markers."""
        return CitedAnswer.of(reply, self.citations)

    def to_json(self) -> dict[str, Any]:
        """Return prompt {system, user}, citations, tokens_estimated, sections and report."""
        return {
            "prompt": self.prompt,
            "citations": [citation_json(citation) for citation in self.citations],
            "tokens_estimated": self.tokens_estimated,
            "sections": [section.to_json() for section in self.sections],
            "report": self.report.to_json(),
        }


class CitedPrompt:
    """Builds a system message, and a user message of the question and the best packs."""

    def assemble(self, given: CitedInput | Mapping[str, Any]) -> AssembledCited:
        """Return sections system, question, markers, packs and definitions.

        Packs are included by score, order and id, up to the first that does not fit. Raises InputError, and
        BudgetExceeded if the question alone exceeds `max_tokens`.
        """
        if not isinstance(given, CitedInput):
            given = CitedInput.from_json(given)
        total = _UNBOUNDED if given.max_tokens is None else given.max_tokens
        headroom = 0 if given.max_tokens is None else given.headroom_tokens
        prompt = assemble(
            _sections(given),
            Budget(total, headroom, counter=given.counter, by_message=True),
            remedy="shorten the question, raise max_tokens or lower headroom_tokens",
        )
        fields = {name: getattr(prompt, name) for name in AssembledPrompt.__slots__}
        report = prompt.report.with_warnings(given.warnings)
        return AssembledCited(**{**fields, "report": report}, tokens_estimated=report.totals.prompt)


def citation_marker(number: int, style: CitationStyle = "numeric") -> str:
    """Return `[¹⁰]`, or `[^10]` for a footnote."""
    return f"[^{number}]" if style == "footnote" else f"[{str(number).translate(_SUPERSCRIPT)}]"


def citation_json(citation: Citation) -> dict[str, Any]:
    """Return marker, pack_id, doc_id, heading_path, and span_offsets and span if they are known."""
    data: dict[str, Any] = {
        "marker": citation.marker,
        "pack_id": citation.pack_id,
        "doc_id": citation.doc_id,
        "heading_path": list(citation.heading_path),
    }
    if citation.span_offsets:
        data["span_offsets"] = [list(span) for span in citation.span_offsets]
    if citation.span is not None:
        data["span"] = list(citation.span)
    return data


def _sections(given: CitedInput) -> list[Section]:
    footnotes = given.citation_style == "footnote"
    items = _items(given)
    sections = [
        Section(
            "system",
            "system",
            order=0,
            priority=100,
            required=True,
            stability="static",
            items=(Item("instructions", _instructions(given)),),
        ),
        Section(
            "question",
            "user",
            order=1,
            priority=90,
            required=True,
            stability="turn",
            items=(Item("question", given.question),),
        ),
        Section(
            "markers",
            "user",
            order=2,
            priority=40,
            stability="turn",
            derived=Derived("packs", _marker, _may_reference),
        ),
        Section("packs", "user", order=3, priority=50, policy=StopFirst(), stability="turn", items=items),
    ]
    if footnotes:
        lines = {item.citation.marker: _definition(item.citation) for item in items if item.citation}
        sections.append(
            Section(
                "definitions",
                "user",
                order=4,
                priority=40,
                stability="turn",
                derived=Derived(
                    "packs", _marker, lambda markers: "\n".join(lines[marker] for marker in markers)
                ),
            )
        )
    return sections


def _instructions(given: CitedInput) -> str:
    data = table("cited.toml")
    text = data["system"][given.style].strip().format(form=data["form"][given.citation_style])
    ending = data["ending"][given.citation_style]
    return f"{text}\n{ending}" if ending else str(text)


def _items(given: CitedInput) -> tuple[Item, ...]:
    packs = _by_rank(cast(Sequence[Pack], given.packs))  # converted when the input was made
    if len({pack.pack_id for pack in packs}) < len(packs):
        twice = next(name for name, n in Tally(pack.pack_id for pack in packs).items() if n > 1)
        raise InputError("$.packs", f"holds pack_id {twice!r} more than once", "give every pack once")
    items = []
    for place, (name, document, body, _, _, headings, hits, span) in enumerate(packs):
        marker = citation_marker(place + 1, given.citation_style)
        path = f"Path: {_line(' > '.join(headings))}\n" if headings else ""
        text = f"{marker}\nDoc: {_line(document)}\n{path}---\n{body}"
        citation = Citation(marker, name, document, headings, hits, span)
        # The rank is settled above, so the pipeline needs only the order.
        items.append(Item(name, text, (), 0.0, 0, place, None, None, citation))
    return tuple(items)


def _by_rank(packs: Sequence[Pack]) -> list[Pack]:
    """Return packs by score (NaN last), order and id. Three sorts by one key each are the fastest."""
    ranked = sorted(packs, key=attrgetter("pack_id"))
    ranked.sort(key=attrgetter("order"))
    without_score = [pack for pack in ranked if math.isnan(pack.score)]
    scored = [pack for pack in ranked if not math.isnan(pack.score)] if without_score else ranked
    scored.sort(key=attrgetter("score"), reverse=True)
    return scored + without_score


def _line(text: str) -> str:
    """Return `text` without line breaks, so that it can't pose as a line of the block's head."""
    return text if text.isprintable() else " ".join(text.splitlines())


def _definition(citation: Citation) -> str:
    path = f", {_line(' > '.join(citation.heading_path))}" if citation.heading_path else ""
    return f"{citation.marker}: {_line(citation.doc_id)}{path}"


def _marker(item: Item) -> str | None:
    return item.citation.marker if item.citation else None


def _may_reference(markers: dict[str, None]) -> str:
    if not markers:
        return ""
    first, last = next(iter(markers)), next(reversed(markers))
    return str(table("cited.toml")["may_reference"]).format(
        markers=first if len(markers) == 1 else f"{first}…{last}"
    )


def _as_pack(value: Pack | CitablePack, place: int) -> Pack:
    pack = value if isinstance(value, Pack) else _converted(value, place)
    if not (type(pack.pack_id) is type(pack.doc_id) is type(pack.text) is str):
        raise InputError(f"$.packs[{place}]", "has a pack_id, doc_id or text that is no text", "give texts")
    if not isinstance(pack.score, float | int):
        raise InputError(f"$.packs[{place}].score", f"is {pack.score!r}", "give a number")
    return pack


def _converted(value: object, place: int) -> Pack:
    if isinstance(value, CitablePack):
        return value.citable()
    raise InputError(
        f"$.packs[{place}]", f"is {type(value).__name__}", "give packs of a Retriever or of rlm.prompts"
    )


def _pack(value: Any, path: str) -> Pack:
    if type(value) is dict and not value.get("hits") and "document" not in value:
        headings = value.get("heading_path") or []
        made = Pack(
            value.get("pack_id", 0),
            value.get("doc_id", 0),
            value.get("text", 0),
            value.get("score", 0.0),
            value.get("order", 0),
        )
        # Fast path, for ten thousand packs. Anything else is validated below.
        if (
            type(made.pack_id) is type(made.doc_id) is type(made.text) is str
            and type(made.score) is float
            and type(made.order) is int
            and type(headings) is list
            and all(type(heading) is str for heading in headings)
        ):
            return made._replace(heading_path=tuple(headings)) if headings else made
    pack = Record(value, path, what="an object with pack_id, doc_id, score, order, heading_path, text")
    # `rlm search --json` gives the document's name beside its number, and hits as characters of all texts.
    shift = pack.whole("document_start", 0)
    return Pack(
        pack.text("pack_id"),
        pack.text("document") if "document" in pack.value else pack.text("doc_id"),
        pack.text("text"),
        pack.number("score", 0.0),
        pack.whole("order", 0),
        pack.each("heading_path", _check_heading),
        tuple((max(start - shift, 0), max(end - shift, 0)) for start, end in pack.each("hits", _hit)),
        (pack.whole("start") - shift, pack.whole("end") - shift) if "document_start" in pack.value else None,
    )


def _check_heading(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InputError(path, "is not a text", "give headings as texts, the outermost first")
    return value


def _hit(value: Any, path: str) -> tuple[int, int]:
    if isinstance(value, Mapping):
        hit = Record(value, path)
        value = (hit.whole("start"), hit.whole("end"))
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(end) is int for end in value):
        start, end = value
        if 0 <= start <= end:
            return (start, end)
    raise InputError(path, "is not a span", "give [start, end], in characters of the document, start first")
