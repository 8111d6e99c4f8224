"""Build a prompt from retrieved packs with citation markers, and return the citations."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal

from rlm.citation_markers import marker
from rlm.prompts.errors import BudgetExceeded, InputError
from rlm.prompts.json_input import Bounds, read
from rlm.prompts.packs import Citation, Pack
from rlm.prompts.prompt import JOINER, AssembledPrompt, Decision, PromptSection, Totals, included, make_report
from rlm.prompts.recipes.cited_answer import CitedAnswer, check_citations
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter

__all__ = ["AssembledCited", "CitationStyle", "CitedInput", "CitedPrompt", "CitedStyle", "cited_prompt"]

CitedStyle = Literal["qa", "summarize"]
CitationStyle = Literal["numeric", "footnote"]

_COUNTER = get_counter("chars")


@dataclass(frozen=True, slots=True)
class CitedInput:
    """A question and the packs found for it.

    System, user and `headroom_tokens` together take at most `max_tokens` (None: no limit). A token is a
    character here: about four are a real token of English, fewer in code and other scripts.
    """

    question: str
    packs: tuple[Pack, ...] = ()
    style: CitedStyle = "qa"
    citation_style: CitationStyle = "numeric"
    headroom_tokens: Annotated[int, Bounds(1)] = 300
    max_tokens: Annotated[int, Bounds(0)] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssembledCited(AssembledPrompt):
    """A cited prompt. `tokens_estimated` counts the system and the user message."""

    citations: tuple[Citation, ...]
    tokens_estimated: int

    @property
    def prompt(self) -> dict[str, str]:
        """Return `{system, user}`."""
        return {"system": self.system, "user": self.user}

    def answer(self, reply: str) -> CitedAnswer:
        """Return the model's reply to this prompt with its sources, looked up by their markers."""
        return check_citations(reply, self.citations)

    def to_json(self) -> dict[str, Any]:
        """Return prompt {system, user}, citations, tokens_estimated, sections and report."""
        # Slots make a new class, which super() without arguments does not know.
        return {
            **AssembledPrompt.to_json(self),
            "prompt": self.prompt,
            "citations": [citation.to_json() for citation in self.citations],
            "tokens_estimated": self.tokens_estimated,
        }


class CitedPrompt:
    """Builds a system message, and a user message of the question and the best packs."""

    def assemble(self, given: CitedInput | Mapping[str, Any]) -> AssembledCited:
        """Return `cited_prompt` of an input, or of plain data. Raises InputError and BudgetExceeded."""
        return cited_prompt(read(CitedInput, given))


def cited_prompt(given: CitedInput) -> AssembledCited:
    """Return sections system, question, markers, packs and, for footnotes, definitions.

    Packs are included by score, order and id, up to the first that does not fit with its marker and
    definition. Raises BudgetExceeded if the question alone exceeds `max_tokens`.
    """
    words = table("cited.toml")
    form, ending = words["form"][given.citation_style], words["ending"][given.citation_style]
    system = "\n".join(filter(None, [words["system"][given.style].strip().format(form=form), ending]))
    allowed = None if given.max_tokens is None else given.max_tokens - given.headroom_tokens
    size = len(system) + len(given.question)
    if allowed is not None and size > allowed:
        remedy = "shorten the question, raise max_tokens or lower headroom_tokens"
        if allowed < 0:
            remedy = f"the headroom is larger than the budget; {remedy}"
        names = ["system", "question"] if len(system) >= len(given.question) else ["question", "system"]
        raise BudgetExceeded(size, allowed, tuple(names if given.question else ["system"]), remedy)
    _check_packs(given.packs)
    footnotes = given.citation_style == "footnote"
    ranked = sorted(given.packs, key=_rank)
    citations: list[Citation] = []
    blocks: list[str] = []
    notes: list[str] = []
    decisions: list[Decision] = []
    may_reference = ""
    left = math.inf if allowed is None else allowed - size + (0 if given.question else len(JOINER))
    reason = ""
    for number, pack in enumerate(ranked, 1):
        citation = Citation.of(f"[^{number}]" if footnotes else marker(number), pack)
        block, note = _block(citation, pack.text), _definition(citation) if footnotes else ""
        first = citations[0].marker if citations else citation.marker
        markers = first if number == 1 else f"{first}…{citation.marker}"
        line = str(words["may_reference"]).format(markers=markers)
        need = len(JOINER) + len(block) + len(line) - len(may_reference)
        if footnotes:
            need += len(note) + 1
        if number == 1:
            # The line of markers needs a joiner, and the definitions one in place of a line break.
            need += len(JOINER) * (1 + footnotes) - footnotes
        if reason or need > left:
            reason = (
                "an earlier item did not fit" if reason else f"only {max(left - 2, 0):,} tokens were left"
            )
            decisions.append(Decision("packs", pack.pack_id, "dropped", reason, len(block), 0))
            continue
        left -= need
        may_reference = line
        citations.append(citation)
        blocks.append(block)
        notes.append(note)
        decisions.append(Decision("packs", pack.pack_id, "included", "fits", len(block), len(block)))
    return _assembled(given, system, may_reference, blocks, notes, citations, decisions, allowed)


