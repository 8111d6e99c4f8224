"""Detection and decoding of a text's encoding, in a stream. The first byte beyond ASCII decides."""

from __future__ import annotations

import codecs
import re
import unicodedata

__all__ = ["HEAD", "Decoder", "decode_whole", "looks_binary", "rehearse_guess"]

HEAD = 64 * 1024
"""The bytes from the start of a file that decide whether it is text."""

_SAMPLE = 16 * 1024
_MAX_INVALID = 0.3
_MAX_CONTROLS = 0.02
_BROKEN_UTF8 = 0.1
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_WESTERN = re.compile("[\x00-\x7fÀ-ÖØ-öø-ÿŒœŠšŽžŸ“”‘’„‚–—…•€£°«»·¿¡§©®™´`ªº\xa0]*")
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_NULS = re.compile(rb"\0+")
_NUL_SPACING = 1_000
"""In a text, one run of NULs in so many bytes is damage. More of them are a binary format."""
_MAX_NULS = 0.5
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_WIDE_SAMPLE = 4 * 1024
_MIN_WIDE = 8
_ODD = ("Cc", "Cn", "Co")
_MAX_ODD = 0.01
_LONGEST_WORD = 200
_MARKS = (
    # UTF-32 first: its mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def looks_binary(head: bytes) -> bool:
    """Return whether a file that begins with `head` (up to `HEAD` bytes) is not text: it holds many NULs or
    control characters, or many bytes that fit neither UTF-8 nor another detectable encoding."""
    if _encoding_by_mark(head) or _wide_encoding(head):
        return False
    if b"\0" in head:
        if len(_NULS.findall(head)) > len(head) // _NUL_SPACING:
            return True
        kept = head.replace(b"\0", b"")
        if len(kept) < (1 - _MAX_NULS) * len(head):
            return True
        head = kept
    if len(_CONTROLS.findall(head)) > _MAX_CONTROLS * len(head) + 1:
        return True
    if _invalid_share(head) <= _MAX_INVALID:
        return False
    return _guess(head[:_SAMPLE]) is None


class Decoder:
    """Turns blocks of one file into UTF-8 bytes (perhaps invalid in places) or text.

    `replaced` counts the NULs, and the characters that an encoding other than UTF-8 could not decode; both
    become U+FFFD. `guessed` is the encoding if it is neither UTF-8 nor named by the file's byte order mark.
    """

    def __init__(self) -> None:
        self.replaced = 0
        self.guessed: str | None = None
        self._started = False
        self._decided = False
        self._other: codecs.IncrementalDecoder | None = None

    def feed(self, block: bytes) -> bytes | str:
        """Decode the next block."""
        if not self._started:
            self._started = True
            encoding = _encoding_by_mark(block)
            if encoding is None:
                encoding = self.guessed = _wide_encoding(block)
            if encoding:
                self._other = codecs.getincrementaldecoder(encoding)("replace")
        if self._other is not None:
            return self._decode(block, final=False)
        # ASCII so far: every encoding is still possible.
        if self._decided or block.isascii():
            return self._without_nuls(block)
        self._decided = True
        self.guessed = _encoding_of(block)
        if self.guessed is None:
            return self._without_nuls(block)
        self._other = codecs.getincrementaldecoder(self.guessed)("replace")
        return self._decode(block, final=False)

    def finish(self) -> str:
        """Return the rest of a character that was cut off at the end."""
        return "" if self._other is None else self._decode(b"", final=True)

    def _decode(self, block: bytes, *, final: bool) -> str:
        assert self._other is not None
        text = self._other.decode(block, final).replace("\0", "\ufffd")
        self.replaced += text.count("\ufffd")
        return text

    def _without_nuls(self, block: bytes) -> bytes:
        # To look for one is ten times faster than to count them.
        if b"\0" not in block:
            return block
        self.replaced += block.count(b"\0")
        return block.replace(b"\0", "\ufffd".encode())


def rehearse_guess() -> None:
    """Import every encoding that a guess tries, for a process that soon can import nothing."""
    _guess(_BEYOND_ASCII * 8)


def _encoding_of(block: bytes) -> str | None:
    """Return the encoding of a file that was ASCII up to `block`; None for UTF-8, valid or damaged."""
    first = re.search(rb"[\x80-\xff]", block)
    start = max(0, first.start() - _SAMPLE // 2) if first else 0
    sample = block[start : start + _SAMPLE]
    invalid = _invalid_share(sample) * len(sample)
    beyond = len(sample) - len(sample.translate(None, _BEYOND_ASCII))
    # A few invalid bytes among valid ones are damaged UTF-8, not another encoding.
    return _guess(sample) if invalid > _BROKEN_UTF8 * beyond else None


def _encoding_by_mark(head: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


def _wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16 or UTF-32 without a byte order mark; None for anything else.

    Such a text holds a NUL in each blank and line end. Read in any other encoding, it holds characters that
    no text has.
    """
    if b"\0" not in head[:_WIDE_SAMPLE]:
        return None
    for encoding in _WIDE:
        width = 4 if encoding.startswith("utf-32") else 2
        sample = head[: min(_WIDE_SAMPLE, len(head) - len(head) % width)]
        try:
            # A surrogate pair may be cut at the end of the sample.
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        odd = sum(char not in "\t\n\r\f" and unicodedata.category(char) in _ODD for char in text)
        longest = max(map(len, re.split(r"[\s、。，．]+", text)))
        if len(text) >= _MIN_WIDE and odd <= _MAX_ODD * len(text) and longest <= _LONGEST_WORD:
            return encoding
    return None


def _invalid_share(data: bytes) -> float:
    """Return the share of bytes that are not UTF-8. A character cut off at either end is not counted."""
    if data.isascii():
        return 0.0
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    data = data[start:]
    valid = len(codecs.utf_8_decode(data, "ignore", False)[0].encode())
    _, used = codecs.utf_8_decode(data, "replace", False)
    return (used - valid) / max(1, len(data))


def _guess(data: bytes) -> str | None:
    """Return the most likely encoding of `data`; None if it cannot be detected."""
    # Tried first: the detector often takes short Western texts for Baltic or Central European ones.
    if _WESTERN.fullmatch(data.decode("cp1252", "replace")):
        return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    return None if best is None or best.encoding in ("utf_8", "ascii") else best.encoding


def decode_whole(data: bytes) -> tuple[str, int, str | None]:
    """Return the text of a whole file, the number of replaced characters, and the guessed encoding."""
    decoder = Decoder()
    fed = decoder.feed(data)
    if isinstance(fed, str):
        return (fed + decoder.finish()).removeprefix("\ufeff"), decoder.replaced, decoder.guessed
    text = fed.decode("utf-8-sig", "replace")
    return text, max(0, text.count("\ufffd") - fed.count(b"\xef\xbf\xbd")), None
