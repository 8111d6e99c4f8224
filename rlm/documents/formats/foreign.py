"""Names of formats that nothing here reads, by the first bytes or the suffix of a file."""

from __future__ import annotations

import re
from pathlib import PurePath

from rlm.lazy_dataclass import dataclass

__all__ = ["DOCUMENT_SUFFIXES", "ForeignFormat", "foreign_format"]

_TRANSCRIBE = "transcribe its speech, or give its subtitles"
_DECRYPT = "decrypt it and name the result"


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """What such a file is, and, for one that may hold the user's words, the remedy."""

    what: str
    remedy: str = ""


_VIDEO = ForeignFormat("a video", _TRANSCRIBE)
_SOUND = ForeignFormat("a recording", _TRANSCRIBE)
_ENCRYPTED = ForeignFormat("encrypted", _DECRYPT)
_PROGRAM = ForeignFormat("a program")
_BYTECODE = ForeignFormat("compiled code")
_FONT = ForeignFormat("a font")
_CHECKPOINT = "run `sqlite3 DATABASE 'pragma wal_checkpoint(truncate)'`"
_DRAWING = ForeignFormat("a drawing", "export it as PDF")
_NOTEBOOK = ForeignFormat("a OneNote section", "export it as PDF or .docx")
_OFFICE = ForeignFormat("an old Office document", "save it in a current format, or as PDF")
_DISK = ForeignFormat("a disk image", "mount it and name the folder")
_DATABASE = ForeignFormat("a database", "export its tables as CSV")
_ARRAYS = ForeignFormat("arrays of numbers", "export them as CSV")

_WORD = ForeignFormat("an old Word document", "save it as .docx")
_SLIDES = ForeignFormat("old PowerPoint slides", "save them as .pptx or export them as PDF")
_KEYNOTE = ForeignFormat("Keynote slides", "export them as .pptx or PDF")
_SHEET = ForeignFormat("a spreadsheet", "export it as CSV")
_NOT_SQLITE = ForeignFormat("a database that is not SQLite, or an encrypted one", "export its tables as CSV")
_DUCKDB = ForeignFormat(
    "a DuckDB database",
    "export its tables: duckdb FILE \"export database 'FOLDER' (format parquet)\"",
)
_COLUMNS = ForeignFormat("a table", "convert it to Parquet or CSV")
_KINDLE = ForeignFormat("a Kindle book", "convert it to EPUB")
_POSTSCRIPT = ForeignFormat("PostScript", "convert it to PDF")
_ARCHIVE = ForeignFormat("an archive", "unpack it and name the folder")
_PACKED = ForeignFormat("packed", "unpack it, or pack it as .gz")
_DOCUMENTS = {
    ".doc": _WORD,
    ".pages": ForeignFormat("a Pages document", "export it as .docx or PDF"),
    ".ppt": _SLIDES,
    ".wk1": _SHEET,
    ".123": _SHEET,
    ".mdb": _NOT_SQLITE,
    ".accdb": _NOT_SQLITE,
    ".dbf": _NOT_SQLITE,
    ".duckdb": _DUCKDB,
    ".ddb": _DUCKDB,
    ".feather": _COLUMNS,
    ".arrow": _COLUMNS,
    ".orc": _COLUMNS,
    ".avro": _COLUMNS,
    ".pps": _SLIDES,
    ".pot": _SLIDES,
    ".key": _KEYNOTE,
    ".dot": _WORD,
    ".wps": ForeignFormat("a Works document", "save it as .docx or PDF"),
    ".wpd": ForeignFormat("a WordPerfect document", "save it as .docx or PDF"),
    ".hwp": ForeignFormat("a Hangul document", "save it as .docx or PDF"),
    ".one": ForeignFormat("a OneNote section", "export it as PDF"),
    ".djvu": ForeignFormat("a DjVu book", "convert it to PDF"),
    ".mobi": _KINDLE,
    ".azw3": _KINDLE,
    ".ps": _POSTSCRIPT,
    ".eps": _POSTSCRIPT,
    ".pst": ForeignFormat("an Outlook mailbox", "export it as .mbox"),
    ".numbers": _SHEET,
    ".npz": _ARRAYS,
    **dict.fromkeys((".rar", ".cab", ".iso", ".dmg", ".deb", ".rpm"), _ARCHIVE),
    **dict.fromkeys((".lz4", ".lz", ".z", ".br", ".sz", ".lzo"), _PACKED),
}
_WRITTEN = (
    (re.compile(rb"\x04?%!PS"), _POSTSCRIPT),
    (re.compile(rb"Rar!\x1a\x07"), _ARCHIVE),
    (
        re.compile(
            rb"\s{0,200}(?:-----BEGIN (?:PGP MESSAGE|PKCS7|CMS|ENCRYPTED MESSAGE|AGE ENCRYPTED FILE)-----"
            rb"(?!.*\n-----END [^\n]*\n\s*\S)|\$ANSIBLE_VAULT;)",
            re.S,
        ),
        _ENCRYPTED,
    ),
    (
        re.compile(rb"x\x9f>\""),
        ForeignFormat("an Outlook attachment (winmail.dat)", "ask for a plain mail"),
    ),
)
"""Formats that look like text, but do not hold their words as they are written."""
DOCUMENT_SUFFIXES = frozenset(_DOCUMENTS)
"""Suffixes of documents and archives that nothing here reads. They say more than the first bytes."""

