"""Finds text in a document that is encoded or encrypted, so that no search and no reader sees its words."""

from __future__ import annotations

import base64
import binascii
import re

from rlm.sandbox.context.writer import ContextFileWriter

__all__ = ["EncodedText", "ScanningWriter"]

_WHOLE = 8 << 20
"""Characters of a document that are looked at. Of each later block, only its begin is."""
_BEGIN = 16 * 1024
_SAMPLE = 64 * 1024
_MOST_CANDIDATES = 50
"""Runs of one block that are tried: a list of hashes holds many."""
_DECODED = 3_000
_LEAST_TEXT = 40
_MOST_ODD = 0.02
_ESCAPED_WORDS = 3

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SHAPE = bytes(b"a"[0] if code in _DIGITS else b" "[0] for code in range(256))
_SHORTEST = b"a" * 48
_LONG_RUN = re.compile(rb"[A-Za-z0-9+/]{300,}={0,2}")
_LINES = re.compile(rb"(?:[A-Za-z0-9+/]{48,100}\r?\n){3,}[A-Za-z0-9+/]*={0,2}")
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2})+")
_SOFT_BREAKS = re.compile(rb"\n[^\n]{40,78}=\r?\n[^\n]{40,78}=\r?\n")
_QUOTED = re.compile(rb"=[0-9A-F]{2}")
_UUENCODED = re.compile(rb"(?:^|\n)begin(?:-base64)? [0-7]{3,4} [^\r\n]{1,255}\r?\n[!-`][^\r\n]{1,90}\r?\n")
_ENCRYPTED = re.compile(
    rb"-----BEGIN (?:PGP MESSAGE|PKCS7|CMS|ENCRYPTED MESSAGE|AGE ENCRYPTED FILE)-----|\$ANSIBLE_VAULT;"
)
_FIELD = re.compile(rb";ENCODING=(?:BASE64|B|QUOTED-PRINTABLE)[;:]", re.I)
_ESCAPES = re.compile(rb"(?:\\u[0-9a-fA-F]{4}){5}")
_ENTITIES = re.compile(rb"(?:&#[xX]?[0-9a-fA-F]{1,6};){5}")
_MAGIC = (
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP|II\*\x00|MM\x00\*", re.S), "a picture"),
    (
        re.compile(rb"%PDF-|PK\x03\x04|\xd0\xcf\x11\xe0|\{\\rtf|\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd"),
        "a file",
    ),
)
_DECODE = "decode it and name the result"


class EncodedText:
    """Looks for encoded text in the blocks of one document."""

    def __init__(self) -> None:
        self._seen = self._held_size = 0
        self._held: list[bytes] = []
        self._found: dict[str, str] = {}
        self._escapes = 0

    def feed(self, block: str | bytes) -> None:
        """Take the next block. Small ones are looked at together: a reader may write line by line."""
        self._seen += len(block)
        if self._seen > _WHOLE and len(block) > _BEGIN:
            block = block[:_BEGIN]
        data = block.encode("utf-8", "replace") if isinstance(block, str) else block
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size >= _SAMPLE:
            self._look()

    def finish(self) -> list[str]:
        """Return what was found, with the remedy, one line each."""
        self._look()
        return [f"{what}: {remedy}" for what, remedy in self._found.items()]

    def _look(self) -> None:
        data = b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        if b"=" in data:
            self._find_marked(data)
        self._find_base64(data)
        self._find_escapes(data)
        if b"-----BEGIN " in data or b"$ANSIBLE_VAULT;" in data:
            self._note_if(
                _ENCRYPTED.search(data), "it holds encrypted text", "decrypt it and name the result"
            )
        if b"begin" in data:
            self._note_if(_UUENCODED.search(data), "it holds a file in uuencoding that was not read", _DECODE)
        if b"BinHex 4.0)" in data:
            self._note("it holds a file in BinHex that was not read", _DECODE)

    def _find_marked(self, data: bytes) -> None:
        if b"=ybegin " in data:
            self._note("it holds a file in yEnc that was not read", _DECODE)
        self._note_if(_FIELD.search(data), "it holds encoded fields that were not read", _DECODE)
        breaks = _SOFT_BREAKS.search(data) if b"=\n" in data or b"=\r\n" in data else None
        if breaks and _QUOTED.search(data, max(0, breaks.start() - _SAMPLE), breaks.end() + _SAMPLE):
            self._note(
                "it is written in quoted-printable, so its words are cut", "decode it, or name it .eml"
            )

    def _find_base64(self, data: bytes) -> None:
        # Most blocks hold no such run, and this is the fastest way to know.
        shape = data.translate(_SHAPE)
        place, tried = shape.find(_SHORTEST), 0
        while place >= 0 and tried < _MOST_CANDIDATES:
            tried += 1
            start = max(0, shape.rfind(b" ", 0, place) + 1)
            run = _LONG_RUN.match(data, start) or _LINES.match(data, start)
            what = _describe(run[0][: 2 * _DECODED]) if run else ""
            if what:
                self._note(f"it holds {what} that was not read", _DECODE)
            end = max(run.end() if run else 0, shape.find(b" ", place))
            place = shape.find(_SHORTEST, end) if end > place else -1

    def _find_escapes(self, data: bytes) -> None:
        if b"\\u" in data:
            self._escapes += len(_ESCAPES.findall(data))
            if self._escapes >= _ESCAPED_WORDS:
                self._note(
                    "it writes words as escapes (\\u0431…), which no search finds",
                    "write them out (jq . FILE)",
                )
        if b"&#" in data:
            self._note_if(
                _ENTITIES.search(data),
                "it writes words as entities (&#1073;…), which no search finds",
                "rename it to .html to have them decoded",
            )

    def _note_if(self, found: object, what: str, remedy: str) -> None:
        if found:
            self._note(what, remedy)

    def _note(self, what: str, remedy: str) -> None:
        self._found.setdefault(what, remedy)


class ScanningWriter(ContextFileWriter):
    """A writer that looks for encoded text in every document it writes."""

    _text: EncodedText | None = None

    def write(self, data: bytes | str) -> None:
        """Add text to the open document."""
        if self._text is None:
            self._text = EncodedText()
        self._text.feed(data)
        super().write(data)

    def encoded_notes(self) -> list[str]:
        """Return what was found in the open document. Call it once, before the document ends."""
        text, self._text = self._text, None
        return [] if text is None else text.finish()


def _describe(run: bytes) -> str:
    """Return what a run of base64 or hexadecimal digits holds, "" if it is neither text nor a known file: a
    key, a hash, a sequence of letters."""
    digits = b"".join(run.split())
    if _HEX.fullmatch(digits):
        form, data = "hexadecimal digits", binascii.unhexlify(digits[:_DECODED])
    else:
        form, kept = "base64", digits.rstrip(b"=")
        try:
            data = base64.b64decode(kept[: len(kept) // 4 * 4])
        except ValueError:
            return ""
    for magic, what in _MAGIC:
        if magic.match(data):
            return f"{what} in {form}"
    return f"text in {form}" if _is_text(data[:_DECODED]) else ""


def _is_text(data: bytes) -> bool:
    text = data.decode("utf-8", "ignore")
    if len(text) < _LEAST_TEXT or len(text.encode()) < len(data) - 3:
        return False
    odd = sum(not char.isprintable() and char not in "\t\r\n" for char in text)
    return odd <= _MOST_ODD * len(text)
