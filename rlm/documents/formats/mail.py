"""Reading of mail: messages and mailboxes, with their parts decoded and their attachments named."""

from __future__ import annotations

import codecs
import email
import email.errors
import email.policy
import email.utils
import io
import re
from collections.abc import Iterator
from email.header import decode_header, make_header
from email.message import Message
from typing import BinaryIO

from rlm.documents.encoding import Decoder
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.piece import Ended, Heading, Note, Piece, Text, Unreadable

__all__ = ["prepare", "read_mail"]

_HEADERS = ("From", "To", "Cc", "Bcc", "Date", "Subject")
_MAX_MESSAGES = 100_000
_MAX_PARTS = 10_000
_MAX_HEADER = 4_000
_SHOWN_NAMES = 5
_SAME_TEXT = 0.6
"""Of two forms of one text, the plain one is enough if it has this share of the other's letters."""
_SEPARATOR = re.compile(rb"(?:\A|\r?\n(?=\r?\n)\r?\n|\A\r?\n)From [^\r\n]*\r?\n", re.ASCII)


_CHARSETS = (
    "ascii utf_8 utf_8_sig utf_7 utf_16 utf_32 latin_1 cp437 cp850 cp932 cp949 mac_roman koi8_r koi8_u "
    "gb2312 gbk gb18030 big5 shift_jis euc_jp iso2022_jp euc_kr "
    + " ".join(f"cp125{number}" for number in range(9))
    + " "
    + " ".join(f"iso8859_{number}" for number in (*range(2, 12), 13, 14, 15, 16))
).split()
_SAMPLE = b"""From: =?iso-8859-1?q?J=F6rg?= <a@b>
Subject: =?utf-8?b?w6k=?=
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain
Content-Transfer-Encoding: base64

Q2Fm6Q==
--b
Content-Type: text/html; charset=latin-1
Content-Disposition: attachment; filename*=utf-8''%C3%A9.html
Content-Transfer-Encoding: quoted-printable

<h1>a</h1><p>b=E9</p>
--b
Content-Type: text/plain
Content-Transfer-Encoding: x-uuencode

begin 644 a
#86)C
`
end
--b--
"""


def prepare() -> None:
    """Import what reading needs, by reading a small mail: later the process can open nothing."""
    for name in _CHARSETS:
        codecs.lookup(name)
    Decoder().feed(bytes(range(0x80, 0x100)) * 8)  # a guess at the encoding tries many
    list(read_mail(io.BytesIO(_SAMPLE), len(_SAMPLE)))


