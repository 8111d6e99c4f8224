"""Reading of Outlook messages (.msg), with the messages and files that are attached to them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.parser import HeaderParser
from email.utils import format_datetime
from typing import Any, BinaryIO

from compressed_rtf import decompress
from olefile import STGTY_STORAGE, OleFileIO
from olefile.olefile import DEFECT_INCORRECT

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.mail import header_of, pieces_of_mail
from rlm.documents.formats.piece import Fault, Piece

__all__ = ["read_msg"]

_SUBJECT, _HEADERS, _BODY, _HTML, _RTF = 0x0037, 0x007D, 0x1000, 0x1013, 0x1009
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
_TO, _CC, _BCC = 0x0E04, 0x0E03, 0x0E02
_SENT, _RECEIVED = 0x0039, 0x0E06
_TEXT_CODEPAGE, _HTML_CODEPAGE = 0x3FFD, 0x3FDE
_ADDRESS, _SMTP, _RECIPIENT_TYPE = 0x3003, 0x39FE, 0x0C15
_FILE, _FILE_NAME, _SHORT_NAME, _SHOWN_NAME = 0x3701, 0x3707, 0x3704, 0x3001
_UNICODE, _STRING, _BINARY, _OBJECT, _TIME, _INTEGER = 0x001F, 0x001E, 0x0102, 0x000D, 0x0040, 0x0003
_CODECS = {
    20127: "ascii", 20866: "koi8_r", 21866: "koi8_u", 50220: "iso2022_jp", 51932: "euc_jp", 51949: "euc_kr",
    54936: "gb18030", **{28590 + part: f"iso-8859-{part}" for part in range(1, 17)},
}  # fmt: skip
_BANNER = re.compile(r"\AMicrosoft Mail Internet Headers[^\n]*\n")
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_MAX_LEVELS = 10
_MAX_STREAM = 256 << 20
_SAVE_IT = "open it in Outlook and save it as .eml"


def read_msg(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the message as the mail that it is: its headers and texts, the messages and files that are
    attached to it. Raises Fault for another file of Outlook."""
    with OleFileIO(file, raise_defects=DEFECT_INCORRECT) as ole:
        if not ole.exists("__properties_version1.0"):
            raise Fault("foreign", "it holds no message", _SAVE_IT)
        yield from pieces_of_mail(_message(ole, [], 1))


class _Part(Message):
    """A part of a mail whose bytes are decoded, and read when they are needed."""

    def __init__(self, kind: str, read: Callable[[], bytes], name: str = "") -> None:
        super().__init__()
        self["Content-Type"] = kind
        if name:
            self.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
        self._read = read

    def get_payload(self, i: int | None = None, decode: bool = False) -> Any:
        return self._read()


def _message(ole: OleFileIO, at: list[str], level: int) -> Message:
    """Return the message in a storage. Raises Fault for too many messages within messages."""
    if level > _MAX_LEVELS:
        raise Fault("deep", remedy=_SAVE_IT)
    head = _Properties(ole, at, 32 if level == 1 else 24)
    mail = Message()
    mail["Content-Type"] = "multipart/mixed"
    for name, value in _headers(head, _recipients(ole, at)):
        mail[name] = value
    texts = Message()
    texts["Content-Type"] = "multipart/alternative"
    if head.text(_BODY).strip():
        texts.attach(_Part("text/plain; charset=utf-8", lambda: head.text(_BODY).encode("utf-8", "replace")))
    if head.has(_HTML, _BINARY):
        label = _label(head.integer(_HTML_CODEPAGE))
        kind = f"text/html; charset={label}" if label else "text/html"
        texts.attach(_Part(kind, lambda: head.data(_HTML, _BINARY)))
    elif head.text(_HTML).strip():
        texts.attach(_Part("text/html; charset=utf-8", lambda: head.text(_HTML).encode("utf-8", "replace")))
    if texts.is_multipart():
        mail.attach(texts)
    elif head.has(_RTF, _BINARY):
        mail.attach(_Part("text/rtf", lambda: decompress(head.data(_RTF, _BINARY)), "message.rtf"))
    for number, name in enumerate(_storages(ole, at, "__attach_version1.0_"), 1):
        mail.attach(_attachment(ole, [*at, name], number, level))
    return mail


def _attachment(ole: OleFileIO, at: list[str], number: int, level: int) -> Message:
    head = _Properties(ole, at, 8)
    inner = head.place(_FILE, _OBJECT)
    if ole.get_type(inner) == STGTY_STORAGE and ole.exists([*inner, "__properties_version1.0"]):
        part = Message()
        part["Content-Type"] = "message/rfc822"
        part.attach(_message(ole, inner, level + 1))
        return part
    name = next((text for one in (_FILE_NAME, _SHORT_NAME, _SHOWN_NAME) if (text := head.text(one))), "")
    # Its name tells its kind.
    return _Part(
        "application/octet-stream",
        lambda: _stream(ole, head.place(_FILE, _BINARY)),
        _line(name) or f"attachment {number}",
    )


