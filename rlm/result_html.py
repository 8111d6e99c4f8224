"""Shows a result as HTML for notebooks. Nothing in it is live: no link, no script, no picture."""

from __future__ import annotations

from collections.abc import Iterable

from rlm.escaping import html_answer, html_text
from rlm.lazy_dataclass import dataclass

__all__ = ["HtmlSource", "html_result"]

_SHOWN = 3
"""Warnings that are shown before the others are folded away."""


@dataclass(frozen=True, slots=True)
class HtmlSource:
    """A citation as it is shown. `remark` says what a reader must know before the quote."""

    marker: str
    place: str
    quote: str
    remark: str = ""
    is_bad: bool = False


def html_result(
    answer: str | None, missing: str, sources: Iterable[HtmlSource] | None, account: str, notes: Iterable[str]
) -> str:
    """Return a result as one `div`. `missing` takes the place of an answer that is None; `sources` of None
    are not mentioned. All text is escaped. Colours are the viewer's own, so that dark themes stay dark."""
    parts = [
        f"<p style='white-space: pre-wrap'>{html_answer(answer)}</p>"
        if answer is not None
        else f"<p><em>{html_text(missing)}</em></p>"
    ]
    if sources is not None:
        rows = "".join(map(_row, sources)) or "<li>none</li>"
        parts.append(f"<hr><strong>Sources</strong><ul>{rows}</ul>")
    notes = list(notes)
    shown = "".join(f"<li>{html_text(note)}</li>" for note in notes[:_SHOWN])
    more = "".join(f"<li>{html_text(note)}</li>" for note in notes[_SHOWN:])
    if shown:
        parts.append(f"<ul style='opacity: .8'>{shown}</ul>")
    if more:
        parts.append(
            f"<details><summary>Further notes: {len(notes) - _SHOWN}</summary><ul>{more}</ul></details>"
        )
    parts.append(f"<p style='opacity: .7'><small>{html_text(account)}</small></p>")
    return f"<div style='max-width: 60em'>{''.join(parts)}</div>"


def _row(source: HtmlSource) -> str:
    remark = ""
    if source.remark:
        tag = "strong" if source.is_bad else "em"
        remark = f"<{tag}>{html_text(source.remark)}</{tag}> "
    quote = f"<q>{html_text(source.quote)}</q>" if source.quote else ""
    return (
        f"<li>{html_text(source.marker)} {html_text(source.place)} {remark}"
        f"<span style='opacity: .85'>{quote}</span></li>"
    )
