"""Reading of mail: messages and mailboxes, with their parts decoded. Attachments are documents too."""

from __future__ import annotations

import email
import email.errors
import email.generator
import email.parser
import email.policy
import email.utils
import mimetypes
import re
from collections.abc import Iterator
from email.header import decode_header, make_header
from email.message import Message
from typing import BinaryIO

from rlm.documents.encoding import codec_of, decode_whole
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.piece import Data, Ended, Fault, Heading, Member, Piece, Problem, Text, text_of
from rlm.documents.formats.smime import signed_mail

__all__ = ["header_of", "pieces_of_mail", "read_mail"]

_HEADERS = ("From", "To", "Cc", "Bcc", "Date", "Subject")
_BLOCK = 1 << 20
_MAX_PARTS = 10_000
"""Parts of one message."""
_MAX_HEADER = 1 << 20
_SAME_TEXT = 0.6
"""Of two forms of one text, the plain one is enough if it has this share of the other's letters."""
_EDGE = re.compile(rb"\n\r?\nFrom ")
_PATCH = b" Mon Sep 17 00:00:00 2001"
"""The date in the first line of each patch of git. In a mailbox of mails, such a line stands in a mail."""
_EDGE_OF_MAIL = re.compile(rb"\n\r?\nFrom (?![0-9a-f]{40}%b)" % _PATCH)
_HIDDEN = re.compile(r"<(style|script|head)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|&\w+;", re.I | re.S)
_NO_LETTERS = re.compile(r"[\W_]+")
_SIGNATURES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
_SIGNED = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_ENCRYPTED = _SIGNED | {"application/pgp-encrypted"}
_ARMOR = b"-----BEGIN PGP MESSAGE-----"
_TYPES = mimetypes.MimeTypes(filenames=())


