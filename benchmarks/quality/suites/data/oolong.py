"""OOLONG: counts and comparisons over labelled lines (synth), over transcripts (real), and pairs of users.

The pairs are asked with golds computed from the labels that the data set has beside the texts. They have the
form of OOLONG-Pairs; the questions are those of the generated suite `pairs`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from benchmarks.quality.item import Item, Rule
from benchmarks.quality.suites.data.rows import Row, list_field, text_field
from rlm.errors import UsageError

__all__ = ["oolong_pairs", "oolong_real", "oolong_synth"]

_USER = re.compile(r"User(?: ID)?:\s*(\d+)")
_LABEL = re.compile(r"Label:\s*([^|\n]+?)\s*(?:\|\||$)", re.MULTILINE)
_NEEDED = (1, 2, 3)


def oolong_synth(place: str, row: Row) -> Iterator[Item]:
    """Yield the item of a row of OOLONG-synth."""
    kind = text_field(row, place, "answer_type").rpartition(".")[2].upper()
    golds = tuple(str(one).strip() for one in list_field(row, place, "answer"))
    rule: Rule = "near" if kind == "NUMERIC" and _are_numbers(golds) else "exact"
    yield _item(place, row, golds, rule, text_field(row, place, "task_group", "task"))


def oolong_real(place: str, row: Row) -> Iterator[Item]:
    """Yield the item of a row of OOLONG-real: a number, a text, or a list."""
    said = text_field(row, place, "answer")
    golds = tuple(one.strip() for one in said.split(",") if one.strip())
    rule: Rule = "share" if len(golds) > 1 else "near" if _are_numbers(golds) else "exact"
    yield _item(place, row, golds, rule, text_field(row, place, "question_type", "campaign"))


def oolong_pairs(place: str, row: Row) -> Iterator[Item]:
    """Yield questions for pairs of users of a row of OOLONG-synth whose lines name users."""
    labelled = row.get("context_window_text_with_labels")
    if not isinstance(labelled, str) or not labelled:
        raise UsageError(
            f"{place} has no context_window_text_with_labels, from which the pairs are computed: give the "
            "split of OOLONG-synth that has it"
        )
    counts = _labels_of_users(labelled)
    names = sorted({label for own in counts.values() for label in own})
    for label in names:
        for need in _NEEDED:
            chosen = sorted(user for user, own in counts.items() if own[label] >= need)
            found = list(combinations(chosen, 2))
            if found and len(chosen) < len(counts):
                yield _pairs_item(place, row, label, need, names, found)
                break


def _labels_of_users(labelled: str) -> dict[int, Counter[str]]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for line in labelled.splitlines():
        user, label = _USER.search(line), _LABEL.search(line)
        if user and label:
            counts[int(user[1])][label[1]] += 1
    return counts


def _pairs_item(
    place: str, row: Row, label: str, need: int, names: list[str], found: list[tuple[int, int]]
) -> Item:
    question = (
        f"Each line belongs to one of these labels, which are not written: {', '.join(names)}. List all "
        f"pairs of users for which this holds: both users have at least {need} lines with the label {label}. "
        "Write each pair once, as (lower number, higher number), one pair a line, and nothing else."
    )
    text = text_field(row, place, "context_window_text")
    golds = tuple(f"({a}, {b})" for a, b in found)
    return Item(_id("pairs", question, text), question, (text,), golds, "set", "both")


def _item(place: str, row: Row, golds: tuple[str, ...], rule: Rule, group: str) -> Item:
    question = text_field(row, place, "question")
    text = text_field(row, place, "context_window_text")
    if not golds:
        raise UsageError(f"{place} has no answer: is this the right data set?")
    return Item(_id("oolong", question, text), question, (text,), golds, rule, group)


def _are_numbers(golds: tuple[str, ...]) -> bool:
    try:
        [float(gold) for gold in golds]
    except ValueError:
        return False
    return True


def _id(kind: str, question: str, text: str) -> str:
    return f"{kind}-{hashlib.sha256(f'{question}/{text}'.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
