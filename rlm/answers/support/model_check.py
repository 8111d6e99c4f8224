"""Asks a model which claims their passages do not support."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.metered_model import estimate, messages_of
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType, SchemaError
from rlm.answers.support.claims import Claim
from rlm.answers.support.passages import Passage
from rlm.answers.thinking import without_reasoning
from rlm.models.base import Model, Request
from rlm.playback.border import call_digest
from rlm.prompts import BudgetExceeded
from rlm.prompts.recipes.support import (
    ClaimText,
    PassageText,
    SupportInput,
    planted_claim,
    support_prompt,
)

__all__ = ["Doubt", "SupportModel", "UnusableReply"]

_PROMPT_TOKENS = 60_000
_INSTRUCTIONS = 700
"""Tokens of the prompt besides claims and passages."""
_FRAME = 45
"""Tokens around a claim or a passage."""
_ROW_FRAME = 8
"""Tokens around a passage that is one line of a block."""
_SHOWN_CHARS = 6_000
_NEAR_CHARS = 300
_OUTPUT_TOKENS = 4_000
_OUTPUT_EACH = 60
_MAX_REASON = 300
_DIGITS = re.compile(r"\b[1-9][0-9]{0,8}\b")
_UNSUPPORTED = {
    "type": "object",
    "properties": {
        "unsupported": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "claim": {"type": "integer"},
                    "reason": {"type": "string"},
                    "contradicted": {"type": "boolean"},
                },
                "required": ["claim", "reason"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["unsupported"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a claim is not supported. `is_contradicted`: its passages say something else."""

    reason: str
    is_contradicted: bool


class UnusableReply(Exception):
    """The model's reply decides nothing. The message is the reason."""


@dataclass(frozen=True, slots=True)
class SupportModel:
    """Checks claims within the budget of a run. A call that the journal holds is not made again.

    Claims and passages are numbered from 1.
    """

    model: Model
    run_context: RunContext

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    def choose(self, claims: Mapping[int, Claim], passages: Sequence[Passage]) -> dict[int, Claim]:
        """Return the claims, in their order, that fit one prompt with their passages."""
        left = self._room(len(claims)) - _INSTRUCTIONS
        shown: set[int] = set()
        chosen: dict[int, Claim] = {}
        for number, claim in claims.items():
            new = _with_windows(claim.sources, passages) - shown
            tokens = estimate(claim.text) + _FRAME + _tokens_of(new, passages)
            if tokens <= left:
                left -= tokens
                shown |= new
                chosen[number] = claim
        return chosen

    async def find_unsupported(
        self, claims: Mapping[int, Claim], passages: Sequence[Passage]
    ) -> dict[int, Doubt]:
        """Return the claims that their passages do not support, each with the reason. Raises BudgetExhausted
        and ModelError, and UnusableReply for a reply that is not what was asked for."""
        texts = [ClaimText(number, claim.text, claim.sources) for number, claim in claims.items()]
        planted = _plant(texts, passages)
        reply = await self._ask(planted, passages)
        found = {
            one["claim"]: Doubt(
                " ".join(one["reason"].split())[:_MAX_REASON], one.get("contradicted") is not False
            )
            for one in reply["unsupported"]
        }
        # The claims were renumbered around the planted one.
        numbers = {place: one.number for place, one in enumerate(planted, 1)}
        if any(place not in numbers for place in found):
            raise UnusableReply("it names claims that do not exist")
        reasons = {numbers[place]: reason for place, reason in found.items()}
        if reasons.pop(0, None) is None:
            raise UnusableReply("it missed a claim that was put in to test it")
        return reasons

    def _room(self, claims: int) -> int:
        return min(_PROMPT_TOKENS, self.model.window.context - self._output(claims))

    def _output(self, claims: int) -> int:
        return max(1, min(self.model.window.output, _OUTPUT_TOKENS, 500 + _OUTPUT_EACH * claims))

    async def _ask(self, texts: Sequence[ClaimText], passages: Sequence[Passage]) -> Any:
        texts = [replace(one, number=place) for place, one in enumerate(texts, 1)]
        cited = sorted(_with_windows([number for one in texts for number in one.passages], passages))
        output = self._output(len(texts))
        try:
            prompt = support_prompt(
                SupportInput(
                    texts,
                    [
                        PassageText(
                            number,
                            _text_of(passages[number - 1]),
                            passages[number - 1].label,
                            _near_of(passages[number - 1]),
                            passages[number - 1].window is not None,
                            passages[number - 1].follows,
                        )
                        for number in cited
                    ],
                    self._room(len(texts)),
                )
            )
        except BudgetExceeded as error:
            raise UnusableReply(f"its prompt does not fit ({error})") from error
        request = Request(
            "check", messages_of(prompt.system, prompt.user), output, task="", schema=_UNSUPPORTED
        )
        async with seconds_left(self.run_context.budget):
            call = await self.run_context.metered.ask(
                self.model,
                request,
                prompt_tokens=prompt.report.totals.prompt,
                asked=call_digest(
                    "check",
                    self.model.name,
                    [(one.text, *(passages[n - 1].text for n in one.passages)) for one in texts],
                ),
                event_fields={"claims": len(texts)},
            )
        if call.reply.finish_reason != "stop":
            raise UnusableReply(f"its reply is not complete ({call.reply.finish_reason})")
        try:
            return await AnswerType(_UNSUPPORTED).read(without_reasoning(call.reply.text).strip())
        except SchemaError as error:
            raise UnusableReply(str(error)) from error


