"""Define packs, the passages that retrieval returns and prompts cite, and citations, what is told of them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Citation", "Pack"]


class Pack(NamedTuple):
    """A part of a document that matches a query. A tuple, because there may be tens of thousands.

    `pack_id` names document and place: the same part has the same id in every query. `doc_id` is the
    document's number or name, `document` its name if that is known besides. `score` is that of its passage
    (higher is better), `order` its rank from 0. `heading_path` leads from the top of the document to the
    first hit. `hits` are the places of the query's words, in any form, and of its quoted phrases.

    `start`, `end` and the hits are characters of the body, and `document_start` is where the document begins
    in it: 0 if they are characters of the document. A pack whose `end` is 0 has no known place.
    """

    pack_id: str
    doc_id: str
    text: str
    score: float = 0.0
    order: int = 0
    heading_path: tuple[str, ...] = ()
    hits: tuple[tuple[int, int], ...] = ()
    start: int = 0
    end: int = 0
    document: str = ""
    document_start: int = 0


class Citation(NamedTuple):
    """The source of a pack's text, and the marker that the prompt shows for it.

    `span` is the place of the text in its document, `span_offsets` are the hits in it. Both are in characters
    of the document.
    """

    marker: str
    pack_id: str
    doc_id: str
    heading_path: tuple[str, ...] = ()
    span_offsets: tuple[tuple[int, int], ...] = ()
    span: tuple[int, int] | None = None

    @classmethod
    def of(cls, marker: str, pack: Pack) -> Citation:
        """Return the citation of a pack, under its document's name."""
        shift = pack.document_start
        return cls(
            marker,
            pack.pack_id,
            pack.document or pack.doc_id,
            pack.heading_path,
            tuple([(max(start - shift, 0), max(end - shift, 0)) for start, end in pack.hits]),
            (pack.start - shift, pack.end - shift) if pack.end else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return marker, pack_id, doc_id, heading_path, and span_offsets and span if they are known."""
        data = {**self._asdict(), "heading_path": list(self.heading_path)}
        for name in ("span_offsets", "span"):
            value = data.pop(name)
            if value:
                data[name] = [list(part) if isinstance(part, tuple) else part for part in value]
        return data
