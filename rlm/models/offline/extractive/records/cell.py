"""The cell that answers a question about records."""

from __future__ import annotations

import inspect
import re
from functools import cache
from types import ModuleType

from rlm.models.offline.extractive.records import (
    asking,
    closest,
    fields,
    query,
    relating,
    reporting,
    rows,
    tally,
    wording,
)
from rlm.retrieval.function_words import FUNCTION_WORDS

__all__ = ["PLAIN", "records_cell"]

_MOST_TABLES = 50
"""Tables that are told apart by their columns. More are read as one."""

_OWN_IMPORT = re.compile(r"^from rlm\.[^\n]*?import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_ALSO_PLAIN = """
    many much often number tell us say said there here all any please most more than still currently right now
    overall have has had do does did was were is are be been got get why place placed make made using
    happen happened occur occurred count counted mention mentions mentioned contain contains containing
    regarding related concern concerns concerning called named
"""

PLAIN = FUNCTION_WORDS | frozenset(_ALSO_PLAIN.split())
"""Words of a question that say nothing about the records."""

_CELL = """
# Compute: read the records, and answer from their fields.
{sources}

question, plain = {question}, frozenset({plain})
try:
    kept = [entry.name for entry in documents() if entry.kind in ("csv", "json", "jsonl")]
    rows = table_rows(read_records())
except ValueError:
    rows = log_rows(read_lines)
    is_log = True
else:
    is_log = False
answer = None
if rows is not None:
    _, record, _ = next(iter(rows()), (None, {{}}, ""))
    entries = documents()
    held = [entry for entry in entries if len(entries) == 1 or entry.kind in ("csv", "json", "jsonl")]
    size = context_meta().chars if is_log else sum(entry.end - entry.start for entry in held)
    is_alone = size >= 0.9 * context_meta().chars and not {{"message", "role", "text"}} <= set(record)
    groups = []
    if 1 < len(kept) <= {most_tables}:
        named = named_tables(question, kept)
        columns = {{
            entry.document: [column.name for column in entry.columns]
            for entry in tables()
            if entry.document in (named or kept)
        }}
        groups = alike(columns)
    if groups:
        answers = []
        for names in groups:
            own = table_rows(*(read_records(within=name) for name in names))
            source = "" if len(groups) == 1 else base_name(names[0])
            nouns = [base_name(name) for name in names]
            answers.append(answer_records(question, own, plain, nouns, is_alone=is_alone, source=source))
        answer = joined(answers)
    else:
        nouns = [base_name(entry.name) for entry in held]
        answer = answer_records(question, rows, plain, nouns, is_log=is_log, is_alone=is_alone)
    if answer is None and is_alone and not is_log:
        answer = closest_records(question, rows, plain)
        if answer is not None:
            answer.text = {extracts} + answer.text
print({{"records": rows is not None, "answered": answer is not None}})
if answer is not None:
    finalize(answer.text, confidence=answer.confidence, evidence=answer.evidence)
"""


def records_cell(question: str, extracts: str) -> str:
    """Return the cell. `extracts` is the heading of records that only have the question's words."""
    return _CELL.format(
        sources=_sources(),
        most_tables=_MOST_TABLES,
        question=repr(question),
        plain=repr(sorted(PLAIN)),
        extracts=repr(extracts),
    )


@cache
def _sources() -> str:
    return "\n\n".join(
        _body(module)
        for module in (fields, query, relating, asking, rows, wording, tally, reporting, closest)
    )


def _body(module: ModuleType) -> str:
    """Return the source of a module without its docstring, `__all__` and what the cell has already."""
    source = inspect.getsource(module)
    source = _OWN_IMPORT.sub("", source.split("from __future__ import annotations\n", 1)[1])
    return re.sub(r"^__all__ = [^\]]*\]\n", "", source, flags=re.MULTILINE).strip()
