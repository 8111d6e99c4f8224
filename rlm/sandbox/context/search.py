"""Regular expression search over the mapped body, in the driver's process."""

from __future__ import annotations

import re2

from rlm.sandbox.in_kernel.searching.pattern import understand
from rlm.sandbox.in_kernel.searching.scanner import Scanner
from rlm.sandbox.text.body import Body, Span

__all__ = ["search_body"]


def search_body(body: Body, pattern: str, max_hits: int) -> list[Span]:
    """Return the first `max_hits` matches of a regular expression, in order.

    Raises ValueError for a pattern that cannot be searched for.
    """
    spans, _ = Scanner(body).first(understand(pattern, ascii_body=body.ascii, engine=re2), max_hits)
    return [Span(*span) for span in spans]
