"""How a child says that its slice does not hold the answer, and how that is read back."""

from __future__ import annotations

import re

__all__ = ["NOT_FOUND", "is_not_found"]

NOT_FOUND = "NOT_FOUND"
"""What a child answers, on a line of its own, when its slice does not hold what was asked for."""

_FENCE = re.compile(r"\A(?P<mark>```+|~~~+)[^\n`]*\n(?P<inside>.*?)\n?(?P=mark)\s*\Z", re.DOTALL)
_WRAPPING = r"[\s\"'`*_«»“”‘’\[\](){}<>#]*"
# Some models escape the underscore as Markdown would have it.
_TOKEN = re.compile(
    rf"\A{_WRAPPING}NOT\\?_FOUND{_WRAPPING}(?P<border>[.:;!,—–-]*){_WRAPPING}(?P<rest>.*)\Z", re.DOTALL
)
_REMARK_CHARS = 200
_SENTENCE_BORDER = re.compile(r"[.!?。！？]\s+\S|\n")


def is_not_found(reply: str) -> bool:
    """Whether a reply says NOT_FOUND and nothing else of weight.

    Quotes, emphasis, brackets, a code fence and punctuation around it don't matter, nor does one short
    sentence after it that a line break, a full stop, a colon or a dash sets apart. Anything before it, or
    more after it, makes the reply an answer: losing evidence is worse than keeping a remark. Never raises.
    """
    text = reply.strip()
    fence = _FENCE.match(text)
    found = _TOKEN.match(fence["inside"] if fence else text)
    if found is None:
        return False
    remark = found["rest"].strip()
    if not remark:
        return True
    before = found.string[: found.start("rest")]
    set_apart = "\n" in before or found["border"].strip(",") != ""
    return set_apart and len(remark) <= _REMARK_CHARS and _SENTENCE_BORDER.search(remark) is None
