"""Decides for each claim of an answer whether its passages support it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from rlm.answers.support.claims import MAX_CLAIM_CHARS, MAX_CLAIMS, Claim
from rlm.answers.support.model_check import Doubt, SupportModel, UnusableReply
from rlm.answers.support.passages import MAX_PASSAGE_CHARS, Passage
from rlm.answers.support.word_check import SupportCheck
from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.results import ClaimSupport, Support, SupportStatus
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread

__all__ = ["check_support"]

_MAX_CHARS = 400_000
"""Characters of claims and passages that are compared. It takes about two seconds."""
_MAX_AGAIN = 30_000_000
"""Characters of passages, counted for each claim that cites them. It takes about two seconds."""
_MAX_NEAR = 2_000
_AT_ONCE_CHARS = 30_000
"""Characters that are compared in the event loop, in about 10 ms. More take a thread."""
_FEW_DOUBTS = 4
_MOST_DOUBTS = 1 / 3
"""The share of claims that a model may doubt. If it doubts more, the fault is in what it was shown."""
_NUMBER_WORDS = re.compile(
    r"\b(?:three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety|hundred|thousand|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+zig"
    r"|hundert|tausend|trois|quatre|cinq|six|sept|huit|neuf|dix|vingt|cent|mille|tres|cuatro|cinco|seis"
    r"|siete|ocho|nueve|diez|veinte|cien|mil)\b",
    re.IGNORECASE,
)


async def check_support(
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    model: SupportModel | None = None,
    *,
    speakers: Sequence[str] = (),
    corpus: Sequence[str] = (),
    is_computed: bool = False,
) -> Support:
    """Return for each claim whether its passages support it. Claims cite passages by number, from 1.

    Words, numbers, names and negations are always compared. With `model`, one call then judges the claims
    that are not word for word in their passages, and its judgement counts. If its reply is unusable, claims
    that words did not refute are unchecked. If the budget has no room for the call, or the model fails, the
    words decide. `notes` say so. The names of `speakers` prove nothing. `corpus` holds texts that tell how
    rare a word is, by default the passages. `is_computed`: numbers may come from a computation, so a number
    that is not in the passages refutes nothing.
    """
    chars = _chars(claims, passages)
    if chars > _AT_ONCE_CHARS:
        judged = await run_in_daemon_thread(
            lambda: _compare(claims, passages, speakers, corpus, is_computed), name="rlm-support"
        )
    else:
        judged = _compare(claims, passages, speakers, corpus, is_computed)
    if model is None:
        return Support(tuple(judged))
    asked = {
        number: claim
        for number, (claim, found) in enumerate(zip(claims, judged, strict=True), 1)
        if found.test == "words" or (found.test is None and _can_be_asked(claim, passages))
    }
    return await _ask(asked, judged, passages, model)


async def _ask(
    asked: Mapping[int, Claim],
    judged: Sequence[ClaimSupport],
    passages: Sequence[Passage],
    model: SupportModel,
) -> Support:
    if not asked:
        return Support(tuple(judged), model.name)
    # Doubtful claims go first, if there is no room for all.
    by_doubt = dict(sorted(asked.items(), key=lambda one: judged[one[0] - 1].status == "supported"))
    chosen = model.choose(by_doubt, passages)
    notes = []
    if len(chosen) < len(asked):
        notes.append(
            f"{len(asked) - len(chosen):,} of {len(asked):,} claims did not fit into the model's check: only "
            "their words were compared"
        )
    chosen = dict(sorted(chosen.items()))
    if not chosen:
        return Support(tuple(judged), None, tuple(notes))
    claims = list(judged)
    try:
        doubts = await model.find_unsupported(chosen, passages)
    except UnusableReply as error:
        for number in chosen:
            if claims[number - 1].status == "supported":
                claims[number - 1] = replace(
                    claims[number - 1], status="unchecked", test=None, reason="the model's check was unusable"
                )
        return Support(
            tuple(claims), model.name, (*notes, f"the check by {model.name} was unusable: {error}")
        )
    except (BudgetExhausted, ModelError) as error:
        return Support(
            tuple(claims), None, (*notes, f"no model checked the claims, only words: {cause_of(error)}")
        )
    contradicted = {number for number, doubt in doubts.items() if doubt.is_contradicted}
    if len(doubts) > max(_FEW_DOUBTS, len(chosen) * _MOST_DOUBTS):
        # In talk a message says little without those around it. Correcting would cut true claims to nothing.
        doubted = f"{model.name} doubted {len(doubts):,} of {len(chosen):,} claims"
        few = len(contradicted) <= max(_FEW_DOUBTS, len(chosen) * _MOST_DOUBTS)
        kept = contradicted if few else set()
        but = f" but for {len(kept):,} that their passages contradict" if kept else ""
        notes.append(
            f"{doubted}: their passages may be too short to judge them, so only words were compared{but}"
        )
        for number in kept:
            claims[number - 1] = _judged(claims[number - 1], doubts[number])
        return Support(tuple(claims), model.name if kept else None, tuple(notes))
    for number in chosen:
        claims[number - 1] = _judged(claims[number - 1], doubts.get(number))
    return Support(tuple(claims), model.name, tuple(notes))


def _judged(claim: ClaimSupport, doubt: Doubt | None) -> ClaimSupport:
    if doubt is None:
        return replace(claim, status="supported", test="model", reason="")
    return replace(claim, status="unsupported", test="model", reason=doubt.reason)


def _can_be_asked(claim: Claim, passages: Sequence[Passage]) -> bool:
    return len(claim.text) <= MAX_CLAIM_CHARS and any(passages[one - 1].found for one in claim.sources)


def _chars(claims: Sequence[Claim], passages: Sequence[Passage]) -> int:
    return sum(len(one.text) for one in claims) + sum(len(one.text) + len(one.near) for one in passages)


def _compare(
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    speakers: Sequence[str],
    corpus: Sequence[str],
    is_computed: bool,
) -> list[ClaimSupport]:
    """Compare each claim with its passages, without a model."""
    texts = [one.text[:MAX_PASSAGE_CHARS] for one in passages]
    around = [f"{one.label[:_MAX_NEAR]}\n{one.near[:_MAX_NEAR]}" for one in passages]
    left, left_again = _MAX_CHARS, _MAX_AGAIN
    judged: list[ClaimSupport] = []
    seen: set[int] = set()
    with closing(SupportCheck([*texts, *around], speakers, corpus)) as words:
        for place, claim in enumerate(claims):
            sizes = {one: len(texts[one - 1]) + len(around[one - 1]) for one in claim.sources}
            left -= len(claim.text) + sum(size for one, size in sizes.items() if one not in seen)
            left_again -= sum(sizes.values())
            seen.update(sizes)
            too_much = min(left, left_again) < 0 or place >= MAX_CLAIMS or len(claim.text) > MAX_CLAIM_CHARS
            judged.append(
                _unchecked(claim, "it is too long to be checked")
                if too_much
                else _compare_one(claim, passages, words, is_computed)
            )
    return judged


def _compare_one(
    claim: Claim, passages: Sequence[Passage], words: SupportCheck, is_computed: bool
) -> ClaimSupport:
    if not claim.sources:
        return _unchecked(claim, "it cites no source")
    found = [one for one in claim.sources if passages[one - 1].found]
    if not found:
        return _decided(claim, "the text does not hold its quote")
    cited = [one - 1 for one in found]
    if words.holds(claim.text, cited):
        return ClaimSupport(claim.text, claim.sources, "supported", "extract", "", claim.start, claim.end)
    verdict = words.judge(claim.text, cited, [len(passages) + one for one in cited])
    if verdict.is_empty:
        return _unchecked(claim, "it has no words to compare")
    if verdict.supported:
        return _decided(claim, "")
    if is_computed and verdict.only_numbers:
        return _unchecked(claim, f"{verdict.reason}; it may be computed")
    if not all(passages[one - 1].complete for one in found):
        return _unchecked(claim, "its source is too long to be compared")
    if verdict.only_numbers and any(_NUMBER_WORDS.search(passages[one - 1].text) for one in found):
        return _unchecked(claim, f"{verdict.reason}; its source spells numbers out")
    return _decided(claim, verdict.reason)


def _decided(claim: Claim, fault: str) -> ClaimSupport:
    status: SupportStatus = "unsupported" if fault else "supported"
    return ClaimSupport(claim.text, claim.sources, status, "words", fault, claim.start, claim.end)


def _unchecked(claim: Claim, reason: str) -> ClaimSupport:
    return ClaimSupport(claim.text, claim.sources, "unchecked", None, reason, claim.start, claim.end)
