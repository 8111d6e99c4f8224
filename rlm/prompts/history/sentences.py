"""Split a message into sentences that can stand alone in a list."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["MAX_CHARS", "UNSPACED", "pieces"]

MAX_CHARS = 400
"""Maximum length of a piece. Longer ones are split at a word."""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana, Han
    "\U00020000-\U0003ffff"  # rarer Han
)
"""Scripts without spaces between words, as the inside of a character class."""

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_END = re.compile(r"(?<=[.!?…])['\")\]]*\s+(?=[^\s])|(?<=[。！？])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no|fig|mr|mrs|ms|dr|st|sec|ver)|\b[A-Z]|^\W*\d+)\.$", re.IGNORECASE
)
_LIST_MARK = re.compile(r"^\s*(?:[-*+•>#]+|\d+[.)]|\[[ xX]\])\s+")
_BLANK = re.compile(r"\s+")


def pieces(text: str) -> Iterator[str]:
    """Yield the sentences, lines and fenced code blocks of `text`, in order.

    White space is collapsed except in code.
    """
    at = 0
    for fence in _FENCE.finditer(text):
        yield from _split_prose(text[at : fence.start()])
        code = fence[2].strip("\n")
        if code.strip():
            yield from [f"```\n{code}\n```"] if len(code) <= MAX_CHARS else _split_prose(code)
        at = fence.end()
    yield from _split_prose(text[at:])


def _split_prose(text: str) -> Iterator[str]:
    for line in text.splitlines():
        current = ""
        for part in _END.split(_LIST_MARK.sub("", line)):
            current = f"{current} {part}" if current else part
            if not _ABBREVIATION.search(current):
                yield from _split_long(_BLANK.sub(" ", current).strip())
                current = ""
        yield from _split_long(_BLANK.sub(" ", current).strip())


def _split_long(sentence: str) -> Iterator[str]:
    while len(sentence) > MAX_CHARS:
        cut = max(sentence.rfind("; ", 0, MAX_CHARS) + 1, sentence.rfind(", ", MAX_CHARS // 2, MAX_CHARS) + 1)
        cut = cut or sentence.rfind(" ", MAX_CHARS // 2, MAX_CHARS) + 1 or MAX_CHARS
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence
