"""Detection and decoding of a text's encoding, in a stream. The first byte beyond ASCII decides.

What counts, in this order: a byte order mark, the NULs of UTF-16 and UTF-32, UTF-8, the label that the text
declares, a guess. A label given from outside (a page's or a mail's) counts before UTF-8.
"""

from __future__ import annotations

import codecs
import encodings
import pkgutil
import re
import unicodedata
from contextlib import suppress
from functools import cache

__all__ = ["HEAD", "Decoder", "codec_of", "decode_whole", "looks_binary", "prepare_encodings"]

HEAD = 64 * 1024
"""The bytes from the start of a file that decide whether it is text."""

_SAMPLE = 64 * 1024
_FULL = 1 << 20
"""Bytes of a block; only the last one of a file is shorter."""
_CONFIDENT = 0.25
"""The confidence from which chardet is right more often than chardetng: of a sentence, or of a log that
repeats a few names, it has less."""
_MAX_CONTROLS = 0.02
_BROKEN_UTF8 = 0.1
_CONTROLS = bytes((*range(1, 9), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_NULS = re.compile(rb"\0+")
_NUL_SPACING = 1_000
"""In a text, one run of NULs in so many bytes is damage. More of them are a binary format."""
_MAX_NULS = 0.5
_MAX_BEYOND_ASCII = 0.3
"""The share of bytes beyond ASCII up to which a NUL is damage, whatever the encoding."""
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
_DECLARED_WITHIN = 2048
_DECLARED = re.compile(
    rb"""\A\s{0,20}<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})"""
    rb"|(?:\A|\A[^\n]{0,500}\n)(?:[ \t\f]{0,20}\#[^\n]{0,200}?coding[:=]"
    rb"|[^\n]{0,200}?-\*-[^\n]{0,200}?coding:|[^\n]{0,400}?\b(?:fileencoding|fenc)=)[ \t]{0,9}([\w.-]{1,40})"
)
_JAPANESE = re.compile(rb"\x1b\$[@B][\x21-\x7e\r\n]{1,4000}\x1b\([BJ]")
_KOREAN = re.compile(rb"\x1b\$\)C(?=[^\x0e]{0,4000}\x0e)")
_LABELS = {
    "cp1252": "iso-8859-1 iso8859-1 latin-1 latin1 l1 x-cp1252 x-ansi",
    "cp1254": "iso-8859-9 iso8859-9 latin5 l5",
    "cp874": "windows-874 dos-874 tis-620 iso-8859-11 iso8859-11",
    "cp932": "shift-jis sjis x-sjis ms-kanji windows-31j ms932 csshiftjis",
    "cp949": "euc-kr ks-c-5601-1987 ks-c-5601-1989 ksc-5601 ksc5601 korean windows-949 cseuckr x-windows-949",
    "gb18030": "gb2312 gb-2312 gb-2312-80 gbk x-gbk chinese csgb2312 cp936 ms936 windows-936 euc-cn",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5 csbig5 cp950 windows-950",
    "euc_jp": "x-euc-jp cseucpkdfmtjapanese",
    "iso8859_8": "iso-8859-8-i iso-8859-8-e logical visual hebrew csiso88598i",
    "koi8_r": "koi koi8 cskoi8r",
    "koi8_u": "koi8-ru",
    "mac_roman": "macintosh mac x-mac-roman csmacintosh",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
}
"""What browsers read for the labels of pages and mails: mostly the larger set that programs really write."""
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_DETECTED = ("ascii", "utf-8", "utf-16", "utf-32")
"""Codecs that the bytes tell better than a label."""
_NO_TEXTS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined"})
"""Codecs of Python that are no encoding of a text. Some take quadratic time."""


def codec_of(label: str) -> str | None:
    """Return the name of the Python codec for a label as pages, mails and detectors write it; None for an
    unknown one."""
    label = label.strip().lower().replace("_", "-")
    try:
        codec = codecs.lookup(_CODECS.get(label) or label.removeprefix("x-"))
    except (LookupError, ValueError):
        return None
    if codec.name.replace("_", "-") in _NO_TEXTS or not codec._is_text_encoding:
        return None
    return codec.name


def looks_binary(head: bytes) -> bool:
    """Return whether a file that begins with `head` (up to `HEAD` bytes) is not text: it holds many NULs or
    control characters, or a NUL among many bytes beyond ASCII that are not UTF-8."""
    if _encoding_by_mark(head) or _wide_encoding(head) or _escaped_encoding(head):
        return False
    if b"\0" in head:
        if len(_NULS.findall(head)) > len(head) // _NUL_SPACING:
            return True
        kept = head.replace(b"\0", b"")
        if len(kept) < (1 - _MAX_NULS) * len(head):
            return True
        # Bytes of sound or pictures pass for any encoding of one byte.
        if _count_beyond_ascii(kept) > _MAX_BEYOND_ASCII * len(kept) and not _is_utf8(kept):
            return True
        head = kept
    return len(head) - len(head.translate(None, _CONTROLS)) > _MAX_CONTROLS * len(head) + 1


class Decoder:
    """Turns blocks of one file into UTF-8 bytes (perhaps invalid in places) or text.

    `replaced` counts the NULs, and the characters that an encoding other than UTF-8 could not decode; both
    become U+FFFD. `guessed` is the encoding if it is neither UTF-8 nor named by the file.
    """

    def __init__(self) -> None:
        self.replaced = 0
        self.guessed = ""
        self._started = False
        self._decided = False
        self._head = b""
        self._other: codecs.IncrementalDecoder | None = None

    def feed(self, block: bytes) -> bytes | str:
        """Decode the next block."""
        if not self._started:
            self._started = True
            encoding = _encoding_by_mark(block)
            if encoding is None:
                encoding = _wide_encoding(block)
                self.guessed = encoding or ""
            if encoding:
                self._other = codecs.getincrementaldecoder(encoding)("replace")
            else:
                self._head = block[:_DECLARED_WITHIN]
        if self._other is not None:
            return self._decode(block, final=False)
        if self._decided:
            return self._without_nuls(block)
        # ASCII so far: every encoding is still possible.
        encoding = _escaped_encoding(block)
        if encoding is None:
            if block.isascii():
                return self._without_nuls(block)
            self._decided = True
            if _is_utf8(block):
                return self._without_nuls(block)
            encoding = _declared_encoding(self._head)
            if encoding is None:
                encoding = self.guessed = _guess(_telling_lines(block))
        else:
            self.guessed = encoding
        self._other = codecs.getincrementaldecoder(encoding)("replace")
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


def decode_whole(data: bytes, label: str | None = None) -> tuple[str, int, str]:
    """Return the text of a whole file, the number of replaced characters, and the guessed encoding. `label`
    is what a page or a mail says of its own encoding. It counts, unless it says ASCII or Unicode."""
    codec = codec_of(label) if label else None
    is_marked = data.startswith(codecs.BOM_UTF8) or _encoding_by_mark(data) is not None
    if codec and not is_marked and not codec.startswith(_DETECTED):
        text = data.decode(codec, "replace")
        return text, text.count("\ufffd"), ""
    decoder = Decoder()
    fed = decoder.feed(data)
    if isinstance(fed, str):
        return (fed + decoder.finish()).removeprefix("\ufeff"), decoder.replaced, decoder.guessed
    text = fed.decode("utf-8-sig", "replace")
    return text, max(0, text.count("\ufffd") - fed.count(b"\xef\xbf\xbd")) + decoder.replaced, ""


@cache
def prepare_encodings() -> None:
    """Import every encoding and the detectors: the process will soon open nothing. Takes 50 ms and 4 MB."""
    for module in pkgutil.iter_modules(encodings.__path__):
        with suppress(LookupError, ImportError):
            codecs.lookup(module.name)
    _guess(_BEYOND_ASCII * 8)


def _telling_lines(block: bytes) -> bytes:
    """Return the lines of a block that are not ASCII, up to a sample: much ASCII around them misleads."""
    first = re.search(rb"[\x80-\xff]", block)
    start = max(0, first.start() - _SAMPLE // 8) if first else 0
    lines = b"\n".join(line for line in block[start:].split(b"\n") if not line.isascii())
    return lines[:_SAMPLE]


def _is_utf8(block: bytes) -> bool:
    """Return whether a file that was ASCII up to `block` is UTF-8, valid or damaged: a few invalid bytes
    among valid ones are no other encoding."""
    first = re.search(rb"[\x80-\xff]", block)
    start = first.start() if first else 0
    sample = block[start : start + _SAMPLE]
    # A character that is cut at the end of a full block goes on in the next.
    is_end = len(block) < _FULL and start + _SAMPLE >= len(block)
    valid, used = codecs.utf_8_decode(sample, "ignore", is_end)
    return used - len(valid.encode()) <= _BROKEN_UTF8 * _count_beyond_ascii(sample)


def _count_beyond_ascii(data: bytes) -> int:
    return len(data) - len(data.translate(None, _BEYOND_ASCII))


def _encoding_by_mark(head: bytes) -> str | None:
    if head[:1] not in (b"\xff", b"\xfe", b"\0"):
        return None
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


def _declared_encoding(head: bytes) -> str | None:
    """Return the encoding that a text names at its start: XML's, or in one of its first two lines Python's,
    Emacs' or vim's."""
    found = _DECLARED.search(head.removeprefix(codecs.BOM_UTF8))
    if found is None:
        return None
    label = (found[1] or found[2]).decode("ascii", "replace")
    codec = codec_of(re.sub(r"-(?:unix|dos|mac)$", "", label))
    return None if codec is None or codec.startswith(_DETECTED) else codec


def _escaped_encoding(block: bytes) -> str | None:
    """Return the encoding of a text that switches its alphabet by escape sequences."""
    if b"\x1b" not in block or b"\x1b$" not in block:  # a single byte is found ten times faster
        return None
    if _KOREAN.search(block):
        return "iso2022_kr"
    return "iso2022_jp" if _JAPANESE.search(block) else None


def _wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16 or UTF-32 without a byte order mark; None for anything else.

    Such a text holds a NUL in each blank and line end. Read in any other encoding, it holds characters that
    no text has.
    """
    if b"\0" not in head[:_WIDE_SAMPLE]:
        return None
    found: dict[str, int] = {}
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
            found[encoding] = sum(map(str.isascii, text))
    return max(found, key=found.__getitem__, default=None)


def _guess(data: bytes) -> str:
    """Return the most likely encoding of `data`, which is not UTF-8."""
    import chardet

    try:
        import chardetng_py
    except ImportError:  # no wheel for this machine
        detected, least = "cp1252", 0.0
    else:
        detected, least = codec_of(chardetng_py.detect(data)) or "cp1252", _CONFIDENT
    result = chardet.detect(data)
    found = codec_of(result["encoding"] or "")
    # chardet takes a long text in Big5 for GB18030, which has a character for almost every pair of bytes.
    if found is None or found.startswith(_DETECTED) or (found == "gb18030" and detected == "big5hkscs"):
        return detected
    return found if result["confidence"] >= least else detected
