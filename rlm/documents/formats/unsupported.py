"""Formats that nothing here reads, by the first bytes or the suffix of a file, and what the user can do."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple

__all__ = ["DOCUMENT_SUFFIXES", "Unsupported", "unsupported_format"]


class Unsupported(NamedTuple):
    """What such a file is, and the remedy if it may hold the user's words. `holds_text` is False for a file
    that holds none, such as a program."""

    what: str
    remedy: str = ""
    suffixes: str = ""
    magic: bytes = b""
    holds_text: bool = True


_TRANSCRIBE = "transcribe its speech, or give its subtitles"
_DECRYPT = "decrypt it and name the result"
_EXPORT = "export its tables as CSV"
_DOCX = "save it as .docx or PDF"
_OLE = rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DOCUMENTS = (
    Unsupported("an old Word document", "save it as .docx", ".doc .dot"),
    Unsupported("a Pages document", "export it as .docx or PDF", ".pages"),
    Unsupported("old PowerPoint slides", "save them as .pptx or export them as PDF", ".ppt .pps .pot"),
    Unsupported("Keynote slides", "export them as .pptx or PDF", ".key"),
    Unsupported("a spreadsheet", "export it as CSV", ".wk1 .123 .numbers"),
    Unsupported("a database that is not SQLite, or an encrypted one", _EXPORT, ".mdb .accdb .dbf .db"),
    Unsupported(
        "a DuckDB database",
        "export its tables: duckdb FILE \"export database 'FOLDER' (format parquet)\"",
        ".duckdb .ddb",
        rb".{8}DUCK",
    ),
    Unsupported("a table", "convert it to Parquet or CSV", ".feather .arrow .orc .avro", rb"ARROW1|Obj\x01"),
    Unsupported("a document of another program", _DOCX, ".wps .wpd .hwp"),
    Unsupported("a OneNote section", "export it as PDF", ".one", rb"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d"),
    Unsupported("a DjVu book", "convert it to PDF", ".djvu"),
    Unsupported("a Kindle book", "convert it to EPUB", ".mobi .azw3"),
    Unsupported("an Outlook mailbox", "export it as .mbox", ".pst"),
    Unsupported("arrays of numbers", "", ".npz"),
    Unsupported("an archive", "unpack it and name the folder", ".rar .cab .iso .dmg .deb .rpm"),
    Unsupported("packed", "unpack it, or pack it as .gz", ".lz4 .lz .z .br .sz .lzo"),
)
"""Documents and archives, whose suffixes say more than the first bytes."""
_WRITTEN = (
    Unsupported("PostScript", "convert it to PDF", ".ps .eps", rb"\x04?%!PS"),
    Unsupported("an archive", "unpack it and name the folder", "", rb"Rar!\x1a\x07"),
    Unsupported(
        "encrypted",
        _DECRYPT,
        "",
        rb"\s{0,200}(?:-----BEGIN (?:PGP MESSAGE|PKCS7|CMS|ENCRYPTED MESSAGE|AGE ENCRYPTED FILE)-----"
        rb"(?!.*\n-----END [^\n]*\n\s*\S)|\$ANSIBLE_VAULT;)",
    ),
    Unsupported("an Outlook attachment (winmail.dat)", "ask for a plain mail", "", rb"x\x9f>\""),
)
"""Formats that look like text, but do not hold their words as they are written."""
_OTHERS = (
    Unsupported(
        "a video",
        _TRANSCRIBE,
        ".mp4 .m4v .mov .mkv .webm .avi .wmv .flv .mpg .mpeg .3gp",
        rb"....ftyp|\x1aE\xdf\xa3|FLV\x01|\x00\x00\x01[\xba\xb3]|RIFF....AVI ",
    ),
    Unsupported(
        "a recording",
        _TRANSCRIBE,
        ".mp3 .wav .m4a .aac .flac .ogg .opus .wma .aiff .amr",
        rb"RIFF....WAVE|ID3|fLaC|OggS|FORM....AIF|\xff[\xfb\xf3\xf2\xf1]|#!AMR",
    ),
    Unsupported(
        "encrypted",
        _DECRYPT,
        ".gpg .pgp .age .p7m .enc .kdbx .aes .asc .p7s",
        rb"age-encryption\.org/|Salted__|LUKS\xba\xbe|[\x84\x85\x8c]..\x03"
        rb"|\x30[\x80-\x84].{0,8}\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07",
    ),
    Unsupported(
        "a drawing",
        "export it as PDF",
        ".dwg .dxf .vsd .vsdx .cdr .sketch .fig .ai .indd .pub",
        rb"AC10\d\d|8BPS|gimp xcf",
    ),
    Unsupported(
        "an encrypted Office document",
        "save a copy without a password",
        "",
        _OLE + rb"(?=.*E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e)",
    ),
    Unsupported("an old Office document", "save it in a current format, or as PDF", "", _OLE),
    Unsupported("a database", _EXPORT, ".fdb", rb"SQLite format 3\x00|.{4}Standard (?:Jet|ACE) DB"),
    Unsupported(
        "a log of an SQLite database",
        "run `sqlite3 DATABASE 'pragma wal_checkpoint(truncate)'`",
        "",
        rb"\x37\x7f\x06[\x82\x83]",
    ),
    Unsupported("a disk image", "mount it and name the folder", ".img .vmdk .qcow2 .vhd"),
    Unsupported("arrays of numbers", "", ".npy .h5 .hdf5 .mat .rds", rb"\x93NUMPY|\x89HDF\r\n|SIMPLE  ="),
    Unsupported(
        "a program",
        "",
        ".exe .dll .so .dylib .a .o .lib .elf .msi .sys .ko",
        rb"\x7fELF|MZ|\xcf\xfa\xed\xfe|\xce\xfa\xed\xfe|!<arch>\n",
        holds_text=False,
    ),
    Unsupported(
        "compiled code",
        "",
        ".pyc .pyo .class .wasm .beam .dex .mo",
        rb"\xca\xfe\xba\xbe|\x00asm|..\r\n.{12}\xe3|\xde\x12\x04\x95|\x95\x04\x12\xde",
        holds_text=False,
    ),
    Unsupported(
        "a font", "", ".woff .woff2 .ttf .otf .eot .ttc", rb"wOFF|wOF2|OTTO|\x00\x01\x00\x00\x00|ttcf", False
    ),
    Unsupported(
        "data of a program", "", ".pkl .pickle", rb"\x00\x05\x16\x07|bplist00|\x80[\x02-\x05]", False
    ),
)
DOCUMENT_SUFFIXES = frozenset(suffix for one in _DOCUMENTS for suffix in one.suffixes.split())
"""Suffixes of documents and archives that nothing here reads. They say more than the first bytes."""


_WRITTEN_MAGIC = re.compile(b"|".join(b"(?:" + one.magic + b")" for one in _WRITTEN if one.magic), re.S)


def unsupported_format(name: str, first: bytes, *, is_binary: bool) -> Unsupported | None:
    """Return the format of a file that begins with `first`; None if it is none of these. What is not binary
    is known by its first bytes only."""
    if not is_binary:
        return _by_magic(_WRITTEN, first) if _WRITTEN_MAGIC.match(first) else None
    suffix = PurePath(name).suffix.lower()
    return (
        _by_magic(_WRITTEN, first)
        or _by_suffix(_DOCUMENTS, suffix)
        or _by_magic((*_DOCUMENTS, *_OTHERS), first)
        or _by_suffix((*_WRITTEN, *_OTHERS), suffix)
    )


def _by_magic(formats: tuple[Unsupported, ...], first: bytes) -> Unsupported | None:
    return next((one for one in formats if one.magic and re.match(one.magic, first, re.S)), None)


def _by_suffix(formats: tuple[Unsupported, ...], suffix: str) -> Unsupported | None:
    return next((one for one in formats if suffix in one.suffixes.split()), None)
