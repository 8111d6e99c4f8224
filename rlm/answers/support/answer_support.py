"""Checks the claims of a run's answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import claims_of
from rlm.answers.support.model_check import SupportModel
from rlm.answers.support.passages import passages_of
from rlm.lazy_dataclass import dataclass
from rlm.results import Citation, ClaimSupport, Support
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["AnswerSupport", "asks_for_computing"]

_COMPUTED = re.compile(
    r"\b(?:how (?:many|much|often|long|old|far)|number of|count|total|sum|average|mean|median|difference"
    r"|percent|percentage|share|most|least|longest|shortest|largest|smallest|highest|lowest|fewest"
    r"|wie ?viele?|wie oft|anzahl|summe"
    r"|combien|nombre|cu[aá]nt[oa]s?|quant[ie]"
    r"|quantos|сколько)\b|多少|几|幾|いくつ|何[人件回個年]|몇|얼마",
    re.IGNORECASE,
)
"""Questions whose answer may be a number that no passage has."""
_MAX_TASK = 4_000
_LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """Checks the answer to `task` over `body`, by its words, and by `model` if there is one."""

    task: str
    body: Body
    model: SupportModel | None = None
    is_extractive: bool = False

    @property
    def _is_computed(self) -> bool:
        return asks_for_computing(self.task)

    async def check(self, value: Any, citations: Sequence[Citation]) -> Support:
        """Return whether the citations support the answer."""
        claims = claims_of(value, len(citations))
        passages = passages_of(citations, self.body)
        is_computed = self._is_computed or not isinstance(value, str) or len(value.split()) == 1
        support = await check_support(claims, passages, self.model, is_computed=is_computed)
        for chosen, reason in (
            ([one.seen for one in citations], "it was seen on a page, which no text verifies"),
            ([one.rows_place is not None for one in citations], "it was computed over rows"),
        ):
            numbers = {number for number, is_chosen in enumerate(chosen, 1) if is_chosen}
            if numbers:
                support = _unchecked(support, _cites(numbers), reason)
        if self.is_extractive:
            return _unchecked(support, lambda _: True, "it was computed without a model")
        return _unchecked(support, self._is_label, "it names a class, which no passage needs to name")

    def _is_label(self, claim: ClaimSupport) -> bool:
        """Return whether a claim that words refute is a class (`neutral`), or words of the task."""
        words = claim.text.strip(" .").split()
        if claim.test != "words" or len(words) > _LABEL_WORDS or any(map(str.isdigit, claim.text)):
            return False
        task = self.task[:_MAX_TASK].casefold()
        return claim.text.islower() or all(word.casefold() in task for word in words)


def asks_for_computing(task: str) -> bool:
    """Return whether the answer to a task may be computed: a number or an extreme that no passage states."""
    return _COMPUTED.search(task[:_MAX_TASK]) is not None


def _cites(numbers: Set[int]) -> Callable[[ClaimSupport], bool]:
    """Return the test whether a claim cites one of these, or nothing."""
    return lambda claim: not numbers.isdisjoint(claim.sources or numbers)


def _unchecked(support: Support, chosen: Callable[[ClaimSupport], bool], reason: str) -> Support:
    """Return the support with the chosen unsupported claims unchecked."""
    return replace(
        support,
        claims=tuple(
            replace(one, status="unchecked", test=None, reason=reason)
            if one.status == "unsupported" and chosen(one)
            else one
            for one in support.claims
        ),
    )
