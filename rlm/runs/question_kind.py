"""Tells from the words of a question whether Python should compute its answer."""

from __future__ import annotations

import re

from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["counts_records"]

_RECORD_KINDS = frozenset({"csv", "json", "jsonl"})
_MIN_LINES = 60
"""With fewer lines a model counts about as well as Python."""
_AGGREGATE = re.compile(
    r"\bhow (?:many|often|much in total)\b|\bcount\b|\bnumber of\b|\b(?:sum|total|average|mean|median)\b"
    r"|\b(?:most|least) (?:often|frequent|common)|\bper (?:month|day|year|week|person|author)\b"
    r"|\b(?:highest|lowest|largest|smallest|earliest|latest|longest|shortest)\b|\bwie (?:viele|oft)\b"
    r"|\bcombien\b|\bcuánt[oa]s\b",
    re.IGNORECASE,
)


def counts_records(task: str, body: Body) -> bool:
    """Return whether `task` asks for a count, a sum or an extreme over many records. A model that reads them
    all at once miscounts; a few lines of Python do not."""
    if body.lines < _MIN_LINES or _AGGREGATE.search(task) is None:
        return False
    kinds = {document.kind for document in body.documents}
    return bool(kinds & _RECORD_KINDS)
