"""Decides whether the reply of a cheap model should be asked again of a stronger one.

The cheap model has been asked, and where its reply was no answer, asked once more with the reason. A reply
that says that its slice does not hold the answer is an answer: most slices of a batch do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlm.answers.citations import quotes_in
from rlm.sandbox.in_kernel.quoting.text_folding import skeleton
from rlm.sandbox.types import ChildAnswer

__all__ = ["doubt_of"]

_FAILED = frozenset({"schema", "repeat", "language", "empty", "truncated", "refused"})
"""Error types that another model may not have. A failing provider and a limit are not among them."""
_MAX_HEDGE = 400
"""Characters of a reply that only says that it cannot tell. A longer one says something, too."""
_CANNOT_TELL = re.compile(
    r"\A\W*(?:(?:the answer|this|it|that)\s+)?(?:i\s+)?(?:am\s+)?(?:"
    r"(?:can ?not|can['’]t|could not|couldn['’]t|unable to)\s+(?:be\s+)?"
    r"(?:tell|say|determine|decide|conclude|judge|answer|establish)\w*"
    r"|(?:is\s+)?(?:unclear|ambiguous|undetermined|inconclusive|uncertain)\b"
    r"|not sure\b|unsure\b|insufficient (?:information|evidence|context)"
    r"|(?:there is )?not enough (?:information|evidence|context)"
    r"|(?:ich )?kann (?:ich )?(?:das )?nicht (?:sagen|entscheiden|beurteilen)|unklar\b"
    r"|je ne peux pas|impossible (?:de dire|à dire)|no (?:se )?puedo? (?:decir|determinar)"
    r")",
    re.IGNORECASE,
)
_ELISION = re.compile(r"\s*(?:\[?(?:…|\.{3,})\]?)\s*")
_MIN_PART = 12
"""Letters and digits of a part of a quote. Fewer may stand anywhere."""
_WORD = re.compile(r"\w+")
_MAX_STRETCH = 2
"""The words of a quote and those between them are at most so many times its words."""
_QUOTE_FIELD = re.compile(r"quote|quotation|evidence|excerpt|verbatim|citation", re.IGNORECASE)


def doubt_of(answer: ChildAnswer, task: str, texts: Sequence[str]) -> str | None:
    """Return why a stronger model should be asked, or None.

    The reply is no answer, or it says that it cannot tell, or it quotes words that neither its slice nor its
    task holds.
    """
    if answer.error is not None:
        return answer.error if answer.error_type in _FAILED else None
    if len(answer.text) <= _MAX_HEDGE and _CANNOT_TELL.match(answer.text):
        return "it could not tell"
    if not texts or not answer.found:
        return None
    quotes = quotes_in(answer.text) if answer.value is None else list(_quotes_of(answer.value))
    parts = [part for quote in quotes for part in _ELISION.split(quote) if len(_flat(part)) >= _MIN_PART]
    if not parts:
        return None
    source = "\n".join([*texts, task])
    held, words = _flat(source), _words(source)
    is_held = all(_flat(part) in held or _stands_in_order(_words(part), words) for part in parts)
    return None if is_held else "it quotes what its slice does not hold"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _stands_in_order(quote: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words of a quote stand in this order, with few others between them. A quote of talk
    leaves out its stammering."""
    reach = _MAX_STRETCH * len(quote)
    for start, word in enumerate(words):
        if word == quote[0]:
            left = iter(words[start : start + reach])
            if all(one in left for one in quote):
                return True
    return False


def _flat(text: str) -> bytes:
    return skeleton(text.casefold().encode("utf-8", "surrogatepass"))


def _quotes_of(value: Any, *, is_quote: bool = False) -> Iterator[str]:
    """Yield the strings of a JSON value under a name that promises a quote."""
    if isinstance(value, str):
        if is_quote:
            yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _quotes_of(inner, is_quote=is_quote or bool(_QUOTE_FIELD.search(str(name))))
    elif isinstance(value, list):
        for inner in value:
            yield from _quotes_of(inner, is_quote=is_quote)
