"""Reads the body by rows of data (JSON Lines, JSON arrays, CSV, messages, tables drawn with |), lazily, each
with its span."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

from ..text.body import Body, Document, Span
from ..text.json_stream import BadJson, JsonStream
from ..text.search import Scanner
from ..text.search_pattern import compile_pattern
from .access_log import AccessLog
from .columns import distinct
from .lines import iterate_lines
from .places import Place

__all__ = ["RawRow", "Rows", "drawn_tables", "format_of", "is_joined", "raw_rows"]

_HEAD = 64 * 1024
_WINDOW = 1 << 20
_LARGEST = 64_000_000
_SPACE = " \t\r\n"
_DATA = ("jsonl", "json", "csv")
_FORMATS = (*_DATA, "chat", "card", "board", "commits")
_RULE = r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t\r]*$"
"""The line between the header and the rows of a drawn table. One of one column is a list."""
_MOST_DRAWN = 1_000
_LONGEST_ROW = 20_000
_CELL_END = re.compile(r"(?<!\\)\|")
_NOT_DRAWN_IN = frozenset({*_FORMATS, "code"})
_DELIMITERS = ",;\t|"
_QUOTED_CELL = re.compile(r'"[^"\n]*"')
_MIN_COLUMNS, _MIN_ROWS, _ROWS_LOOKED_AT = 3, 2, 50


RawRow = tuple[int, int, Any, str | None]
"""Start, end, value and error of a row."""


class Rows(Iterator[Place]):
    """Records (value, start, end, error, document), one for each row of every document that has rows. If none
    has, the rows of tables that are drawn with | in documents of other kinds.

    `value` is a dict for CSV and tables (by the header row) and for messages (message, role, author, time,
    text; on a board also the facts of a card, such as `state`), and the JSON value otherwise. A row that
    cannot be read has `value` None and the reason in `error`; a CSV row of the wrong width has both. A `for`
    loop starts again each time; `next()` continues. With `part`, only the rows that are at least partly in
    it.
    """

    def __init__(self, body: Body, log: AccessLog, part: Span | None = None) -> None:
        self._body = body
        self._log = log
        # Without a part, rows that hold no character at either end are in it, too.
        self._low, self._high = part or (-1, body.chars + 1)
        inside = [one for one in body.documents if one.start < self._high and one.end > self._low]
        formats = [(document, format_of(body, document)) for document in inside]
        self._plan = [(document, form) for document, form in formats if form]
        if inside and not self._plan:
            looked = Span(inside[0].start, min(self._high, inside[-1].end))
            self._plan = [(table, "drawn") for table in drawn_tables(body, looked) if table.end > self._low]
        self._own: Iterator[Place] | None = None
        if not self._plan:
            kinds = ", ".join(sorted({document.kind for document in inside})) or "none"
            raise ValueError(
                f"no document here holds JSON Lines, JSON, CSV, a chat or a table (kinds: {kinds}): "
                "use read_lines() and split the lines yourself; for CSV in a document of another kind, "
                "csv.DictReader(io.StringIO(read_all()))"
            )

    def __iter__(self) -> Iterator[Place]:
        for document, form in self._plan:
            yield from self._rows(document, form)

    def _rows(self, document: Document, form: str) -> Iterator[Place]:
        # Between two rows of data there are only line ends, commas or a header, which count as read. Between
        # two messages there may be text.
        joined = is_joined(form)
        reached = document.start
        for start, end, value, error in raw_rows(self._body, document, form, self._low):
            if start >= self._high:
                return
            if end <= self._low:
                reached = end
                continue
            self._log.read(max(reached, min(start, self._low)) if joined else start, end)
            reached = end
            name = document.name
            yield Place({"value": value, "start": start, "end": end, "error": error, "document": name})
        if joined:
            self._log.read(reached, document.end)

    def __next__(self) -> Place:
        if self._own is None:
            self._own = iter(self)
        return next(self._own)

    def __repr__(self) -> str:
        found = [f"{document.name} ({form})" for document, form in self._plan]
        more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
        return f"rows of {', '.join(found[:3])}{more}: iterate (each has value, start, end, error, document)"


def is_joined(form: str) -> bool:
    """Return whether there is nothing but rows in a document of this format."""
    return form in _DATA or form == "drawn"


def raw_rows(body: Body, document: Document, form: str, low: int = 0) -> Iterator[RawRow]:
    """Yield the rows of a document. Those that end before `low` may be left out."""
    if form == "jsonl" and low > document.start:
        first = body.line_start(body.line_of(low))
        document = replace(document, start=max(document.start, first))
    return _READERS[form](body, document)


def format_of(body: Body, document: Document) -> str | None:
    """Return the format of a document's rows: by its kind, or by its first lines if it is plain text."""
    if document.kind in _FORMATS:
        return document.kind
    if document.kind != "text":
        return None
    head = body.text(document.start, min(document.end, document.start + _HEAD)).lstrip()
    if head[:1] == "[":
        return "json" if head[1:].lstrip()[:1] in ("{", "[", "]", '"') else None
    if head[:1] != "{":
        return "csv" if _is_table(head, whole=document.end - document.start <= _HEAD) else None
    try:
        return "jsonl" if isinstance(json.loads(head.partition("\n")[0]), dict) else None
    except (ValueError, RecursionError):
        return None


