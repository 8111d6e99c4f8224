"""Finds tables that are drawn with pipes, as Markdown has them, and reads their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...text.body import Body, Document, Span
from ..context_handle.lines import iterate_lines
from ..searching.pattern import understand
from ..searching.scanner import ENGINE, Scanner

__all__ = ["PipeTable", "find_pipe_tables", "pipe_rows"]

_RULE = r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t\r]*$"
"""The line between a header and its rows. A table of one column is not looked for: it is a list."""
_MOST = 1_000
_LONGEST_ROW = 20_000
_CELL_END = re.compile(r"(?<!\\)\|")
_NOT_HERE = frozenset({"csv", "jsonl", "json", "code", "chat", "card"})


@dataclass(frozen=True, slots=True)
class PipeTable:
    """A table within a document. `rows_at` is the line below its rule."""

    document: Document
    span: Span
    columns: tuple[str, ...]
    rows_at: int


def find_pipe_tables(body: Body) -> list[PipeTable]:
    """Return the first 1,000 tables of the documents that are neither data nor code."""
    if all(document.kind in _NOT_HERE for document in body.documents):
        return []
    query = understand(_RULE, ascii_body=body.ascii, engine=ENGINE)
    rules, _ = Scanner(body).first(query, _MOST)
    return [table for rule in rules if (table := _table_at(body, rule)) is not None]


def _table_at(body: Body, rule: Span) -> PipeTable | None:
    """Return the table with this rule, or None if no header of as many columns is above it."""
    document = body.document_at(rule.start)
    line = body.line_of(rule.start)
    start = body.line_start(line - 1)
    if document is None or document.kind in _NOT_HERE or line == 0 or start < document.start:
        return None
    if rule.start - start > _LONGEST_ROW:
        return None
    columns = _cells(body.text(start, body.line_start(line)))
    if len(columns) != len(_cells(body.text(rule.start, rule.end))):
        return None
    end = body.line_start(line + 1)
    for row_start, row in _lines(body, document, line + 1):
        if "|" not in row or not row.strip():
            break
        end = row_start + len(row.rstrip("\r\n"))
    return PipeTable(document, Span(start, end), tuple(columns), line + 1)


def pipe_rows(body: Body, table: PipeTable) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield start, end and cells of each row."""
    for start, line in _lines(body, table.document, table.rows_at):
        if start >= table.span.end:
            return
        text = line.rstrip("\r\n")
        yield start, start + len(text), dict(zip(table.columns, _cells(text), strict=False))


def _lines(body: Body, document: Document, first: int) -> Iterator[tuple[int, str]]:
    low = body.line_start_byte(first)
    return iterate_lines(body, low, body.byte_of(document.end))


def _cells(line: str) -> list[str]:
    text = line.strip()
    text = text.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(text)]
