"""The headings above a place of the body."""

from __future__ import annotations

from sandbox.in_kernel.body import Body
from sandbox.in_kernel.sections import section_of

__all__ = ["heading_path"]


def heading_path(body: Body, char: int) -> tuple[str, ...]:
    """The headings (in code: the definition) over `char`, the outermost first; empty where there are none."""
    section = section_of(body, char)
    return () if section["kind"] == "document" else (section["title"],)
