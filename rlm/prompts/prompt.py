"""Define what every recipe returns: a prompt of sections, and a report of what is in it and what is not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rlm.prompts.tokens.counters import Counter

__all__ = [
    "JOINER",
    "AssembledPrompt",
    "Decision",
    "DecisionStatus",
    "PromptSection",
    "Report",
    "Role",
    "Totals",
    "included",
    "joined",
    "make_report",
]

JOINER = "\n\n"
"""Separates sections, and messages where a prompt is sent as one text."""

Role = Literal["system", "user"]
DecisionStatus = Literal["included", "trimmed", "compressed", "dropped"]


class Decision(NamedTuple):
    """What happened to one part. A tuple, because a prompt may have tens of thousands of parts.

    Tokens are the part's own, without frame and separator; `tokens_after` is 0 if it was dropped.
    """

    section: str
    id: str
    status: DecisionStatus
    reason: str
    tokens_before: int
    tokens_after: int


class PromptSection(NamedTuple):
    """A section as rendered. `content` is "" if nothing of it is in the prompt.

    `tokens` is the sum of its parts, separators and frame. `stable`: it is the same from turn to turn.
    """

    name: str
    role: Role
    content: str
    tokens: int
    stable: bool = False


class Totals(NamedTuple):
    """`prompt` are the tokens of the prompt, measured as a whole, and `allowed` what it may take."""

    allowed: int | None
    prompt: int


@dataclass(frozen=True, slots=True)
class Report:
    """How a prompt was assembled. Equal inputs give equal reports.

    `order` holds the names of the sections as rendered. `actions` lists the sections that were reduced.
    `counter` is name and version. `prefix_hash` is the SHA-256 of the sections before the first that changes
    from turn to turn.
    """

    decisions: tuple[Decision, ...]
    order: tuple[str, ...]
    totals: Totals
    actions: tuple[str, ...]
    warnings: tuple[str, ...]
    counter: str
    prefix_hash: str
    over_budget: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as a JSON-safe mapping."""
        return {
            "decisions": [decision._asdict() for decision in self.decisions],
            "order": list(self.order),
            "totals": self.totals._asdict(),
            "actions": list(self.actions),
            "warnings": list(self.warnings),
            "counter": self.counter,
            "prefix_hash": self.prefix_hash,
            "over_budget": self.over_budget,
        }

    def with_warnings(self, warnings: Sequence[str]) -> Report:
        """Return the same report with these warnings before its own."""
        return replace(self, warnings=(*warnings, *self.warnings)) if warnings else self


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """A prompt that is ready to send: as one text, or as a system and a user message.

    `sections` holds every section in rendered order, including empty ones.
    """

    sections: tuple[PromptSection, ...]
    report: Report

    @property
    def text(self) -> str:
        """Return the whole prompt as one text."""
        return joined(self.sections)

    @property
    def system(self) -> str:
        """Return the text of the system message."""
        return joined(section for section in self.sections if section.role == "system")

    @property
    def user(self) -> str:
        """Return the text of the user message."""
        return joined(section for section in self.sections if section.role == "user")

    def to_json(self) -> dict[str, Any]:
        """Return prompt, sections and report. The prompt is {system, user} where both exist, else a text."""
        system, user = self.system, self.user
        return {
            "prompt": {"system": system, "user": user} if system and user else self.text,
            "sections": [
                {"name": section.name, "content": section.content, "tokens": section.tokens}
                for section in self.sections
            ],
            "report": self.report.to_json(),
        }


def joined(sections: Iterable[PromptSection]) -> str:
    """Return the text of sections. Empty ones leave no gap."""
    return JOINER.join([section.content for section in sections if section.content])


def included(section: PromptSection) -> list[Decision]:
    """Return the decision of a section that is one part and went in. None if it is empty."""
    name, tokens = section.name, section.tokens
    return [Decision(name, name, "included", "fits", tokens, tokens)] if section.content else []


def make_report(
    sections: Sequence[PromptSection],
    decisions: Iterable[Decision],
    counter: Counter,
    totals: Totals,
    *,
    warnings: Iterable[str] = (),
) -> Report:
    """Return the report of a prompt. The actions follow from the decisions."""
    decisions = tuple(decisions)
    stable = next((n for n, section in enumerate(sections) if not section.stable), len(sections))
    prefix = joined(sections[:stable]).encode("utf-8", "surrogatepass")
    return Report(
        decisions=decisions,
        order=tuple(section.name for section in sections),
        totals=totals,
        actions=_actions(decisions),
        warnings=tuple(warnings),
        counter=f"{counter.name}/{counter.version}",
        prefix_hash=hashlib.sha256(prefix).hexdigest(),
        over_budget=totals.allowed is not None and totals.prompt > totals.allowed,
    )


def _actions(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Return one line for each section that was reduced."""
    decisions = list(decisions)
    lines = []
    for name in dict.fromkeys([section for section, _, _, _, before, after in decisions if after < before]):
        own = [one for one in decisions if one[0] == name]
        before, after = sum([one[4] for one in own]), sum([one[5] for one in own])
        if after < before:
            lines.append(f"{name}: {before:,} to {after:,} tokens")
    return tuple(lines)
