"""Check that the messages which a line cites support it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim
from rlm.answers.support.model_check import SupportModel
from rlm.answers.support.passages import MAX_PASSAGE_CHARS, Passage
from rlm.lazy_dataclass import dataclass
from rlm.results import ClaimSupport, Support, SupportStatus
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.summary_lines import Line

__all__ = ["COMPUTED", "Checked", "check_lines", "support_of"]

COMPUTED = "it was computed"
"""The reason for which a line without a source was not checked."""
_AROUND = (400, 200, 100)
"""Characters of messages before and after a cited one that are shown with it, less half of its own; fewer if
they do not fit."""
_MOST_AROUND = 20
_SHORT_CHARS = 1_000
"""A longer message is understood alone."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The lines after the check. `model` is the name of the model that checked them, None if words alone were
    compared."""

    lines: tuple[Line, ...]
    model: str | None = None
    notes: tuple[str, ...] = ()


async def check_lines(
    lines: Sequence[Line],
    entries: Sequence[Entry],
    model: SupportModel | None,
    known: Collection[Line] = (),
    *,
    alone: Collection[str] = (),
) -> Checked:
    """Return the lines, doubtful where their messages do not support them. The lines of `known` were checked
    before. Without a `model`, words alone are compared.

    A model is shown short messages with those around them: in talk, one message says little alone. The
    messages with the contents of `alone`, cards of a board, have nothing to do with their neighbours.
    """
    fresh = [at for at, line in enumerate(lines) if line not in known]
    if not fresh:
        return Checked(tuple(lines))
    asked = [lines[at] for at in fresh]
    is_short = [
        len(text) <= _SHORT_CHARS and not entry.card and text not in alone
        for entry in entries
        for text in [entry.message.content]
    ]
    for around in _AROUND:
        claims, passages = _claims_and_passages(asked, entries, is_short, around)
        if model is None or len(model.choose(dict(enumerate(claims, 1)), passages)) == len(claims):
            break
    support = await check_support(claims, passages, model)
    judged = list(lines)
    for at, verdict in zip(fresh, support.claims, strict=True):
        is_doubtful = verdict.status == "unsupported" or not lines[at].names
        judged[at] = replace(lines[at], doubtful=is_doubtful, test=verdict.test)
    return Checked(tuple(judged), support.model, support.notes)


def support_of(
    lines: Sequence[Line],
    markers: Sequence[str | None],
    text: str,
    checked: Checked | None,
    prose: Collection[str] = (),
) -> Support:
    """Return the support of a summary's lines, whose citations have these `markers`, with their places in its
    `text`. Those under the headings `prose` are in paragraphs."""
    numbers = {marker: number for number, marker in enumerate(markers, 1)}
    at = 0
    claims: list[ClaimSupport] = []
    for line in lines:
        shown = line.to_markdown(is_prose=line.heading in prose)
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


def _claims_and_passages(
    asked: Sequence[Line],
    entries: Sequence[Entry],
    is_short: Sequence[bool],
    around: int,
) -> tuple[list[Claim], list[Passage]]:
    """Return the lines as claims, and the messages that they cite and those around them as passages."""
    places = {entry.name: place for place, entry in enumerate(entries)}
    wanted = sorted({places[name] for line in asked for name in line.names})
    windows = {place: _window(entries, is_short, place, around) for place in wanted}
    shown = sorted({one for window in windows.values() for one in window})
    numbers = {place: number for number, place in enumerate(shown, 1)}
    passages = [
        _passage(entries, place, windows.get(place, range(place, place + 1)), numbers, is_row=is_short[place])
        for place in shown
    ]
    claims = [Claim(line.text, tuple(numbers[places[name]] for name in line.names)) for line in asked]
    return claims, passages


def _window(entries: Sequence[Entry], is_short: Sequence[bool], place: int, around: int) -> range:
    """Return the places of the messages that are shown with one: `around` characters before it and after it,
    of the same document. A long message and a card stand alone."""
    first = last = place
    if is_short[place]:
        for step in (-1, 1):
            left, at = around - len(entries[place].message.content) // 2, place + step
            while (
                0 <= at < len(entries)
                and abs(at - place) <= _MOST_AROUND
                and entries[at].document == entries[place].document
                and is_short[at]
                and left > 0
            ):
                left -= len(entries[at].message.content)
                first, last = min(first, at), max(last, at)
                at += step
    return range(first, last + 1)


def _passage(
    entries: Sequence[Entry], place: int, window: range, numbers: Mapping[int, int], *, is_row: bool
) -> Passage:
    """Return a message as a passage, shown with those at the places `window`."""
    entry = entries[place]
    text = entry.message.content
    label = ", ".join(filter(None, (entry.name, entry.message.author, entry.message.created_at)))
    return Passage(
        text[:MAX_PASSAGE_CHARS],
        near="\n".join(
            f"{entries[one].message.author or ''}: {entries[one].message.content}"
            for one in window
            if one != place
        ),
        label=label,
        window=(numbers[window[0]], numbers[window[-1]]) if is_row else None,
        follows=place - 1 in numbers and entries[place - 1].document == entry.document,
    )
