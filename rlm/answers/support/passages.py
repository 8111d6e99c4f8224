"""The passages that an answer cites, with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.results import Citation
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["MAX_PASSAGE_CHARS", "Passage", "passages_of"]

MAX_PASSAGE_CHARS = 12_000
"""Characters of one passage that are compared."""
_NEAR_CHARS = 400


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited passage. `near` is the text around it. `label` is its place, with author and time of a message.

    `complete` is False if the passage was cut. `found` is False if the text does not hold it. A message of a
    conversation says little alone: `window` holds the numbers, from 1, of the first and the last passage that
    a model is shown with it. They are the messages around it, and each of them is a passage, too.
    `follows`: it stands right after the passage before it in the text.
    """

    text: str
    near: str = ""
    label: str = ""
    complete: bool = True
    found: bool = True
    window: tuple[int, int] | None = None
    follows: bool = False


def passages_of(citations: Sequence[Citation], body: Body) -> tuple[Passage, ...]:
    """Return the passage of each citation, in order."""
    return tuple(_passage(citation, body) for citation in citations)


def _passage(citation: Citation, body: Body) -> Passage:
    start, end = citation.start, citation.end
    if not citation.verified or start is None or end is None:
        return Passage(citation.quote, label=citation.place, found=False)
    document = body.document_at(start)
    low, high = (0, body.chars) if document is None else (document.start, document.end)
    cut = min(end, start + MAX_PASSAGE_CHARS)
    before = body.text(max(low, start - _NEAR_CHARS), start) if start > low else ""
    after = body.text(end, min(high, end + _NEAR_CHARS)) if end < high else ""
    headings = " > ".join(citation.heading_path)
    return Passage(
        body.text(start, cut),
        near="\n".join(part for part in (before, after) if part),
        label=f"{citation.place}; {headings}" if headings else citation.place,
        complete=cut == end,
    )