def _plant(texts: Sequence[ClaimText], passages: Sequence[Passage]) -> list[ClaimText]:
    """Return the claims with one, number 0, that no passage supports: one of them with a wrong number, or a
    sentence with one. Its place cannot be guessed by the author of a text, because every text changes it."""
    cited = {number: passages[number - 1] for one in texts for number in one.passages}
    digest = hashlib.sha256()
    for shown in (*(one.text for one in texts), *(one.text for one in cited.values())):
        digest.update(shown.encode("utf-8", "surrogatepass"))
    drawn = int.from_bytes(digest.digest()[:8], "big")
    seen = {*map(str, range(max(len(passages), len(texts)) + 2))}
    seen.update(*(_DIGITS.findall(one.text) for one in texts))
    figures = {number: set(_DIGITS.findall(f"{one.text} {one.shown}")) for number, one in cited.items()}
    for source, one in cited.items():
        seen.update(figures[source], _DIGITS.findall(f"{one.label} {one.near}"))
    place = drawn % (len(texts) + 1)
    stated = [
        (claim, number)
        for claim in (*texts[place:], *texts[:place])
        for number in _DIGITS.finditer(claim.text)
        if any(number[0] in figures[one] for one in claim.passages)
    ]
    if not stated:
        planted = ClaimText(0, planted_claim(_other_number(2, drawn, seen)), texts[0].passages)
    else:
        # One figure may be the number of a thing. A longer number is what a claim states.
        claim, number = next((one for one in stated if len(one[1][0]) > 1), stated[0])
        wrong = _other_number(int(number[0]), drawn, seen)
        text = f"{claim.text[: number.start()]}{wrong}{claim.text[number.end() :]}"
        planted = ClaimText(0, text, claim.passages)
    return [*texts[:place], planted, *texts[place:]]


def _other_number(number: int, drawn: int, seen: Collection[str]) -> int:
    """Return a number that is nowhere else in the prompt."""
    number += 1 + drawn % 7
    while str(number) in seen:
        number += 1
    return number


def _with_windows(numbers: Iterable[int], passages: Sequence[Passage]) -> set[int]:
    """Return the numbers of the passages that are shown if these are."""
    shown: set[int] = set()
    for number in numbers:
        first, last = passages[number - 1].window or (number, number)
        shown.update(range(first, last + 1))
    return shown


def _text_of(passage: Passage) -> str:
    return (passage.shown or passage.text)[:_SHOWN_CHARS]


def _near_of(passage: Passage) -> str:
    """Return what stands next to a passage, if it is not shown in a row of messages."""
    return passage.near[:_NEAR_CHARS] if passage.window is None else ""


def _tokens_of(numbers: Iterable[int], passages: Sequence[Passage]) -> int:
    """Return the tokens of these passages in a prompt."""
    total = 0
    for number in numbers:
        one = passages[number - 1]
        frame = _FRAME if one.window is None else _ROW_FRAME
        total += frame + estimate(_text_of(one) + one.label[:200] + _near_of(one))
    return total