def _check_packs(packs: Sequence[Pack]) -> None:
    """Raise InputError for hits that are no spans, and for a pack that is given twice."""
    for number, pack in enumerate(packs):
        for place, hit in enumerate(pack.hits):
            if len(hit) != 2 or not 0 <= hit[0] <= hit[1]:
                path = f"$.packs[{number}].hits[{place}]"
                raise InputError(path, "is no span", "give [start, end], in characters")
    name, times = max(Tally(pack.pack_id for pack in packs).items(), key=itemgetter(1), default=("", 0))
    if times > 1:
        raise InputError("$.packs", f"holds pack_id {name!r} more than once", "give every pack once")


def _rank(pack: Pack) -> tuple[bool, float, int, str]:
    """Return the key that sorts packs by score (NaN last), order and id."""
    is_nan = math.isnan(pack.score)
    return is_nan, 0.0 if is_nan else -pack.score, pack.order, pack.pack_id


def _assembled(
    given: CitedInput,
    system: str,
    may_reference: str,
    blocks: Sequence[str],
    notes: Sequence[str],
    citations: Sequence[Citation],
    decisions: Sequence[Decision],
    allowed: int | None,
) -> AssembledCited:
    """Return the prompt with its citations and its report."""
    sections = [
        PromptSection("system", "system", system, len(system), stable=True),
        PromptSection("question", "user", given.question, len(given.question)),
        PromptSection("markers", "user", may_reference, len(may_reference)),
        PromptSection("packs", "user", text := JOINER.join(blocks), len(text)),
    ]
    if given.citation_style == "footnote":
        sections.append(PromptSection("definitions", "user", text := "\n".join(notes), len(text)))
    every = [
        one for section in sections for one in (decisions if section.name == "packs" else included(section))
    ]
    tokens = len(system) + len(JOINER.join(section.content for section in sections[1:] if section.content))
    return AssembledCited(
        tuple(sections),
        make_report(sections, every, _COUNTER, Totals(allowed, tokens), warnings=given.warnings),
        tuple(citations),
        tokens,
    )


def _block(citation: Citation, text: str) -> str:
    path = f"Path: {_line(' > '.join(citation.heading_path))}\n" if citation.heading_path else ""
    return f"{citation.marker}\nDoc: {_line(citation.doc_id)}\n{path}---\n{text}"


def _definition(citation: Citation) -> str:
    path = f", {_line(' > '.join(citation.heading_path))}" if citation.heading_path else ""
    return f"{citation.marker}: {_line(citation.doc_id)}{path}"


def _line(text: str) -> str:
    """Return `text` without line breaks, so that it can't pose as a line of the block's head."""
    return text if text.isprintable() else " ".join(text.splitlines())