def read_mail(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the messages of a mail file or mailbox: the usual headers, then each text part under a heading
    (`Part 2 (text/html)`). Other parts are named, and a note says that they were not read."""
    data = file.read()
    messages = _split_mailbox(data)
    reader = _MailReader(numbered=len(messages) > 1)
    try:
        for message in messages:
            yield from reader.message(email.message_from_bytes(message, policy=email.policy.compat32))
    except RecursionError as error:
        raise Unreadable("a mail nested too deeply", "save its parts as files, and name them") from error
    yield from reader.notes()
    yield Ended(reader.replaced, reader.guessed)


def _split_mailbox(data: bytes) -> list[bytes]:
    """Return the messages of a mailbox, or the one message that the file is."""
    if not data.startswith(b"From "):
        return [data]
    edges = [match.span() for match in _SEPARATOR.finditer(data)]
    if len(edges) > _MAX_MESSAGES:
        raise Unreadable(
            f"a mailbox of {len(edges):,} messages (the limit is {_MAX_MESSAGES:,})", "split it into several"
        )
    ends = [start for start, _ in edges[1:]] + [len(data)]
    return [data[start:end] for (_, start), end in zip(edges, ends, strict=True)]


class _MailReader:
    """Reads messages. Collects what was replaced, guessed and not read."""

    def __init__(self, *, numbered: bool) -> None:
        self.replaced = 0
        self.guessed: str | None = None
        self._numbered = numbered
        self._messages = 0
        self._parts = 0
        self._unread: list[str] = []

    def message(self, message: Message, level: int = 1) -> Iterator[Piece]:
        """Yield the headers of a message and its parts."""
        self._messages += 1
        subject = _header(message, "Subject") or "(no subject)"
        number = f"Message {self._messages}: " if self._numbered or level > 1 else ""
        yield Heading(min(level, 5), f"{number}{subject}")
        lines = [f"{name}: {value}\n" for name in _HEADERS if (value := _header(message, name))]
        yield Text("".join(lines) + "\n")
        parts = list(_leaves(message))
        for part in parts:
            self._parts += 1
            if self._parts > _MAX_PARTS:
                raise Unreadable(f"a mail of more than {_MAX_PARTS:,} parts", "save its parts as files")
            yield from self._part(part, self._parts, level)

    def notes(self) -> Iterator[Note]:
        """Yield the note about the attachments that were not read, if there are any."""
        if self._unread:
            shown = ", ".join(self._unread[:_SHOWN_NAMES])
            rest = len(self._unread) - _SHOWN_NAMES
            more = f" and {rest:,} more" if rest > 0 else ""
            yield Note(f"its attachments were not read ({shown}{more}): save them as files and name them too")

    def _part(self, part: Message, number: int, level: int) -> Iterator[Piece]:
        kind = part.get_content_type()
        name = " ".join((_file_name(part) or "").split())[:200]
        label = f"{name}, {kind}" if name else kind
        if kind == "message/rfc822":
            for inner in part.get_payload() if part.is_multipart() else ():
                if isinstance(inner, Message):
                    yield from self.message(inner, level + 1)
            return
        content = part.get_payload(decode=True)
        data = content if isinstance(content, bytes) else b""
        if part.get_content_maintype() != "text" or kind in ("text/rtf", "text/richtext"):
            if data:
                self._unread.append(name or kind)
                yield Heading(min(level + 1, 6), f"Part {number} ({label})")
                yield Text(f"Attachment of {len(data):,} bytes, not read.\n\n")
            return
        if not data.strip():
            return
        yield Heading(min(level + 1, 6), f"Part {number} ({label})")
        charset = part.get_content_charset()
        if kind == "text/html":
            # The headings of the page become lines: a citation shows the part that it is in.
            text = "".join(_lines_of_markup(self._decode_html(data, charset)))
        else:
            text = self._decode(data, charset)
        yield Text(text.replace("\r\n", "\n").rstrip("\n") + "\n\n")

    def _decode(self, data: bytes, charset: str | None) -> str:
        if charset:
            try:
                text = data.decode(charset, "replace")
            except (LookupError, ValueError):
                pass  # an unknown name, or not a text encoding: detect the encoding
            else:
                self.replaced += text.count("\ufffd")
                return text
        decoder = Decoder()
        fed = decoder.feed(data)
        text = (fed if isinstance(fed, str) else fed.decode("utf-8", "replace")) + decoder.finish()
        self.replaced += text.count("\ufffd")
        self.guessed = self.guessed or decoder.guessed
        return text

    def _decode_html(self, data: bytes, charset: str | None) -> str:
        if charset:
            return self._decode(data, charset)
        markup, replaced, guessed = decode_markup(data)
        self.replaced += replaced
        self.guessed = self.guessed or guessed
        return markup


def _leaves(message: Message) -> Iterator[Message]:
    """Yield the parts that hold content. Of two forms of one text, yields the plain one if it is complete."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        yield message
        return
    parts = [part for part in message.get_payload() if isinstance(part, Message)]
    if message.get_content_type() == "multipart/alternative":
        plain = next((part for part in parts if part.get_content_type() == "text/plain"), None)
        if plain is not None:
            others = [leaf for part in parts if part is not plain for leaf in _leaves(part)]
            html = [leaf for leaf in others if leaf.get_content_type() == "text/html"]
            yield plain
            yield from (leaf for leaf in others if leaf not in html)
            letters = sum(map(_count_letters, html))
            if _count_letters(plain) < _SAME_TEXT * letters:
                yield from html
            return
    for part in parts:
        yield from _leaves(part)


def _count_letters(part: Message) -> int:
    """Return the number of letters that a part shows, about."""
    content = part.get_payload(decode=True)
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
    if part.get_content_type() == "text/html":
        text = "".join(_lines_of_markup(text))
    return sum(map(str.isalnum, text))


def _lines_of_markup(markup: str) -> Iterator[str]:
    for piece in pieces_of_markup(markup, titled=False):
        if isinstance(piece, Text):
            yield piece.text
        elif isinstance(piece, Heading):
            yield f"{piece.title}\n"


def _header(message: Message, name: str) -> str:
    """Return a header, decoded, on one line."""
    values = [_decoded(str(value)) for value in message.get_all(name, [])]
    return " ".join(", ".join(values).split())[:_MAX_HEADER]


def _file_name(part: Message) -> str | None:
    try:
        name = part.get_filename()
    except (LookupError, ValueError):  # a broken parameter
        return None
    return None if name is None else _decoded(name)


def _decoded(value: str) -> str:
    try:
        return str(make_header(decode_header(value)))
    except (LookupError, ValueError, email.errors.HeaderParseError):
        return value.encode("utf-8", "replace").decode()
