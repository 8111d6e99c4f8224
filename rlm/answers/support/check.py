"""Decides for each claim of an answer whether its passages support it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rlm.answers.support.claims import MAX_CLAIM_CHARS, MAX_CLAIMS, Claim, claims_of
from rlm.answers.support.model_check import Doubt, SupportModel, UnusableReply
from rlm.answers.support.passages import MAX_PASSAGE_CHARS, Passage, passages_of
from rlm.answers.support.words import missing, words_of
from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.results import Citation, ClaimSupport, Support
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body

__all__ = ["check_answer", "check_support"]

_MAX_CHARS = 400_000
"""Characters of claims and passages that are compared. It takes about two seconds."""
_MAX_NEAR = 2_000
_MIN_EXTRACT = 3
"""Words of a claim that is found word for word in its passage."""


async def check_answer(
    value: Any, citations: Sequence[Citation], body: Body, model: SupportModel | None = None
) -> Support:
    """Return for each claim of an answer whether its citations support it.

    What a page shows as a picture, and what was computed over rows, is stated by no text: such claims are
    unchecked.
    """
    claims = claims_of(value, range(1, len(citations) + 1))
    support = await check_support(claims, passages_of(citations, body), model)
    excuses = {
        number: "it was seen on a page, which no text verifies" if one.seen else "it was computed over rows"
        for number, one in enumerate(citations, 1)
        if one.seen or one.rows_place is not None
    }
    judged = [
        replace(claim, status="unchecked", test=None, reason=reasons[0])
        if claim.status == "unsupported" and (reasons := [excuses[n] for n in claim.sources if n in excuses])
        else claim
        for claim in support.claims
    ]
    return replace(support, claims=tuple(judged))


async def check_support(
    claims: Sequence[Claim], passages: Sequence[Passage], model: SupportModel | None = None
) -> Support:
    """Return for each claim whether its passages support it. Claims cite passages by number, from 1.

    A claim that is word for word in a passage, or whose numbers and names its passages have, is supported.
    Words refute nothing: other claims are unchecked, except those without any quote in the text, which are
    unsupported. With `model`, one call judges the claims that are not word for word in their passages, and
    its judgement counts. If the budget has no room for the call, the model fails or its reply is unusable,
    `notes` say so.
    """
    judged = await run_in_daemon_thread(lambda: _compare(claims, passages), name="rlm-support")
    if model is None:
        return Support(tuple(judged))
    asked = {
        number: claim
        for number, (claim, found) in enumerate(zip(claims, judged, strict=True), 1)
        if found.status != "unsupported"
        and found.test != "extract"
        and len(claim.text) <= MAX_CLAIM_CHARS
        and any(passages[one - 1].found for one in claim.sources)
    }
    if not asked:
        return Support(tuple(judged), model.name)
    # Doubtful claims go first, if there is no room for all.
    by_doubt = dict(sorted(asked.items(), key=lambda one: judged[one[0] - 1].status == "supported"))
    chosen = dict(sorted(model.choose(by_doubt, passages).items()))
    notes, checked_by = [], model.name if chosen else None
    if len(chosen) < len(asked):
        notes.append(
            f"{len(asked) - len(chosen):,} of {len(asked):,} claims did not fit into the model's check: only "
            "their words were compared"
        )
    try:
        doubts = await model.find_unsupported(chosen, passages) if chosen else {}
    except UnusableReply as error:
        notes.append(f"the check by {model.name} was unusable: {error}")
        for number, claim in chosen.items():
            if judged[number - 1].status == "supported":
                judged[number - 1] = _unchecked(claim, "the model's check was unusable")
    except (BudgetExhausted, ModelError) as error:
        notes.append(f"no model checked the claims, only words: {cause_of(error)}")
        checked_by = None
    else:
        for number, claim in chosen.items():
            judged[number - 1] = _judged(claim, doubts.get(number))
    return Support(tuple(judged), checked_by, tuple(notes))


def _judged(claim: Claim, doubt: Doubt | None) -> ClaimSupport:
    """Return what the model says of a claim."""
    if doubt is None:
        return replace(_unchecked(claim, ""), status="supported", test="model")
    if claim.is_computed and not doubt.is_contradicted:
        return _unchecked(claim, f"{doubt.reason}; it may be computed")
    return replace(_unchecked(claim, doubt.reason), status="unsupported", test="model")


def _compare(claims: Sequence[Claim], passages: Sequence[Passage]) -> list[ClaimSupport]:
    """Compare each claim with its passages, without a model."""
    texts = [one.text[:MAX_PASSAGE_CHARS] for one in passages]
    folded = [" ".join(one.split()) for one in texts]
    around = ["\n".join(part[:_MAX_NEAR] for part in (one.label, one.shown, one.near)) for one in passages]
    words = cache(lambda place: words_of(f"{texts[place]}\n{around[place]}"))
    left = _MAX_CHARS
    judged: list[ClaimSupport] = []
    seen: set[int] = set()
    for place, claim in enumerate(claims):
        found = [one - 1 for one in claim.sources if passages[one - 1].found]
        left -= len(claim.text) + sum(len(texts[one]) + len(around[one]) for one in found if one not in seen)
        seen.update(found)
        if left < 0 or place >= MAX_CLAIMS or len(claim.text) > MAX_CLAIM_CHARS:
            judged.append(_unchecked(claim, "it is too long to be checked"))
        elif not claim.sources:
            judged.append(_unchecked(claim, "it cites no source"))
        elif not found:
            reason = "the text does not hold its quote"
            judged.append(replace(_unchecked(claim, reason), status="unsupported", test="words"))
        elif _is_extract(claim.text, [folded[one] for one in found]):
            judged.append(replace(_unchecked(claim, ""), status="supported", test="extract"))
        else:
            lacking = missing(claim.text, map(words, found))
            if lacking is None:
                judged.append(_unchecked(claim, "it has no number or name to compare"))
            elif lacking:
                judged.append(_unchecked(claim, f"not in its source: {', '.join(lacking)}"))
            else:
                judged.append(replace(_unchecked(claim, ""), status="supported", test="words"))
    return judged


def _is_extract(claim: str, texts: Sequence[str]) -> bool:
    folded = " ".join(claim.split()).strip(' "“”.…')
    return folded.count(" ") >= _MIN_EXTRACT - 1 and any(folded in text for text in texts)


def _unchecked(claim: Claim, reason: str) -> ClaimSupport:
    return ClaimSupport(claim.text, claim.sources, "unchecked", None, reason, claim.start, claim.end)
