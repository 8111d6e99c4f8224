"""Cells that compute an answer: how often, how many, the most frequent words, which names have a value."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlm.models.offline.extractive.words import is_overview, terms
from rlm.retrieval.function_words import FUNCTION_WORDS
from rlm.sandbox.in_kernel.body.body import Document

__all__ = ["computing_block", "is_computed"]

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MAX_LISTED = 100
_FREQUENT = re.compile(
    r"\b(?:most|top)\s+(?:frequent|common|often|frequently|commonly)?(?:\w+\s+){0,2}?"
    r"(?:frequent|common|often|frequently|commonly|used|appear\w*|occur\w*|mentioned)?\s*"
    r"(?:\w+\s+){0,2}words?\b|\bwords?\b.{0,40}\bmost (?:often|frequent|frequently|common)",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(r"frequent|common|often|appear|occur|used", re.IGNORECASE)
_TIMES = re.compile(
    r"\bhow (?:often|many times)\b.{0,40}?"
    r"(?:[\"“«`](?P<quoted>[^\"”»`]{1,80})[\"”»`]|\b(?:word|term|name|phrase|string)\s+(?P<word>[\w.\-]+)"
    r"|\b(?:is|does|do|are|was|were)\s+(?P<bare>[\w.\-]+)\s+(?:mentioned|occurs?|appears?|used|said|named))",
    re.IGNORECASE,
)
_SIZE = re.compile(
    r"^\s*how many (?P<unit>lines|characters|words|documents|files)\b"
    r"(?:\s+(?:are|is|does|do|has|have|in|there|the|this|it|input|text|document|file|folder|context|contain|hold))*"
    r"\s*\?*\s*$",
    re.IGNORECASE,
)
_CONTENT = re.compile(r"\bcontent words?|stop.?words?|meaningful|significant", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"\bvariables?\b.{0,60}\bassigned\b.{0,20}?\bvalue\s+(?P<value>[\w.\-]+)", re.IGNORECASE
)

_TABLES = frozenset(("csv", "json", "jsonl"))

_TIMES_CELL = """
# Compute: count the exact number of occurrences in the whole input.
import re
term = {term}
pattern = r"(?i)(?<!\\w)" + re.escape(term) + r"(?!\\w)"
found = search(pattern, max_hits=3, context=0)
total = found.total
print(total)
finalize(
    f"{{term!r}} occurs {{total:,}} time{{'' if total == 1 else 's'}} in the input "
    "(counted by code over the whole input, as a whole word, in upper or lower case).",
    confidence="high",
    evidence=list(found),
)
"""

_SIZE_CELL = """
# Compute: look up the size, or count the words.
import re
meta = context_meta()
unit = {unit}
if unit == "words":
    total = sum(len(re.findall(r"\\w+", line.text)) for line in read_lines())
else:
    total = meta.documents if unit in ("documents", "files") else meta[unit]
print(total)
count("\\n")  # the whole input is looked at, not only its facts
finalize(f"The input has {{total:,}} {{unit}} (counted by code).", confidence="high")
"""

_FREQUENT_CELL = """
# Compute: count every word of the input.
# If there are millions of different words, the rarest are dropped from time to time to limit memory.
import re
from collections import Counter
words, carried, pruned = Counter(), "", False
for piece in chunk(max_chars=500_000):
    found = re.findall(r"[^\\W\\d_]+|$", carried + piece.text.casefold())
    text = carried + piece.text.casefold()
    carried = re.search(r"[^\\W\\d_]*$", text)[0][-1_000:]
    words.update(re.findall(r"[^\\W\\d_]{{2,}}", text[: len(text) - len(carried)]))
    if len(words) > 1_000_000:
        words, pruned = Counter(dict(words.most_common(500_000))), True
if len(carried) > 1:
    words[carried] += 1
