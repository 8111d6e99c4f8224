"""Plain BM25 over passages of about 1,000 characters: the baseline, with no code of rlm."""

from __future__ import annotations

import math
import re
from collections import Counter

__all__ = ["top_passages"]

_SIZE = 1_000
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"\w+")


def top_passages(text: str, question: str, count: int = 5) -> list[str]:
    """Return the best `count` passages: whole lines up to 1,000 characters (longer lines are cut)."""
    passages = _passages(text)
    bags = [Counter(_words(passage)) for passage in passages]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / max(1, len(lengths))
    frequency = Counter(word for bag in bags for word in bag)
    scores = []
    for number, (bag, length) in enumerate(zip(bags, lengths, strict=True)):
        score = 0.0
        for word in set(_words(question)):
            if word in bag:
                rarity = math.log(1 + (len(bags) - frequency[word] + 0.5) / (frequency[word] + 0.5))
                score += rarity * bag[word] * (_K1 + 1) / (bag[word] + _K1 * (1 - _B + _B * length / mean))
        scores.append((-score, number))
    return [passages[number] for score, number in sorted(scores)[:count] if score < 0]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _passages(text: str) -> list[str]:
    passages, pending = [], ""
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _SIZE):
            piece = line[at : at + _SIZE]
            if pending and len(pending) + len(piece) > _SIZE:
                passages.append(pending)
                pending = ""
            pending += piece
    return [*passages, pending] if pending else passages