def _is_table(head: str, *, whole: bool) -> bool:
    """Return whether a text begins as CSV: distinct column names, then rows with as many fields.

    `whole` is whether `head` is the whole text. Otherwise its last row may be cut.
    """
    first = head.partition("\n")[0]
    delimiter = _delimiter(first)
    if first.count(delimiter) + 1 < _MIN_COLUMNS:
        return False
    try:
        rows = [
            row for row in islice(csv.reader(io.StringIO(head), delimiter=delimiter), _ROWS_LOOKED_AT) if row
        ]
    except csv.Error:
        return False
    header, *data = rows if whole else rows[:-1] or [[]]
    return (
        len(header) >= _MIN_COLUMNS
        and len(data) >= _MIN_ROWS
        and len(set(header)) == len(header)
        and all(any(char.isalpha() for char in name) for name in header)
        and all(len(row) == len(header) for row in data)
    )


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _json_lines(body: Body, document: Document) -> Iterator[RawRow]:
    for start, line in _lines(body, document):
        text = line.rstrip(_SPACE)
        if text:
            value, error = _parsed(text)
            yield start, start + len(text), value, error


def _parsed(text: str) -> tuple[Any, str | None]:
    try:
        return json.loads(text), None
    except ValueError as error:
        return None, f"not JSON: {error}"
    except RecursionError:
        return None, "not readable: nested too deeply"


def _json(body: Body, document: Document) -> Iterator[RawRow]:
    """Yield the elements of a top-level array; for any other document, its values one after another. An
    error is one row over all the rest."""
    end = document.end
    windows = (body.text(at, min(end, at + _WINDOW)) for at in range(document.start, end, _WINDOW))
    stream = JsonStream(windows, start=document.start, largest=_LARGEST)
    is_array = stream.next_mark() == "["
    try:
        for value in stream.elements() if is_array else _values(stream):
            yield stream.value_start, stream.position, value, None
        if stream.next_mark():
            raise BadJson("nothing may come after the array", stream.position)
    except BadJson as bad:
        stream.next_mark()
        yield stream.position, end, None, f"not JSON at character {bad.position}: {bad}"


def _values(stream: JsonStream) -> Iterator[Any]:
    while stream.next_mark():
        yield stream.value()


def _csv(body: Body, document: Document) -> Iterator[RawRow]:
    head = body.text(document.start, min(document.end, document.start + _HEAD))
    delimiter, titles = _csv_head(head)
    reached = document.start

    def lines() -> Iterator[str]:
        nonlocal reached
        for start, line in _lines(body, document):
            reached = start + len(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter)
    header: list[str] | None = None
    names: list[str] = []
    while True:
        start = reached
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            yield start, reached, None, f"not CSV: {wrong}"
            continue
        if not fields:
            continue
        if header is None:
            if not titles:
                header, names = fields, distinct(fields)
            titles -= 1
            continue
        error = None
        if len(fields) != len(header):
            error = f"{len(fields)} fields, the header has {len(header)}"
        # An empty column without a name is a margin.
        columns = zip(names, header, fields, strict=False)
        named = {name: own for name, title, own in columns if title or own}
        yield start, reached, named, error


