"""Reads the sheets of an ODS in one walk: their values, and what stands beside the cells."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from xml.etree import ElementTree

from rlm.documents.formats.cell_places import column_letters
from rlm.documents.formats.csv_lines import shown
from rlm.documents.formats.office_xml import (
    Archive,
    Element,
    attribute,
    find,
    local_name,
    number,
    refuse_entities,
)
from rlm.documents.formats.opendocument import Words, annotation_of
from rlm.documents.formats.piece import Fault
from rlm.documents.formats.sheet_parts import MOST_CELLS, Row, SheetParts

__all__ = ["CONTENT", "sheets_of"]

CONTENT = "content.xml"
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 16_384
_TIME = re.compile(r"PT(\d{1,9})H(\d{1,2})M(\d{1,2})(?:[.,]\d*)?S")
_PICTURES = ("image", "object", "object-ole")

_Events = Iterator[tuple[str, Element]]


def sheets_of(archive: Archive) -> Iterator[tuple[str, bool, Iterator[Row], SheetParts]]:
    """Yield name, whether it is hidden, rows and parts of each sheet. The parts are complete after the rows.
    Raises Fault for a bomb."""
    data = archive.read(CONTENT)
    refuse_entities(data)
    events: _Events = iter(ElementTree.iterparse(io.BytesIO(data), ("start", "end")))  # noqa: S314
    hidden: set[str] = set()
    for event, element in events:
        if event == "start" and local_name(element) == "table":
            parts = SheetParts()
            rows = _rows(events, element, parts)
            yield attribute(element, "name"), attribute(element, "style-name") in hidden, rows, parts
            for _ in rows:
                pass
        elif event == "end" and attribute(find(element, "table-properties"), "display") == "false":
            hidden.add(attribute(element, "name"))


def _rows(events: _Events, table: Element, parts: SheetParts) -> Iterator[Row]:
    """Yield the rows of a table up to its last one that is not empty."""
    at = blank = inner = count = 0
    for event, element in events:
        match local_name(element), event:
            case "table", "start":
                inner += 1  # a table in a cell
            case "table", "end":
                if not inner:
                    return
                inner -= 1
            case "shapes", "end":
                _add_shapes(parts, element)
            case "table-row", "end" if not inner:
                times = min(number(element, "number-rows-repeated") or 1, _MOST_ROWS - at)
                cells, merged = _row(element, at + 1, parts)
                table.clear()
                at += times
                if not cells:
                    blank += times
                    continue
                for _ in range(blank):
                    yield [], {}
                blank = 0
                count += len(cells) * times
                if count > MOST_CELLS:
                    raise Fault("large", f"a sheet of more than {MOST_CELLS:,} cells", "export it as CSV")
                for _ in range(times):
                    yield [*cells], merged


def _row(row: Element, at: int, parts: SheetParts) -> Row:
    """Return the texts of a row up to its last cell that is not empty. Note what else is in its cells."""
    cells: list[str] = []
    merged: dict[int, int] = {}
    column = 0
    for cell in row:
        if not local_name(cell).endswith("table-cell"):
            continue
        facts = {name.rpartition("}")[2]: value for name, value in cell.items()}
        times = min(_count(facts, "number-columns-repeated"), _MOST_COLUMNS - column)
        lines = _lines(cell, f"{column_letters(column)}{at}", parts) if len(cell) else []
        if times and (text := _value(facts) or shown("\n".join(lines))):
            cells += [""] * (column - len(cells)) + [text] * times
            if (spanned := _count(facts, "number-rows-spanned")) > 1:
                merged[column] = spanned - 1
        column += times
    return cells, merged


def _count(facts: Mapping[str, str], name: str) -> int:
    value = facts.get(name, "")[:9]
    return int(value) if value.isdecimal() else 1


def _lines(cell: Element, place: str, parts: SheetParts) -> list[str]:
    """Return the lines that a cell shows. Note its comment and shapes."""
    lines: list[str] = []
    for part in cell:
        match local_name(part):
            case "annotation":
                author, text = annotation_of(part)
                parts.add(place, text, author)
            case "p":
                lines.append(_line(part))
            case _:
                _add_shapes(parts, [part])
    return [line for line in lines if line]


def _value(facts: Mapping[str, str]) -> str:
    """Return the value that a cell states, "" if what it shows counts."""
    with suppress(ValueError):
        match facts.get("value-type"):
            case "float" | "currency":
                return shown(float(facts.get("value", "")))
            case "percentage":
                return f"{float(facts.get('value', '')) * 100:.12g}%"
            case "boolean":
                return facts.get("boolean-value", "").upper()
            case "date":
                return facts.get("date-value", "").replace("T", " ").removesuffix(" 00:00:00")
            case "time" if time := _TIME.fullmatch(facts.get("time-value", "")):
                return f"{int(time[1])}:{time[2]}:{time[3]}"
    return ""


def _line(paragraph: Element) -> str:
    if not len(paragraph):
        return " ".join((paragraph.text or "").split())
    words = Words()
    words.read_one(paragraph)
    return words.flow.text().strip()


def _add_shapes(parts: SheetParts, shapes: Element | list[Element]) -> None:
    for shape in shapes:
        paragraphs = ("".join(one.itertext()) for one in shape.iter() if local_name(one) == "p")
        parts.add("Text box", "\n".join(paragraphs))
        parts.pictures += sum(local_name(one) in _PICTURES for one in shape.iter())