_BY_MAGIC = (
    (re.compile(rb"....ftyp|\x1aE\xdf\xa3|FLV\x01|\x00\x00\x01[\xba\xb3]|RIFF....AVI ", re.S), _VIDEO),
    (re.compile(rb"RIFF....WAVE|ID3|fLaC|OggS|FORM....AIF|\xff[\xfb\xf3\xf2\xf1]|#!AMR", re.S), _SOUND),
    (re.compile(rb"age-encryption\.org/|Salted__|LUKS\xba\xbe|[\x84\x85\x8c]..\x03", re.S), _ENCRYPTED),
    (re.compile(rb"\x30[\x80-\x84].{0,8}\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07", re.S), _ENCRYPTED),
    (re.compile(rb"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", re.S), _NOTEBOOK),
    (re.compile(rb"AC10\d\d"), _DRAWING),
    (re.compile(rb"8BPS|gimp xcf"), ForeignFormat("a layered picture", "export it as PDF or PNG")),
    (re.compile(rb"\x7fELF|MZ|\xcf\xfa\xed\xfe|\xce\xfa\xed\xfe|!<arch>\n"), _PROGRAM),
    (re.compile(rb"\xca\xfe\xba\xbe|\x00asm|..\r\n.{12}\xe3", re.S), _BYTECODE),
    (re.compile(rb"wOFF|wOF2|OTTO|\x00\x01\x00\x00\x00|ttcf"), _FONT),
    (
        re.compile(
            rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1(?=.*E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e)", re.S
        ),
        ForeignFormat("an encrypted Office document", "save a copy without a password"),
    ),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), _OFFICE),
    (re.compile(rb".{8}DUCK", re.S), _DUCKDB),
    (re.compile(rb"SQLite format 3\x00|.{4}Standard (?:Jet|ACE) DB", re.S), _DATABASE),
    (re.compile(rb"\x37\x7f\x06[\x82\x83]"), ForeignFormat("a log of an SQLite database", _CHECKPOINT)),
    (re.compile(rb"\x93NUMPY|\x89HDF\r\n|PAR1|ARROW1|Obj\x01"), _ARRAYS),
    (re.compile(rb"\x00\x05\x16\x07|bplist00"), ForeignFormat("data of a program")),
)
_BY_SUFFIX = {
    **dict.fromkeys(
        [".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".wmv", ".flv", ".mpg", ".mpeg", ".3gp"], _VIDEO
    ),
    **dict.fromkeys(
        [".mp3", ".wav", ".m4a", ".aac", ".flac", ".ogg", ".opus", ".wma", ".aiff", ".amr"], _SOUND
    ),
    **dict.fromkeys([".gpg", ".pgp", ".age", ".p7m", ".enc", ".kdbx", ".aes", ".asc", ".p7s"], _ENCRYPTED),
    **dict.fromkeys(
        [".exe", ".dll", ".so", ".dylib", ".a", ".o", ".lib", ".bin", ".elf", ".msi", ".sys", ".ko"], _PROGRAM
    ),
    **dict.fromkeys([".pyc", ".pyo", ".class", ".wasm", ".beam", ".dex"], _BYTECODE),
    **dict.fromkeys([".woff", ".woff2", ".ttf", ".otf", ".eot", ".ttc"], _FONT),
    **dict.fromkeys(
        [".dwg", ".dxf", ".vsd", ".vsdx", ".cdr", ".sketch", ".fig", ".ai", ".indd", ".pub"], _DRAWING
    ),
    **dict.fromkeys([".img", ".vmdk", ".qcow2", ".vhd"], _DISK),
    ".db": _NOT_SQLITE,
    ".fdb": _DATABASE,
    **dict.fromkeys([".npy", ".h5", ".hdf5", ".mat", ".rds", ".pkl", ".pickle"], _ARRAYS),
}


def foreign_format(name: str, first: bytes, *, is_binary: bool) -> ForeignFormat | None:
    """Return the format of a file that begins with `first`; None if it is none of these. What is not binary
    is known by its first bytes only."""
    written = next((found for magic, found in _WRITTEN if magic.match(first)), None)
    if written is not None or not is_binary:
        return written
    suffix = PurePath(name).suffix.lower()
    by_magic = next((found for magic, found in _BY_MAGIC if magic.match(first)), None)
    return _DOCUMENTS.get(suffix) or by_magic or _BY_SUFFIX.get(suffix)
