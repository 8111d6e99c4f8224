"""Lets a model correct the claims that their passages do not support, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim
from rlm.answers.support.model_check import SupportModel, UnusableReply
from rlm.answers.support.passages import Passage
from rlm.citation_markers import marker, marks_in
from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.results import Support

__all__ = ["mend_claims", "with_texts"]


async def mend_claims(
    claims: Sequence[Claim],
    support: Support,
    passages: Sequence[Passage],
    model: SupportModel,
    *,
    speakers: Sequence[str] = (),
    corpus: Sequence[str] = (),
    is_computed: bool = False,
) -> tuple[tuple[Claim, ...], Support]:
    """Return the claims with those that were corrected, and the support of all.

    Only unsupported claims are sent, in one call. A correction may be another text, or the same with passages
    that prove it. It is checked as the claims were, by a second call if `support` is a model's, and replaces
    its claim only if it is supported. A claim that is not corrected stays, and stays unsupported.
    """
    faulty = {
        number: claim
        for number, (claim, one) in enumerate(zip(claims, support.claims, strict=True), 1)
        if one.status == "unsupported"
        and any(passages[source - 1].found for source in (*one.sources, *claim.candidates))
    }
    faulty = model.choose(faulty, passages, mend=True)
    if not faulty:
        return tuple(claims), support
    reasons = {number: support.claims[number - 1].reason for number in faulty}
    try:
        found = await model.correct(faulty, reasons, passages)
    except (BudgetExhausted, ModelError, UnusableReply) as error:
        why = cause_of(error) if not isinstance(error, UnusableReply) else str(error)
        note = f"unsupported claims were not corrected: {why}"
        return tuple(claims), replace(support, notes=(*support.notes, note))
    corrected = {
        number: replace(faulty[number], text=one.text, sources=one.passages)
        for number, one in found.items()
        if one.text and (one.text, set(one.passages)) != (faulty[number].text, set(faulty[number].sources))
    }
    if not corrected:
        return tuple(claims), support
    again = await check_support(
        list(corrected.values()),
        passages,
        model if support.model is not None else None,
        speakers=speakers,
        corpus=corpus,
        is_computed=is_computed,
    )
    mended, judged = list(claims), list(support.claims)
    for number, one in zip(corrected, again.claims, strict=True):
        if one.status == "supported":
            mended[number - 1], judged[number - 1] = corrected[number], one
    notes = tuple(dict.fromkeys([*support.notes, *again.notes]))
    return tuple(mended), replace(support, claims=tuple(judged), notes=notes)


def with_texts(
    answer: str, claims: Sequence[Claim], mended: Sequence[Claim], support: Support
) -> tuple[str, Support]:
    """Return the answer with the texts of corrected claims in their places, and the support with the new
    places. The marks of a corrected claim follow its text."""
    pieces: list[str] = []
    judged = []
    at = length = 0
    for claim, new, one in zip(claims, mended, support.claims, strict=True):
        if claim.start is None or claim.end is None:
            judged.append(one)
            continue
        before = answer[at : claim.start]
        text = answer[claim.start : claim.end]
        if (new.text, new.sources) != (claim.text, claim.sources):
            marks = "".join(map(marker, new.sources)) if any(marks_in(text)) else ""
            text = f"{new.text} {marks}".rstrip()
        start = length + len(before)
        pieces += [before, text]
        length = start + len(text)
        at = claim.end
        judged.append(replace(one, start=start, end=length))
    return "".join([*pieces, answer[at:]]), replace(support, claims=tuple(judged))
