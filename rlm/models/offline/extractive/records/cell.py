"""The cell that answers a question about records."""

from __future__ import annotations

import inspect
import re
from functools import cache
from types import ModuleType

from rlm.models.offline.extractive.records import asking, closest, fields, reporting, rows, tally, wording
from rlm.retrieval.words import FUNCTION_WORDS

__all__ = ["PLAIN", "records_cell"]

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
    rows = table_rows(read_records(), named_tables(question, kept))
except ValueError:
    rows = log_rows(read_lines)
    is_log = True
else:
    is_log = False
answer = None
if rows is not None:
    _, record, _ = next(iter(rows()), (None, {{}}, ""))
    entries = documents()
    tables = [entry for entry in entries if len(entries) == 1 or entry.kind in ("csv", "json", "jsonl")]
    size = context_meta().chars if is_log else sum(entry.end - entry.start for entry in tables)
    is_alone = size >= 0.9 * context_meta().chars and not {{"message", "role", "text"}} <= set(record)
    nouns = [entry.name.rsplit("/", 1)[-1].split(".")[0] for entry in tables]
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
        sources=_sources(), question=repr(question), plain=repr(sorted(PLAIN)), extracts=repr(extracts)
    )


@cache
def _sources() -> str:
    return "\n\n".join(_body(module) for module in (fields, asking, rows, wording, tally, reporting, closest))


def _body(module: ModuleType) -> str:
    """Return the source of a module without its docstring, `__all__` and what the cell has already."""
    source = inspect.getsource(module)
    source = _OWN_IMPORT.sub("", source.split("from __future__ import annotations\n", 1)[1])
    return re.sub(r"^__all__ = [^\]]*\]\n", "", source, flags=re.MULTILINE).strip()