def _storages(ole: OleFileIO, at: list[str], begin: str) -> list[str]:
    """Return the names of the attachments or recipients of a message."""
    paths = ole.listdir(storages=True)
    names = {path[len(at)] for path in paths if path[: len(at)] == at and len(path) > len(at)}
    return sorted(name for name in names if name.startswith(begin))


def _recipients(ole: OleFileIO, at: list[str]) -> dict[str, str]:
    """Return the names and addresses of the recipients by the header that they belong to."""
    found: dict[str, list[str]] = {"To": [], "Cc": [], "Bcc": []}
    for name in _storages(ole, at, "__recip_version1.0_"):
        one = _Properties(ole, [*at, name], 8)
        header = {2: "Cc", 3: "Bcc"}.get(one.integer(_RECIPIENT_TYPE), "To")
        found[header].append(_address(one.text(_SHOWN_NAME), one.text(_SMTP) or one.text(_ADDRESS)))
    return {header: "; ".join(filter(None, people)) for header, people in found.items()}


class _Properties:
    """The properties of a message or attachment, which are streams of its storage; the short ones are in one
    table, which begins after `skip` bytes."""

    def __init__(self, ole: OleFileIO, at: list[str], skip: int) -> None:
        self._ole = ole
        self._at = at
        table = _stream(ole, [*at, "__properties_version1.0"])[skip:]
        self._short = {
            (number, kind): value
            for kind, number, _, value in struct.iter_unpack("<HHI8s", table[: len(table) // 16 * 16])
        }

    def place(self, number: int, kind: int) -> list[str]:
        """Return the path of a property's stream."""
        return [*self._at, f"__substg1.0_{number:04X}{kind:04X}"]

    def has(self, number: int, kind: int) -> bool:
        """Return whether a property is there, as a stream."""
        return bool(self._ole.exists(self.place(number, kind)))

    def data(self, number: int, kind: int) -> bytes:
        """Return the bytes of a property, none if it is missing."""
        return _stream(self._ole, self.place(number, kind)) if self.has(number, kind) else b""

    def text(self, number: int) -> str:
        """Return a property of text, empty if it is missing."""
        wide = self.data(number, _UNICODE)
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self.data(number, _STRING).rstrip(b"\0")
        return decode_whole(narrow, _label(self.integer(_TEXT_CODEPAGE)))[0]

    def integer(self, number: int) -> int:
        """Return a property that is a number, 0 if it is missing."""
        return int.from_bytes(self._short.get((number, _INTEGER), b"")[:4], "little")

    def time(self, number: int) -> str:
        """Return a property that is a time, as mails write it; empty if it is missing."""
        ticks = int.from_bytes(self._short.get((number, _TIME), b""), "little")
        try:
            return format_datetime(_EPOCH + timedelta(microseconds=ticks // 10)) if ticks else ""
        except (OverflowError, ValueError):
            return ""


def _address(name: str, address: str) -> str:
    """Return a person as mails name one."""
    name, address = _line(name), _line(address)
    return f"{name} <{address}>" if name and address and name != address else name or address


def _headers(head: _Properties, recipients: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the usual headers: those that came with the mail, or what Outlook knows."""
    known = {
        "From": _address(head.text(_SENDER), head.text(_SENDER_SMTP) or head.text(_SENDER_ADDRESS)),
        "To": recipients["To"] or _line(head.text(_TO)),
        "Cc": recipients["Cc"] or _line(head.text(_CC)),
        "Bcc": recipients["Bcc"] or _line(head.text(_BCC)),
        "Date": head.time(_SENT) or head.time(_RECEIVED),
    }
    sent = HeaderParser().parsestr(_BANNER.sub("", head.text(_HEADERS)))
    for name, value in known.items():
        if line := header_of(sent, name) or value:
            yield name, line
    yield "Subject", _line(head.text(_SUBJECT))


def _stream(ole: OleFileIO, at: list[str]) -> bytes:
    with ole.openstream(at) as stream:
        data: bytes = stream.read(_MAX_STREAM + 1)
    if len(data) > _MAX_STREAM:
        raise Fault("large", "a part of more than 256 MB", _SAVE_IT)
    return data


def _label(codepage: int) -> str | None:
    return _CODECS.get(codepage) or (f"cp{codepage}" if codepage else None)


def _line(text: str) -> str:
    return " ".join(text.split())
