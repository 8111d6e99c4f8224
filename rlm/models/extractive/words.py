"""The words of a question that are worth looking for."""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ["parts", "terms"]

MAX_TERMS = 16

# Words that say how something is asked, not what about.
_STOP_WORDS = """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can could did do does doing done down during each few for from further give
    given had has have having he her here hers him his how i if in into is it its itself just let
    list may me mean means mention mentioned might more most must my name no nor not now of off on
    once only or other our out over own please provided said same say says shall she should show so
    some such tell text than that the their them then there these they this those through to too
    under until up us use used using very was we were what when where which while who whom whose why
    will with would you your according answer context document documents explain file files find
    following question describe
"""
_STOP = frozenset(_STOP_WORDS.split())
_QUOTED = re.compile('["“«`]([^"”»`]{3,80})["”»`]')
_WORD = re.compile(r"\w+(?:[.\-_:/@']+\w+)*")
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")
_INNER = re.compile(r"[.\-_:/@']+")


def terms(question: str) -> list[str]:
    """Up to MAX_TERMS words and phrases, the longest and most peculiar first; no two alike but for case."""
    found: dict[str, str] = {}
    for phrase in _QUOTED.findall(question):
        found.setdefault(phrase.casefold(), phrase)
    for run in _CJK.findall(question):
        for pair in pairwise(run):
            found.setdefault("".join(pair), "".join(pair))
    words = [word for word in _WORD.findall(_CJK.sub(" ", question)) if len(word) > 1 or word.isdigit()]
    for word in words:
        for form in (word, *parts(word)):
            if form.casefold() not in _STOP:
                found.setdefault(form.casefold(), form)
    ranked = sorted(found.values(), key=lambda term: (-_peculiarity(term), question.find(term)))
    return ranked[:MAX_TERMS]


def parts(word: str) -> list[str]:
    """The pieces of a compound (`heapq.merge` → heapq, merge) that are long enough to look for."""
    pieces = _INNER.split(word)
    return [piece for piece in pieces if len(piece) > 2] if len(pieces) > 1 else []


def _peculiarity(term: str) -> int:
    """How unlikely a term is to stand in a text by chance, roughly."""
    shape = 4 if _INNER.search(term) or any(character.isdigit() for character in term) else 0
    shape += 3 if " " in term else 0
    shape += 2 if any(character.isupper() for character in term[1:]) else 0
    return shape + min(len(term), 12) // 3
