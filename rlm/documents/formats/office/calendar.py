"""Reads calendars and address books (iCalendar, vCard): a section for each entry, its fields decoded."""

from __future__ import annotations

import base64
import binascii
import io
import quopri
import re
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.encoding import decode_whole, prepare_encodings
from rlm.documents.formats.piece import Ended, Heading, Note, Piece, Text, Unreadable

__all__ = ["prepare", "read_calendar"]

_SOFT_BREAK = re.compile(r"(;[^:\n]{0,200}QUOTED-PRINTABLE[^:\n]{0,200}:[^\n]*)=\n", re.IGNORECASE)
_FOLD = re.compile(r"\n[ \t]")
_FIELD = re.compile(
    r"(?P<name>[A-Za-z][\w.-]{0,80})(?P<parameters>(?:;(?:\"[^\"\n]*\"|[^:\"\n])*)?):(?P<value>.*)"
)
_PARAMETER = re.compile(r"([\w-]+)=(\"[^\"]*\"|[^;]*)")
_SHOWN = ("CN", "TYPE", "TZID", "PARTSTAT", "ROLE", "VALUE")
_ESCAPED = re.compile(r"\\([nN,;:\\\"])")
_ENTRIES = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Note", "VFREEBUSY": "Busy", "VCARD": "Contact"}
_TITLES = ("SUMMARY", "FN", "N")
_MAX_SOFT_BREAKS = 10_000
_SAMPLE = (
    b"BEGIN:VCARD\r\nFN;CHARSET=latin-1;ENCODING=QUOTED-PRINTABLE:=E9\r\n"
    b"NOTE;ENCODING=b:YQ==\r\nEND:VCARD\r\n"
)


def prepare() -> None:
    """Import what reading needs, by reading a small text: later nothing can be opened."""
    prepare_encodings()
    list(read_calendar(io.BytesIO(_SAMPLE), len(_SAMPLE)))


def read_calendar(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a heading for each entry (`Event 3: Board meeting`) and a line `NAME (parameters): value` for
    each field. Folded lines are joined, and quoted-printable, base64 and escaped values are decoded.

    Raises Unreadable for a text without fields.
    """
    file.seek(0)
    text, replaced, guessed = decode_whole(file.read())
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for _ in range(_MAX_SOFT_BREAKS):
        text, count = _SOFT_BREAK.subn(r"\1", text)
        if not count:
            break
    fields = [_FIELD.fullmatch(line) for line in _FOLD.sub("", text).split("\n") if line.strip()]
    if not any(fields):
        raise Unreadable("a calendar without any field", "rename it to .txt to have it read as text")
    strange = sum(field is None for field in fields)
    entry: list[tuple[str, str]] = []
    numbers: dict[str, int] = {}
    for field in fields:
        if field is None:
            continue
        name, value = field["name"].upper(), _decoded(field["parameters"], field["value"])
        kind = _ENTRIES.get(value.strip().upper(), "")
        if name == "BEGIN" and kind:
            yield from _lines(entry)
            entry = []
        elif name == "END" and kind:
            numbers[kind] = numbers.get(kind, 0) + 1
            title = next(
                (text for wanted in _TITLES for one, text in entry if one.partition(" ")[0] == wanted), ""
            )
            yield Heading(1, " ".join(f"{kind} {numbers[kind]}: {title}".split()).rstrip(":"))
            yield from _lines(entry)
            entry = []
        elif name not in ("BEGIN", "END"):
            entry.append((f"{field['name']}{_shown(field['parameters'])}", value))
    yield from _lines(entry)
    if strange:
        yield Note(f"{strange:,} lines are no fields and were left out: correct them if they matter")
    yield Ended(replaced, guessed)


def _lines(entry: list[tuple[str, str]]) -> Iterator[Text]:
    if entry:
        yield Text("".join(f"{name}: {value}\n" for name, value in entry) + "\n")


def _parameters(text: str) -> dict[str, str]:
    return {name.upper(): value.strip('"') for name, value in _PARAMETER.findall(text)}


def _shown(text: str) -> str:
    given = _parameters(text)
    shown = ", ".join(given[name] for name in _SHOWN if given.get(name))
    return f" ({shown})" if shown else ""


def _decoded(parameters: str, value: str) -> str:
    """Return a value as a person reads it. Bytes that are no text are named by their number."""
    given = _parameters(parameters)
    encoding = given.get("ENCODING", "").upper() or parameters.upper()
    charset = given.get("CHARSET", "utf-8")
    if "QUOTED-PRINTABLE" in encoding:
        return _text(quopri.decodestring(value.encode("utf-8", "replace")), charset)
    if encoding in ("B", "BASE64") or ";BASE64" in encoding:
        try:
            data = base64.b64decode(value, validate=False)
        except (ValueError, binascii.Error):
            return value
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return f"{len(data):,} bytes, not read"
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def _text(data: bytes, charset: str) -> str:
    return decode_whole(data, charset)[0]
