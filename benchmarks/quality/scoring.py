"""Scores an answer by rule, from 0 to 1, without a model.

number: the only number of the answer is the gold. near: the same, and 0.75 to the power of the difference for
another whole number, as OOLONG scores counts. exact: the same words. contains: the share of the golds that
are in the answer. letter: the choice. f1: the words shared with the best gold. set: F1 of the listed members.
share: the share of the golds that are listed.

An answer that begins by saying that the text does not hold it scores 0, whatever it shows after that: what
follows are the nearest passages, and no answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isclose

from benchmarks.quality.item import Rule

__all__ = ["RULES", "denies", "final_part", "score"]

_MARK = re.compile(r"\s*\[[⁰¹²³⁴⁵⁶⁷⁸⁹,;\s]+\]")
_ANSWER = re.compile(r"(?:final\s+)?answer(?:\s+is)?\s*[:：]\s*", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[,  ]\d{3})*(?:\.\d+)?(?!\w)")
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"^\W*(?:option|choice)?\W*([A-Z])(?:\W|$)", re.IGNORECASE)
_LAST_LETTER = re.compile(r"\b([A-Z])\b")
_PAIR = re.compile(r"\(?\s*(\d+)\s*(?:,|-|–|and|&)\s*(\d+)\s*\)?")
_DENIAL = re.compile(
    r"\W*(?:not (?:found|in the (?:documents?|texts?))|no passages?"
    r"|the (?:text|document)s? do(?:es)? not (?:hold|contain|mention|say|give|state))\b",
    re.IGNORECASE,
)
_NEAR_BASE = 0.75


def score(rule: Rule, answer: str, golds: Sequence[str]) -> float:
    """Return the score of an answer. An empty answer scores 0, and so does one that denies what the text
    holds. Raises KeyError for the rule `model`."""
    if denies(answer) and not any(map(denies, golds)):
        return 0.0
    said = final_part(answer)
    return RULES[rule](said, golds) if said else 0.0


def denies(answer: str) -> bool:
    """Return whether an answer begins by saying that the text does not hold it."""
    return _DENIAL.match(answer) is not None


def final_part(answer: str) -> str:
    """Return the answer without marks of citations and emphasis; what follows its last `Answer:`, if any."""
    bare = _MARK.sub("", answer).replace("**", "").replace("`", "").strip()
    after = _ANSWER.split(bare)[-1].strip()
    return after or bare


def _number(said: str, golds: Sequence[str]) -> float:
    found = _only_number(said)
    return float(found is not None and any(_same(found, float(gold)) for gold in golds))


def _near(said: str, golds: Sequence[str]) -> float:
    found = _only_number(said)
    if found is None:
        return 0.0
    return max(1.0 if _same(found, gold) else _NEAR_BASE ** abs(found - gold) for gold in map(float, golds))


def _only_number(said: str) -> float | None:
    """Return the number of an answer; None if it has none, or several that differ."""
    found = {float(re.sub("[,  ]", "", one).replace("−", "-")) for one in _NUMBER.findall(said)}
    return found.pop() if len(found) == 1 else None


def _same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-9, abs_tol=0.005 if other != int(other) else 1e-9)


def _exact(said: str, golds: Sequence[str]) -> float:
    lines = [line for line in said.splitlines() if line.strip()]
    shown = {_plain(said), _plain(lines[-1])}
    return float(any(_plain(gold) in shown for gold in golds))


def _contains(said: str, golds: Sequence[str]) -> float:
    words = f" {_plain(said)} "
    return sum(f" {_plain(gold)} " in words for gold in golds) / len(golds)


def _letter(said: str, golds: Sequence[str]) -> float:
    first = _LETTER.match(said)
    letters = {one.upper() for one in _LAST_LETTER.findall(said)}
    chosen = first[1].upper() if first else letters.pop() if len(letters) == 1 else ""
    return float(chosen in {gold.strip().upper() for gold in golds})


def _f1(said: str, golds: Sequence[str]) -> float:
    words = Counter(_plain(said).split())
    return max(_shared_words(words, Counter(_plain(gold).split())) for gold in golds)


def _shared_words(words: Counter[str], gold: Counter[str]) -> float:
    shared = (words & gold).total()
    return 2 * shared / (words.total() + gold.total()) if shared else 0.0


def _set(said: str, golds: Sequence[str]) -> float:
    wanted = {_member(gold) for gold in golds}
    listed = _members(said, wanted)
    shared = len(listed & wanted)
    return 2 * shared / (len(listed) + len(wanted)) if shared else 0.0


def _share(said: str, golds: Sequence[str]) -> float:
    wanted = {_member(gold) for gold in golds}
    return len(_members(said, wanted) & wanted) / len(wanted)


def _members(said: str, wanted: set[str]) -> set[str]:
    """Return the members that an answer lists: pairs of numbers if the golds are pairs, or else what commas,
    semicolons and lines separate."""
    if all(_PAIR.fullmatch(one) for one in wanted):
        return {_member(found[0]) for found in _PAIR.finditer(said)}
    pieces = re.split(r"[,;\n]|\band\b", said.strip("[]() \n"))
    return {member for piece in pieces if (member := _member(re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", piece)))}


def _member(text: str) -> str:
    pair = _PAIR.fullmatch(text.strip())
    if pair is None:
        return _plain(text)
    low, high = sorted((int(pair[1]), int(pair[2])))
    return f"{low}, {high}"


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


RULES: Mapping[Rule, Callable[[str, Sequence[str]], float]] = {
    "number": _number,
    "near": _near,
    "exact": _exact,
    "contains": _contains,
    "letter": _letter,
    "f1": _f1,
    "set": _set,
    "share": _share,
}
