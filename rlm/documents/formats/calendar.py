"""Reads calendars and address books (iCalendar, vCard): a section for each entry, its fields decoded."""

from __future__ import annotations

import base64
import quopri
import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.piece import Ended, Fault, Heading, Piece, Problem, Text

__all__ = ["read_calendar"]

_SOFT_BREAK = re.compile(r"(;[^:\n]{0,200}QUOTED-PRINTABLE[^:\n]{0,200}:[^\n]*)=\n", re.IGNORECASE)
_FOLD = re.compile(r"\n[ \t]")
_FIELD = re.compile(
    r"(?P<name>[A-Za-z][\w.-]{0,80})(?P<parameters>(?:;(?:\"[^\"\n]*\"|[^:\"\n])*)?):(?P<value>.*)"
)
_PARAMETER = re.compile(r"([\w-]+)=(\"[^\"]*\"|[^;]*)")
_NAMELESS = ("CN", "TYPE", "TZID", "PARTSTAT", "ROLE", "VALUE")
"""Parameters whose values need no name."""
_ESCAPED = re.compile(r"\\([nN,;:\\\"])")
_ENTRIES = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Note", "VFREEBUSY": "Busy", "VCARD": "Contact"}
_TITLES = ("SUMMARY", "FN", "N")
_MAX_SOFT_BREAKS = 10_000


def read_calendar(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a heading for each entry (`Event 3: Board meeting`) and a line `NAME (parameters): value` for
    each field. Folded lines are joined, and quoted-printable, base64 and escaped values are decoded.

    Raises Fault for a text without fields.
    """
    text, replaced, guessed = decode_whole(file.read())
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for _ in range(_MAX_SOFT_BREAKS):
        text, count = _SOFT_BREAK.subn(r"\1", text)
        if not count:
            break
    fields = [_FIELD.fullmatch(line) for line in _FOLD.sub("", text).split("\n") if line.strip()]
    if not any(fields):
        raise Fault("foreign", "it has no field", "rename it to .txt to have it read as text")
    entry: list[tuple[str, str]] = []
    numbers: Counter[str] = Counter()
    for field in filter(None, fields):
        given = {name.upper(): value.strip('"') for name, value in _PARAMETER.findall(field["parameters"])}
        name, value = field["name"].upper(), _decoded(field["parameters"].upper(), given, field["value"])
        kind = _ENTRIES.get(value.strip().upper(), "")
        if name in ("BEGIN", "END") and kind:
            if name == "END":
                numbers[kind] += 1
                title = next(
                    (value for wanted in _TITLES for one, value in entry if one.partition(" ")[0] == wanted),
                    "",
                )
                yield Heading(1, " ".join(f"{kind} {numbers[kind]}: {title}".split()).rstrip(":"))
            yield from _lines(entry)
            entry = []
        elif name not in ("BEGIN", "END"):
            shown = ", ".join(
                value if one in _NAMELESS else f"{one}={value}"
                for one, value in given.items()
                if value and one not in ("ENCODING", "CHARSET")
            )
            entry.append((f"{field['name']} ({shown})" if shown else field["name"], value))
    yield from _lines(entry)
    if strange := fields.count(None):
        yield Problem(f"{strange:,} lines are no fields and were left out", "correct them if they matter")
    yield Ended(replaced, guessed)


def _lines(entry: list[tuple[str, str]]) -> Iterator[Text]:
    if entry:
        yield Text("".join(f"{name}: {value}\n" for name, value in entry) + "\n")


def _decoded(parameters: str, given: dict[str, str], value: str) -> str:
    """Return a value as a person reads it. Bytes that are no text are named by their number."""
    encoding = given.get("ENCODING", "").upper() or parameters
    if "QUOTED-PRINTABLE" in encoding:
        data = quopri.decodestring(value.encode("utf-8", "replace"))
        return decode_whole(data, given.get("CHARSET", "utf-8"))[0]
    if encoding in ("B", "BASE64") or ";BASE64" in encoding:
        try:
            data = base64.b64decode(value, validate=False)
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return f"{len(data):,} bytes, not read"
        except ValueError:
            return value
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)