def read_mail(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the messages of a mail file or mailbox: the usual headers, then each text part under a heading
    (`Part 2 (text/html)`). Then yield the attachments, each as a member."""
    is_mailbox = file.read(5) == b"From "
    reader = _MailReader(numbered=is_mailbox)
    holders: list[tuple[int, int, int]] = []
    cut = 0
    for start, data in _messages(file) if is_mailbox else _whole(file):
        before = reader.messages
        reader.attachments = []
        message = _parsed(data)
        yield from reader.message(message)
        cut += any(isinstance(one, email.errors.CloseBoundaryNotFoundDefect) for one in message.defects)
        if reader.attachments:
            holders.append((before, start, len(data)))
    if cut:
        messages = "it ends" if not is_mailbox else f"{cut:,} of its messages end"
        yield Problem(f"{messages} in the middle (truncated)", "get it again")
    # The attachments of a whole mailbox may not fit into memory: they are read again.
    for before, start, length in holders:
        if is_mailbox:
            file.seek(start)
            reader.messages, reader.attachments = before, []
            for _ in reader.message(_parsed(file.read(length))):
                pass
        yield from reader.members()
    yield Ended(reader.replaced, reader.guessed)


def pieces_of_mail(mail: Message) -> Iterator[Piece]:
    """Yield the pieces of one mail, whatever program kept it."""
    reader = _MailReader(numbered=False)
    yield from reader.message(mail)
    yield from reader.members()
    yield Ended(reader.replaced, reader.guessed)


def _parsed(data: bytes) -> Message:
    return email.message_from_bytes(data, policy=email.policy.compat32)


def _whole(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    file.seek(0)
    yield 0, file.read()


def _messages(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield place and bytes of each message of a mailbox. A message begins after a line `From …` that follows
    an empty line."""
    file.seek(0)
    data, at = file.read(_BLOCK), 0
    start = data.find(b"\n") + 1
    edges = _EDGE if data[:start].rstrip().endswith(_PATCH) else _EDGE_OF_MAIL
    searched = start
    while True:
        edge = edges.search(data, searched)
        end_of_line = data.find(b"\n", edge.end()) if edge is not None else -1
        if edge is not None and end_of_line >= 0:
            yield at + start, data[start : edge.start() + 1]
            searched = start = end_of_line + 1
            continue
        more = file.read(_BLOCK)
        if not more:
            yield at + start, data[start:]
            return
        # An edge may lie across the blocks.
        searched = max(0, (edge.start() if edge is not None else len(data) - 8) - start)
        at += start
        data = data[start:] + more
        start = 0


class _MailReader:
    """Reads messages. Collects their attachments, and what was replaced and guessed."""

    def __init__(self, *, numbered: bool) -> None:
        self.replaced = 0
        self.guessed = ""
        self.messages = 0
        self.attachments: list[tuple[str, bytes, bool]] = []
        """Name, content, and whether it is encrypted."""
        self._numbered = numbered
        self._parts = 0

    def message(self, message: Message, level: int = 1) -> Iterator[Piece]:
        """Yield the headers of a message and its parts."""
        self.messages += 1
        if level == 1:
            self._parts = 0
        subject = header_of(message, "Subject") or "(no subject)"
        number = f"Message {self.messages}: " if self._numbered or level > 1 else ""
        yield Heading(min(level, 5), f"{number}{subject}")
        lines = [f"{name}: {value}\n" for name in _HEADERS if (value := header_of(message, name))]
        yield Text("".join(lines) + "\n")
        yield from self._leaves(message, level)

    def members(self) -> Iterator[Piece]:
        """Yield the attachments of the last message."""
        for name, data, is_encrypted in self.attachments:
            yield Member(name)
            if is_encrypted:
                yield Problem("encrypted", "open it in its mail program and save what it holds", "missing")
            else:
                yield Data(data)

    def _leaves(self, message: Message, level: int) -> Iterator[Piece]:
        for part in _leaves(message):
            self._parts += 1
            if self._parts > _MAX_PARTS:
                raise Fault("large", f"more than {_MAX_PARTS:,} parts", "save its parts as files")
            yield from self._part(part, self._parts, level)

    def _part(self, part: Message, number: int, level: int) -> Iterator[Piece]:
        kind = part.get_content_type()
        name = " ".join((_file_name(part) or "").split())[:200]
        label = f"{name}, {kind}" if name else kind
        if kind == "message/rfc822":
            for inner in part.get_payload() if part.is_multipart() else ():
                if isinstance(inner, Message):
                    yield from self.message(inner, level + 1)
            return
        data = _content(part)
        if not data.strip() or kind in _SIGNATURES:
            return
        if kind in _SIGNED and (signed := signed_mail(data)):
            yield from self._leaves(_parsed(signed), level)
            return
        yield Heading(min(level + 1, 6), f"Part {number} ({label})")
        if _is_attachment(part, name):
            own = name or f"part {number}{_TYPES.guess_extension(kind) or ''}"
            if self._numbered:
                own = f"message {self.messages}/{own}"
            if kind.startswith("text/") and kind != "text/html":
                data = self._decode(data, part.get_content_charset()).encode("utf-8", "replace")
            self.attachments.append((own, data, kind in _ENCRYPTED or data.startswith(_ARMOR)))
            yield Text(f"Attachment of {len(data):,} bytes: a document of its own, {own}\n\n")
            return
        charset = part.get_content_charset()
        if kind == "text/html":
            # The headings of the page become lines: a citation shows the part that it is in.
            text = text_of(pieces_of_markup(self._decode(data, charset, is_page=True), titled=False))
        else:
            text = self._decode(data, charset)
        yield Text(text.replace("\r\n", "\n").rstrip("\n") + "\n\n")

    def _decode(self, data: bytes, charset: str | None, *, is_page: bool = False) -> str:
        text, replaced, guessed = (decode_markup if is_page else decode_whole)(data, charset)
        self.replaced += replaced
        self.guessed = self.guessed or guessed
        return text


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
            if not _is_enough(plain, html):
                yield from html
            return
    for part in parts:
        yield from _leaves(part)


def _is_enough(plain: Message, pages: list[Message]) -> bool:
    """Return whether the plain form of a text holds about what its other forms show."""
    letters = _count_letters(_content(plain).decode("utf-8", "replace"))
    markups = [_content(page).decode("utf-8", "replace") for page in pages]
    # The quick look drops less than a page hides.
    if letters >= _SAME_TEXT * sum(_count_letters(_HIDDEN.sub(" ", markup)) for markup in markups):
        return True
    shown = sum(_count_letters(text_of(pieces_of_markup(markup, titled=False))) for markup in markups)
    return letters >= _SAME_TEXT * shown


def _count_letters(text: str) -> int:
    return len(_NO_LETTERS.sub("", text))


def _is_attachment(part: Message, name: str) -> bool:
    """Return whether a part is a file, and not a text of the mail."""
    kind = part.get_content_type()
    if part.get_content_maintype() not in ("text", "message") or kind in ("text/rtf", "text/richtext"):
        return True
    return part.get_content_disposition() == "attachment" or bool(
        name and kind not in ("text/plain", "text/html")
    )


def _content(part: Message) -> bytes:
    """Return the decoded bytes of a part. A report (message/delivery-status) is its fields."""
    content = part.get_payload(decode=True)
    if isinstance(content, bytes):
        return content
    blocks = part.get_payload()
    if not isinstance(blocks, list):
        return b""
    fields = (str(block) for block in blocks if isinstance(block, Message))
    return "\n".join(fields).encode("utf-8", "replace")


def header_of(message: Message, name: str) -> str:
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
    if "=?" not in value and value.isascii():
        return value
    try:
        parts = [(text, charset and (codec_of(charset) or charset)) for text, charset in decode_header(value)]
        return str(make_header(parts))
    except (LookupError, ValueError, email.errors.HeaderParseError):
        return value.encode("utf-8", "replace").decode()
