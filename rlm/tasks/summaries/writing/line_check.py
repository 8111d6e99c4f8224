"""Check that the messages which a line cites support it, and let a model mend the lines that they do not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim
from rlm.answers.support.mending import mend_claims
from rlm.answers.support.model_check import SupportModel
from rlm.answers.support.passages import MAX_PASSAGE_CHARS, Passage
from rlm.results import ClaimSupport, Support, SupportStatus
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.summary_lines import Line

__all__ = ["COMPUTED", "Checked", "check_lines", "support_of"]

COMPUTED = "it was computed"
"""The reason for which a line without a source was not checked."""
_NEAR_CHARS = 400


@dataclass(frozen=True, slots=True)
class Checked:
    """The lines after the check, `mended` of them corrected. `model` is the name of the model that checked
    them, None if words alone were compared."""

    lines: tuple[Line, ...]
    model: str | None = None
    notes: tuple[str, ...] = ()
    mended: int = 0


async def check_lines(
    lines: Sequence[Line],
    entries: Sequence[Entry],
    model: SupportModel | None,
    known: Collection[Line] = (),
) -> Checked:
    """Return the lines, mended or doubtful where their messages do not support them. The lines of `known`
    were checked before. Without a `model`, words alone are compared and nothing is mended."""
    fresh = [at for at, line in enumerate(lines) if line not in known]
    if not fresh:
        return Checked(tuple(lines))
    places = {entry.name: place for place, entry in enumerate(entries)}
    cited = sorted({places[name] for at in fresh for name in lines[at].names})
    numbers = {entries[place].name: number for number, place in enumerate(cited, 1)}
    passages = [_passage(entries, place) for place in cited]
    claims = [Claim(lines[at].text, tuple(numbers[name] for name in lines[at].names)) for at in fresh]
    speakers = sorted({entry.message.author for entry in entries if entry.message.author})
    corpus = [entry.message.content for entry in entries]
    support = await check_support(claims, passages, model, speakers=speakers, corpus=corpus)
    mended: Sequence[Claim] = claims
    if model is not None:
        mended, support = await mend_claims(
            claims, support, passages, model, speakers=speakers, corpus=corpus
        )
    judged = list(lines)
    for at, claim, verdict in zip(fresh, mended, support.claims, strict=True):
        is_doubtful = verdict.status == "unsupported" or not claim.sources
        judged[at] = replace(lines[at], text=claim.text, doubtful=is_doubtful, test=verdict.test)
    changed = sum(old.text != new.text for old, new in zip(claims, mended, strict=True))
    return Checked(tuple(judged), support.model, support.notes, changed)


def support_of(
    lines: Sequence[Line], markers: Sequence[str | None], text: str, checked: Checked | None
) -> Support:
    """Return the support of a summary's lines, whose citations have these `markers`, with their places in its
    `text`."""
    numbers = {marker: number for number, marker in enumerate(markers, 1)}
    at = 0
    claims: list[ClaimSupport] = []
    for line in lines:
        shown = line.to_markdown()
        start = text.find(shown, at)
        at = start + len(shown) if start >= 0 else at
        place = (start, at) if start >= 0 else (None, None)
        sources = tuple(numbers[f"[{name}]"] for name in line.names if f"[{name}]" in numbers)
        status: SupportStatus = (
            "unsupported" if line.doubtful and sources else "supported" if line.test else "unchecked"
        )
        reason = "" if sources or line.test else COMPUTED if not line.doubtful else "it cites no source"
        claims.append(ClaimSupport(line.text, sources, status, line.test, reason, *place))
    return Support(tuple(claims), checked.model if checked else None, checked.notes if checked else ())


def _passage(entries: Sequence[Entry], place: int) -> Passage:
    entry = entries[place]
    text = entry.message.content
    before = entries[place - 1].message.content[-_NEAR_CHARS:] if place else ""
    after = entries[place + 1].message.content[:_NEAR_CHARS] if place + 1 < len(entries) else ""
    label = ", ".join(filter(None, (entry.name, entry.message.author, entry.message.created_at)))
    return Passage(
        text[:MAX_PASSAGE_CHARS],
        near="\n".join(filter(None, (before, after))),
        label=label,
        complete=len(text) <= MAX_PASSAGE_CHARS,
    )
