"""Extract the search terms of a question, and classify the question."""

from __future__ import annotations

import re
from itertools import pairwise

from rlm.retrieval.function_words import FUNCTION_WORDS

__all__ = [
    "asks_for_all",
    "asks_when",
    "distinctive_terms",
    "is_overview",
    "parts",
    "subject_words",
    "terms",
    "wants_summary",
]

MAX_TERMS = 16

# Words about the question itself, not about its subject.
_ASKING_WORDS = """
    above across below during few further given give let list may mean means mention mentioned might must name
    of off on please provided said say says shall tell text those through up us use used using according
    answer context document documents explain file files find following question questions describe many much
    choices letter only statement statements supported correct true false discuss discussed discussing
"""
_STOP = FUNCTION_WORDS | frozenset(_ASKING_WORDS.split())

# Words of requests for a summary of the whole text, not of something in it.
_WHOLE_WORDS = """
    summarize summarise summary summaries synopsis overview outline recap gist abstract plot story stories
    narrative tale meeting session conversation discussion chat game episode chapter book article paper report
    transcript whole entire overall main key major important detailed brief briefly short long one paragraph
    sentence sentences points point happens happen happened happening order ends end ending beginning
    throughout write setting theme themes topic topics content contents
"""
_WHOLE = frozenset(_WHOLE_WORDS.split())
_SUMMARY = re.compile(
    r"\b(?:summar\w+|synopsis|overview|outline|recap|gist|plot of|setting of"
    r"|what happens (?:in|throughout|to)|main (?:points?|topics?|themes?|ideas?)|about\s*\?)",
    re.IGNORECASE,
)
_SUMMARY_CJK = re.compile(r"总结|概括|摘要|要約|まとめ|요약")
_SHORT = 14
_QUOTED = re.compile('["“«`]([^"”»`]{3,80})["”»`]')
_WORD = re.compile(r"\w+(?:[.\-_:/@']+\w+)*")
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]{2,}")
_INNER = re.compile(r"[.\-_:/@']+")
_WHEN = re.compile(
    r"\b(?:when|dates?|(?:what|which) (?:year|month|day|time)|how long|how old|since|until)\b"
    r"|何时|什么时候|いつ",
    re.IGNORECASE,
)
_ALL = re.compile(r"\b(?:all|every|each|which (?:\w+ )?\w+s\b)|所有|全部", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_POSSESSIVE = re.compile(r"'s?$|’s?$")


def terms(question: str) -> list[str]:
    """Return up to MAX_TERMS words and phrases, the most distinctive first, without duplicates in other
    case."""
    found: dict[str, str] = {}
    for phrase in _QUOTED.findall(question):
        found.setdefault(phrase.casefold(), phrase)
    for run in _CJK.findall(question):
        for pair in pairwise(run):
            found.setdefault("".join(pair), "".join(pair))
    words = [word for word in _WORD.findall(_CJK.sub(" ", question)) if len(word) > 1 or word.isdigit()]
    for word in words:
        whole = _POSSESSIVE.sub("", word)
        for form in (whole, *parts(whole)):
            if form.casefold() not in _STOP:
                found.setdefault(form.casefold(), form)
    ranked = sorted(found.values(), key=lambda term: (-_rate_distinctiveness(term), question.find(term)))
    return ranked[:MAX_TERMS]


def subject_words(question: str) -> str:
    """Return the words of the question's subject, in order, without those of a request for a summary."""
    without = _STOP | (_WHOLE if _SUMMARY.search(question) else frozenset())
    return " ".join(word for word in _WORD.findall(question) if word.casefold() not in without)


def distinctive_terms(question: str) -> list[str]:
    """Return the terms that rarely occur by chance: identifiers, compounds with digits or dots, quoted
    phrases. Excludes years and words with an ordinary apostrophe."""
    return [
        term
        for term in terms(question)
        if " " in term
        or (any(map(str.isdigit, term)) and not _YEAR.fullmatch(term) and len(term) > 2)
        or (re.search(r"[.\-_:/@]", term) and not term.isdigit())
        or (any(map(str.isupper, term[1:])) and not term.isupper())
    ]


def is_overview(question: str) -> bool:
    """Return whether the question is about the whole text and nothing in it: `Summarize the meeting.`"""
    if _SUMMARY_CJK.search(question):
        return len(question.strip()) <= _SHORT
    return bool(_SUMMARY.search(question)) and not subject_words(question)


def wants_summary(question: str) -> bool:
    """Return whether the question asks for a summary, of the whole or of a part."""
    return bool(_SUMMARY.search(question) or _SUMMARY_CJK.search(question))


def asks_when(question: str) -> bool:
    """Return whether a date may be the answer."""
    return bool(_WHEN.search(question))


def asks_for_all(question: str) -> bool:
    """Return whether the question asks for more than one thing."""
    return bool(_ALL.search(question))


def parts(word: str) -> list[str]:
    """Return the pieces of a compound (`heapq.merge` → heapq, merge) that are long enough to search for."""
    pieces = _INNER.split(word)
    return [piece for piece in pieces if len(piece) > 2] if len(pieces) > 1 else []


def _rate_distinctiveness(term: str) -> int:
    """Estimate how unlikely a term is to occur in a text by chance."""
    shape = 4 if _INNER.search(term) or any(character.isdigit() for character in term) else 0
    shape += 3 if " " in term else 0
    shape += 2 if any(character.isupper() for character in term[1:]) else 0
    return shape + min(len(term), 12) // 3