plain = set({plain})
listed = [(word, total) for word, total in words.most_common({count} + len(plain)) if word not in plain]
listed = listed[:{count}]
print(listed)
"""

_FREQUENT_END = """
# Converge: submit the counts, each with the first occurrence of its word.
first = []
for word, total in listed:
    first += search(r"(?i)(?<!\\w)" + re.escape(word) + r"(?!\\w)", max_hits=1, context=0)
finalize(
    "Counted by code over the whole input{note}:\\n"
    + "\\n".join(f"{{word}}: {{total:,}}" for word, total in listed)
    + ("\\nThe input has millions of different words, so the counts are lower bounds." if pruned else ""),
    confidence="high",
    evidence=first,
)
"""

_ASSIGNED_CELL = """
# Compute: follow assignments from the value to all names that have it, directly or from another name.
import re
value = {value}
given = re.compile(r"(?<![\\w.])(\\w+)\\s*:?=\\s*(?:[A-Za-z]+\\s+)?([\\w.\\-]+)")
direct, by_name = [], {{}}
for hit in search(r"\\w+\\s*:?=\\s*(?:[A-Za-z]+\\s+)?[\\w.\\-]+", max_hits=200_000, context=0):
    match = given.match(peek(hit.start, hit.end))
    if match:
        by_name.setdefault(match[2].rstrip("."), []).append((match[1], hit.start, hit.end))
names, places, queue = [], [], [value]
while queue:
    for name, start, end in by_name.get(queue.pop(0), []):
        if name not in names:
            names.append(name)
            places.append((start, end))
            queue.append(name)
print(names)
"""

_ASSIGNED_END = """
# Converge: submit the names, each with its assignment.
if names:
    finalize(
        f"{{', '.join(names)}} (found by code that followed the assignments of {{value}}).",
        confidence="medium",
        evidence=places[:1_000],
    )
else:
    finalize(f"The input has no assignment of {{value}} (searched by code).", confidence="low")
"""


def is_computed(task: str, documents: Iterable[Document]) -> bool:
    """Return whether cells may compute the answer over these documents: from the question alone, or because
    they hold records."""
    if is_overview(task) or not terms(task):
        return bool(_choose_cells(task))
    return bool(_choose_cells(task)) or any(
        document.kind in _TABLES or document.name.endswith(".log") for document in documents
    )


def computing_block(task: str, round_number: int) -> str | None:
    """Return the cell of this round that computes the answer to `task`. None if `task` asks for nothing that
    can be computed, or if all cells have run."""
    cells = _choose_cells(task)
    return cells[round_number - 1].strip() if 0 < round_number <= len(cells) else None


def _choose_cells(task: str) -> list[str]:
    size = _SIZE.search(task)
    if size:
        return [_SIZE_CELL.format(unit=repr(size["unit"].lower()))]
    times = _TIMES.search(task)
    if times:
        term = times["quoted"] or times["word"] or times["bare"]
        return [_TIMES_CELL.format(term=repr(term))]
    assigned = _ASSIGNED.search(task)
    if assigned:
        value = assigned["value"].rstrip(".")
        return [_ASSIGNED_CELL.format(value=repr(value)), _ASSIGNED_END.format()]
    asked = _FREQUENT.search(task)
    if asked and _FREQUENCY.search(asked[0]):
        content_only = bool(_CONTENT.search(task))
        excluded = sorted(FUNCTION_WORDS) if content_only else []
        return [
            _FREQUENT_CELL.format(count=_read_count(task), plain=excluded),
            _FREQUENT_END.format(note=" (function words left out)" if content_only else ""),
        ]
    return []


def _read_count(task: str) -> int:
    """Return the number in a question, at most 100; else 10 if it asks for several, else 1."""
    for word in re.findall(r"\w+", task.lower()):
        if word.isdigit() and 0 < int(word) <= _MAX_LISTED:
            return int(word)
        if word in _NUMBERS[1:]:
            return _NUMBERS.index(word)
    return 10 if re.search(r"\bwords\b", task, re.IGNORECASE) else 1
