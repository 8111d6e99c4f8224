"""Regular expression search over the mapped body, in the driver's process."""

from __future__ import annotations

from rlm.sandbox.text.body import Body, Span
from rlm.sandbox.text.search import Scanner
from rlm.sandbox.text.search_pattern import compile_pattern

__all__ = ["search_body"]


def search_body(body: Body, pattern: str, max_hits: int) -> list[Span]:
    """Return the first `max_hits` matches of a regular expression, in order.

    Raises ValueError for a pattern that cannot be searched for.
    """
    spans, _ = Scanner(body).first(compile_pattern(pattern, ascii_body=body.ascii), max_hits)
    return [Span(*span) for span in spans]
