"""Recognize an answer that says that the text does not hold what was asked.

The one rule for children, direct calls, sub-RLMs, questions and research.
"""

from __future__ import annotations

import re

__all__ = ["NOT_FOUND", "is_not_found", "states_absence"]

NOT_FOUND = "NOT_FOUND"
"""The reply of a child, on a line of its own, if its slice does not hold the answer."""

_NOT_IN_DOCUMENTS = "not in the documents"
"""The start of a root's answer when it found none, as its prompt asks."""
_FENCE = re.compile(r"\A(?P<mark>```+|~~~+)[^\n`]*\n(?P<inside>.*?)\n?(?P=mark)\s*\Z", re.DOTALL)
_WRAPPING = r"[\s\"'`*_«»“”‘’\[\](){}<>#]*"
# Some models escape the underscore as Markdown would have it.
_TOKEN = re.compile(
    rf"\A{_WRAPPING}NOT\\?_FOUND{_WRAPPING}(?P<border>[.:;!,—–-]*){_WRAPPING}(?P<rest>.*)\Z", re.DOTALL
)
_STATEMENT = re.compile(
    rf"\A{_WRAPPING}{_NOT_IN_DOCUMENTS}(?:{_WRAPPING}[.:;!—–-]|{_WRAPPING}\Z)", re.IGNORECASE
)
_REMARK_CHARS = 200
_SENTENCE_BORDER = re.compile(r"[.!?。！？]\s+\S|\n")


def is_not_found(reply: str) -> bool:
    """Return whether a reply says that the answer is not there. Never raises.

    A root says it by a text that begins with `Not in the documents:`, whatever follows. A child says
    NOT_FOUND and nothing else of weight: quotes, emphasis, brackets, punctuation and a code fence around it
    are ignored, and so are lines that begin with `Note:`, and one short sentence after it, if a line break,
    full stop, colon or dash separates it. Anything before it, or more after it, makes the reply an answer,
    because losing evidence is worse than keeping a remark.
    """
    text = reply.strip()
    if states_absence(text):
        return True
    fence = _FENCE.match(text)
    found = _TOKEN.match(fence["inside"] if fence else text)
    if found is None:
        return False
    remark = found["rest"].strip()
    if all(line.lstrip().startswith("Note:") for line in remark.splitlines() if line.strip()):
        return True  # remarks in the form that the prompt asks for, or none
    before = found.string[: found.start("rest")]
    set_apart = "\n" in before or found["border"].strip(",") != ""
    return set_apart and len(remark) <= _REMARK_CHARS and _SENTENCE_BORDER.search(remark) is None


def states_absence(answer: str) -> bool:
    """Return whether an answer is a statement for its reader that begins with `Not in the documents`."""
    return _STATEMENT.match(answer.strip()) is not None