def _csv_head(head: str) -> tuple[str, int]:
    """Return the delimiter of a table, and the number of its rows above the header: titles, each in one cell.

    Without rows of several cells below, the first row is the header.
    """
    plain = (_QUOTED_CELL.sub("", line) for line in islice(head.split("\n"), _ROWS_LOOKED_AT))
    delimiter = _delimiter(next((line for line in plain if any(map(line.count, _DELIMITERS))), ""))
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(
            row for row in islice(csv.reader(io.StringIO(head), delimiter=delimiter), _ROWS_LOOKED_AT) if row
        )
    if not rows or (len(rows[0]) > 1 and sum(map(bool, rows[0])) != 1):
        return delimiter, 0
    for number, (row, below) in enumerate(pairwise(rows)):
        if sum(map(bool, row)) > 1:
            return delimiter, number if len(row) == len(below) else 0
    return delimiter, 0


def _messages(body: Body, document: Document) -> Iterator[RawRow]:
    table = body.marks.messages
    for row in table.between(document.start, document.end):
        start, end, _ = table.row(row)
        line, _, text = body.text(start, end).partition("\n")
        header = body.marks.header(row, line)
        value = {
            "message": header.number,
            "role": header.role,
            "author": header.author,
            "time": header.time,
            "text": text.rstrip("\n"),
        }
        yield start, end, value, None


def _cards(body: Body, document: Document) -> Iterator[RawRow]:
    """Yield messages with the facts of a card, which stand in lines below its name (`State: open`)."""
    for start, end, value, error in _messages(body, document):
        name, *facts = value["text"].partition("\n\n")[0].split("\n")
        known = {key.lower(): fact for key, mark, fact in (line.partition(": ") for line in facts) if mark}
        title = name.removeprefix(f"{value['author']}: ")
        # The head of a card's message holds its id where that of a chat holds the author.
        card = {**value, "author": known.get("author", "")}
        yield start, end, {"id": value["author"], "title": title, **known, **card}, error


def drawn_tables(body: Body, within: Span) -> Iterator[Document]:
    """Yield the first 1,000 tables that are drawn with pipes, as Markdown has them, in documents that are
    neither data nor code: header, rule and rows. Each is its document, cut to the table."""
    documents = body.documents
    if all(document.kind in _NOT_DRAWN_IN for document in documents):
        return
    part = body.window(*within)
    rules, _ = Scanner(part).first(compile_pattern(_RULE, ascii_body=part.ascii), _MOST_DRAWN)
    for rule in rules:
        at = within.start + rule.start
        document, line = body.document_at(at), body.line_of(at)
        start = body.line_start(line - 1)
        if document is None or document.kind in _NOT_DRAWN_IN or line == 0 or start < document.start:
            continue
        header = body.text(start, min(at, start + _LONGEST_ROW))
        if len(_cells(header)) != len(_cells(part.text(*rule))):
            continue
        end = body.line_start(line + 1)
        for row_start, row in _lines(body, replace(document, start=end)):
            if "|" not in row or not row.strip():
                break
            end = row_start + len(row.rstrip("\r\n"))
        yield replace(document, start=start, end=end)


def _drawn(body: Body, table: Document) -> Iterator[RawRow]:
    lines = _lines(body, table)
    columns = distinct(_cells(next(lines)[1]))
    for start, line in islice(lines, 1, None):
        text = line.rstrip("\r\n")
        yield start, start + len(text), dict(zip(columns, _cells(text), strict=False)), None


def _cells(line: str) -> list[str]:
    text = line.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(text)]


def _lines(body: Body, document: Document) -> Iterator[tuple[int, str]]:
    return iterate_lines(body, body.byte_of(document.start), body.byte_of(document.end))


_READERS = {
    "jsonl": _json_lines,
    "json": _json,
    "csv": _csv,
    "board": _cards,
    "drawn": _drawn,
} | dict.fromkeys(("chat", "card", "commits"), _messages)
