"""The headings above a place of the body."""

from __future__ import annotations

from sandbox.in_kernel.body import Body
from sandbox.in_kernel.sections import section_of

__all__ = ["heading_path"]

_SEARCHED = 1 << 20
"""Characters of a document up to which headings that its index does not hold are looked for."""


def heading_path(body: Body, char: int) -> tuple[str, ...]:
    """The headings over `char`, the outermost first; in code, and where the index holds no headings, the
    nearest heading or definition above. Empty where there is nothing of the kind."""
    path = body.heading_path(char)
    document = body.document_at(char)
    if path or document is None or document.end - document.start > _SEARCHED:
        return path
    section = section_of(body, char)
    return (section["title"],) if section["kind"] in ("heading", "code") else ()
