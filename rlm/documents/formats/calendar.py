"""Reads calendars and address books (iCalendar, vCard): a section for each entry, its fields decoded."""

from __future__ import annotations

import base64
import quopri
import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.piece import Ended, Fault, Heading, Piece, Text

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
    lines = [line for line in _FOLD.sub("", text).split("\n") if line.strip()]
    if not any(map(_FIELD.fullmatch, lines)):
        raise Fault("foreign", "it has no field", "rename it to .txt to have it read as text")
    entry: list[str] = []
    titles: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            entry.append(f"{line}\n")  # a broken line may hold what is asked for
            continue
        given = {name.upper(): value.strip('"') for name, value in _PARAMETER.findall(field["parameters"])}
        name, value = field["name"].upper(), _decoded(field["parameters"].upper(), given, field["value"])
        kind = _ENTRIES.get(value.strip().upper(), "")
        if name in ("BEGIN", "END") and kind:
            if name == "END":
                numbers[kind] += 1
                title = next((titles[one] for one in _TITLES if one in titles), "")
                yield Heading(1, " ".join(f"{kind} {numbers[kind]}: {title}".split()).rstrip(":"))
            if entry:
                yield Text("".join(entry) + "\n")
            entry, titles = [], {}
        elif name not in ("BEGIN", "END"):
            titles.setdefault(name, value)
            shown = ", ".join(
                value if one in _NAMELESS else f"{one}={value}"
                for one, value in given.items()
                if value and one not in ("ENCODING", "CHARSET")
            )
            entry.append(f"{field['name']} ({shown}): {value}\n" if shown else f"{field['name']}: {value}\n")
    if entry:
        yield Text("".join(entry) + "\n")
    yield Ended(replaced, guessed)


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
