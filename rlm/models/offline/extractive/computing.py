"""Cells that compute an answer: how often, how many, the most frequent words, which names have a value."""

from __future__ import annotations

import re
from collections.abc import Collection

from rlm.retrieval.words import FUNCTION_WORDS

__all__ = ["computing_block", "is_computed", "tries_records"]

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

_HOW_MANY = re.compile(
    r"^\s*(?:how many\b|count\b|(?:what is |give |tell me )*the number of\b)", re.IGNORECASE
)
_ALL_RECORDS = re.compile(
    r"^\s*how many \w+ (?:are (?:there|in|on)|is there|does|do|has|have)\b[^\"'“”]{0,40}\?*\s*$",
    re.IGNORECASE,
)
_TABLES = frozenset(("csv", "json", "jsonl"))

_RECORDS_CELL = """
# Compute: count the records that have the values which the question names.
import re
question = {question}
asked = question.casefold()
quoted = re.findall("[\\"'“‘«]([^\\"'”’»]{{1,80}})[\\"'”’»]", question)

def pairs(value, key=""):
    # The fields of a record, those of objects in it too. A list has each of its values.
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from pairs(inner, str(name))
    elif isinstance(value, list):
        for inner in value[:100]:
            yield from pairs(inner, key)
    elif isinstance(value, (str, int, float)) and key:
        text = str(value).strip().casefold()
        if 0 < len(text) <= 80:
            yield key, text

def stem(word):
    return word[:-1] if len(word) > 3 and word.endswith("s") else word

def is_said(text):
    return re.search(r"(?<!\\w)" + re.escape(text) + r"(?!\\w)", asked) is not None

try:
    rows = read_records()
except ValueError as error:
    rows = []
    print(error)
total, broken, seen, many = 0, 0, {{}}, set()
for row in rows:
    if not isinstance(row.value, dict):
        broken += row.value is None
        continue
    total += 1
    for key, text in pairs(row.value):
        if key not in many:
            found = seen.setdefault(key, set())
            found.add(text)
            if len(found) > 5_000:
                many.add(key)
spoken = {{stem(word) for word in re.findall(r"[^\\W_]+", asked)}}
named = [
    key for key in seen if {{stem(part) for part in re.findall(r"[^\\W_]+", key.casefold())}} <= spoken
]
conditions = []
for key in named:
    said = [text for text in seen[key] if text != key.casefold() and is_said(text)]
    if said:
        conditions.append((key, max(said, key=len)))
    elif len(named) == 1 and len(quoted) == 1:
        conditions.append((key, quoted[0].strip().casefold()))
if not conditions:
    # No field is named: `How many cards are open?` A value must be that of one field with few values.
    few = {{key: [text for text in found if len(text) > 2 and not text.isdigit() and is_said(text)]
           for key, found in seen.items() if key not in named and len(found) <= 50}}
    said = [(key, text) for key, texts in few.items() for text in texts if text not in {plain}]
    if len({{text for _, text in said}}) == 1 and len(said) == 1:
        conditions = said
hits, matching = [], 0
for row in rows if conditions else ():
    if isinstance(row.value, dict):
        own = set(pairs(row.value))
        if all(condition in own for condition in conditions):
            matching += 1
            if len(hits) < 3:
                hits.append((row.start, row.end))
print({{"records": total, "conditions": conditions, "matching": matching}})
note = f" {{broken:,}} lines could not be read as records." if broken else ""
if conditions:
    finalize(
        f"{{matching:,}} of {{total:,}} records have "
        + " and ".join(f"{{key}} {{text!r}}" for key, text in conditions)
        + f" (counted by code over every record).{{note}}",
        confidence="high" if not broken else "medium",
        evidence=hits,
    )
elif total and {whole}:
    finalize(f"{{total:,}} records (counted by code).{{note}}", confidence="high" if not broken else "medium")
"""

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


def is_computed(task: str, kinds: Collection[str]) -> bool:
    """Return whether the answer over documents of these kinds is computed. Records are in tables only."""
    return bool(_choose_cells(task)) and (not tries_records(task) or not _TABLES.isdisjoint(kinds))


def tries_records(task: str) -> bool:
    """Return whether the first cell counts records. It may find none that the question is about; then the
    other rounds search."""
    cells = _choose_cells(task)
    return bool(cells) and cells[0].startswith(_RECORDS_CELL[:40])


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
    if _HOW_MANY.search(task):
        plain = repr(tuple(sorted(FUNCTION_WORDS)))
        return [
            _RECORDS_CELL.format(
                question=repr(task), plain=plain, whole=_ALL_RECORDS.search(task) is not None
            )
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
