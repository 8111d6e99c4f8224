"""The table of document formats. A new format is one row here and one reader module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

__all__ = ["ADDED", "FORMATS", "MESSAGE_KINDS", "DocumentFormat", "format_of"]

MESSAGE_KINDS = ("chat", "card", "board", "commits")
"""Documents that the loader writes message by message (`rlm.documents.chat`)."""

_ZIP = rb"PK\x03\x04"
_BZIP2 = rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"
_ZSTD = rb"(?:[\x50-\x5f]\x2a\x4d\x18.{4})?\x28\xb5\x2f\xfd"
_TYPED_ZIP = _ZIP + b".{26}mimetypeapplication/"
_ODF = _TYPED_ZIP + rb"vnd\.oasis\.opendocument\."


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """One kind of document, as `Document.kind` names it.

    `magic` is matched at the first byte of a file. For a binary format it wins over the file's suffix; for a
    text format it counts only if the file has no suffix, or, with `magic_beats_text`, the suffix of no other
    format.
    `reader` is a `module:function` that is imported and called in the worker process; without one the
    loader decodes the text itself. `page_reader` replaces it where a model can look at pages, and
    `ocr_reader` where it cannot and the extra `ocr` is installed. A picture has only these.
    `article` names a document of a format with a reader in messages.
    An `is_container` holds other files, and has no text of its own.
    With `shares_process`, small documents are read in one process, one after another: the reader is
    memory-safe, except for pages of HTML in a document, which then needs a process of its own.
    `package` is the package that registers the format; "" for ours.
    """

    kind: str
    suffixes: frozenset[str] = frozenset()
    article: str = ""
    magic: re.Pattern[bytes] | None = None
    reader: str = ""
    page_reader: str = ""
    ocr_reader: str = ""
    is_container: bool = False
    magic_beats_text: bool = False
    is_binary: bool = False
    shares_process: bool = False
    package: str = ""

    @property
    def is_converted(self) -> bool:
        """Whether the worker process reads it."""
        return bool(self.reader or self.page_reader)

    @property
    def is_picture(self) -> bool:
        """Whether it has no text of its own, only pages to look at."""
        return bool(self.page_reader) and not self.reader

    @property
    def headings_indexed(self) -> bool:
        """Whether the index holds every heading, so that a line of text is never taken for one."""
        return self.is_converted or self.kind in MESSAGE_KINDS


def _text(kind: str, suffixes: str = "", article: str = "", **more: Any) -> DocumentFormat:
    """Return the row of a format that is text. `reader` is named below this folder."""
    magic, reader = more.pop("magic", None), more.pop("reader", "")
    return DocumentFormat(
        kind,
        frozenset(suffixes.split()),
        article,
        magic=magic and re.compile(magic, re.S),
        reader=reader and f"rlm.documents.formats.{reader}",
        **more,
    )


def _binary(kind: str, suffixes: str, article: str, **more: Any) -> DocumentFormat:
    return _text(kind, suffixes, article, is_binary=True, **more)


FORMATS = (
    _text("text"),
    _text("markdown", ".md .markdown .mdown .mkd .mdx .qmd .rmd"),
    _text("csv", ".csv .tsv .tab"),
    _text("json", ".json .geojson .webmanifest"),
    _text("jsonl", ".jsonl .ndjson .jsonlines"),
    _text(
        "html",
        ".html .htm .xhtml",
        "an HTML page",
        magic=rb"(?i)(?:\xef\xbb\xbf)?\s{0,4000}(?:<!--.{0,1000}?-->\s{0,4000})?"
        rb"(?:<!doctype html|<html[\s>])",
        reader="html:read_html",
    ),
    _binary(
        "pdf",
        ".pdf",
        "a PDF",
        magic=rb"\s{0,4000}%PDF-",
        reader="pdf:read_pdf",
        page_reader="rlm.documents.formats.pdf:read_pages",
        ocr_reader="rlm.documents.formats.recognition:recognize_pdf",
    ),
    _binary(
        "image",
        ".png .jpg .jpeg .webp .gif .tif .tiff",
        "a picture",
        magic=rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|RIFF.{4}WEBP|GIF8[79]a|II\*\x00|MM\x00\*",
        page_reader="rlm.documents.formats.picture:read_picture",
        ocr_reader="rlm.documents.formats.recognition:recognize_picture",
    ),
    _binary(
        "epub",
        ".epub",
        "an EPUB",
        magic=_ZIP + rb".{26}mimetypeapplication/epub\+zip",
        reader="epub:read_epub",
    ),
    # Before DOCX: these archives may hold what only looks like one.
    _binary(
        "pptx",
        ".pptx .pptm .ppsx .ppsm .potx .potm",
        "a PPTX",
        magic=_ZIP + rb"(?!.{0,4000}word/document)(?=.*?ppt/(?:presentation|slides/|_rels/))",
        reader="pptx:read_pptx",
    ),
    _binary(
        "odt",
        ".odt .ott .fodt .odm",
        "an ODT",
        magic=_ODF + b"text",
        reader="opendocument:read_odt",
    ),
    _binary(
        "odp",
        ".odp .otp .fodp",
        "an ODP",
        magic=_ODF + b"presentation",
        reader="opendocument:read_odp",
    ),
    _binary(
        "workbook",
        ".xlsx .xlsm .xltx .xltm .xlsb .xls .xlt .ods .ots",
        "a workbook",
        magic=_ODF + rb"spreadsheet|" + _ZIP + rb"(?!.*word/)(?!.*ppt/)(?=.*xl/workbook\.)"
        # Word, PowerPoint and Outlook files have the same first bytes, and may hold a workbook.
        rb"|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1(?!.*W\0o\0r\0d\0D\0o\0c)(?!.*P\0o\0w\0e\0r\0P\0o\0i\0n\0t)"
        rb"(?!.*_\0_\0s\0u\0b\0s\0t\0g)(?=.*W\0o\0r\0k\0b\0o\0o\0k\0)",
        reader="workbook:read_workbook",
    ),
    _binary("parquet", ".parquet .pq", "a Parquet file", magic=rb"PAR[1E]", reader="parquet:read_parquet"),
    _binary(
        "sqlite",
        ".sqlite .sqlite3 .db3",
        "an SQLite database",
        magic=rb"SQLite format 3\x00",
        reader="sqlite:read_sqlite",
    ),
    _binary(
        "docx",
        ".docx .docm .dotx",
        "a DOCX",
        magic=_ZIP + rb"(?:(?=.*word/)|(?=.{0,4000}\[Content_Types\]\.xml)(?=.{0,4000}docProps/))",
        reader="docx:read_docx",
    ),
    _text(
        "mail",
        ".eml .mbox .mht .mhtml",
        "a mail",
        # Only mail whose words are encoded, or in several parts: other mail is text.
        magic=rb"(?i)(?:From [^\n]{1,300}\n)?"
        rb"(?:[A-Za-z][\w-]{0,60}:[^\n]{0,4000}\n|[ \t][^\n]{0,4000}\n){0,200}?"
        rb"(?:From|Subject|Received|Message-ID|MIME-Version):"
        rb"(?=.{0,200000}?(?:\nContent-Transfer-Encoding:[ \t]*(?:base64|quoted-printable)"
        rb"|\nContent-Type:[ \t]*(?:multipart/|text/html)|=\?[\w-]{1,40}\?[bq]\?))",
        magic_beats_text=True,
        reader="mail:read_mail",
        shares_process=True,
    ),
    _binary("msg", ".msg", "an Outlook message", reader="outlook:read_msg"),
    _text("notebook", ".ipynb", "a notebook", reader="notebook:read_notebook", shares_process=True),
    _text("rtf", ".rtf", "RTF", magic=rb"\{\\rtf", reader="rtf:read_rtf", magic_beats_text=True),
    _text(
        "subtitles",
        ".srt .vtt",
        "a file of subtitles",
        magic=rb"(?:\xef\xbb\xbf)?(?:WEBVTT[ \t\r\n]|\s{0,20}\d{1,7}\r?\n\d\d:\d\d:\d\d[,.]\d{3} --> \d\d:)",
        reader="subtitles:read_subtitles",
        shares_process=True,
    ),
    _text(
        "calendar",
        ".ics .ical .ifb .vcs .vcf .vcard",
        "a calendar or an address book",
        magic=rb"(?i)(?:\xef\xbb\xbf)?\s{0,20}BEGIN:(?:VCALENDAR|VCARD)[ \t]*\r?\n",
        magic_beats_text=True,
        reader="calendar:read_calendar",
        shares_process=True,
    ),
    _text("latex", ".tex .ltx .latex"),
    _text(
        "code",
        ".py .pyi .pyx .js .mjs .cjs .jsx .ts .mts .cts .tsx .c .h .cc .cpp .cxx .hh .hpp .hxx .rs .go "
        ".java .kt .kts .scala .swift .m .mm .cs .fs .vb .rb .php .pl .pm .lua .r .jl .hs .ml .mli .ex "
        ".exs .erl .clj .lisp .el .scm .sh .bash .zsh .fish .ps1 .bat .sql .zig .nim .d .dart .groovy "
        ".gradle .proto .cu .asm .s .vim .tf .vue .svelte",
    ),
    *(
        _binary(kind, suffixes, article, magic=magic, reader=reader, is_container=True)
        for kind, suffixes, article, reader, magic in (
            ("tar", ".tar .gem", "a tar archive", "archives:read_tar", rb".{257}ustar"),
            ("7z", ".7z", "a 7z archive", "sevenzip:read_7z", rb"7z\xbc\xaf\x27\x1c"),
            ("gzip", ".gz .tgz .crate", "a gzip file", "packed:read_gzip", rb"\x1f\x8b\x08"),
            (
                "bzip2",
                ".bz2 .tbz .tbz2",
                "a bzip2 file",
                "packed:read_bzip2",
                _BZIP2,
            ),
            ("xz", ".xz .txz .lzma", "an xz file", "packed:read_xz", rb"\xfd7zXZ\0"),
            (
                "zstd",
                ".zst .tzst",
                "a zstd file",
                "packed:read_zstd",
                _ZSTD,
            ),
        )
    ),
    # After every other format that is a zip archive.
    _binary(
        "zip",
        ".zip .jar .war .ear .whl .egg .nupkg .vsix .xpi .apk .kmz .cbz",
        "a zip archive",
        magic=rb"PK(?:\x03\x04|\x05\x06)",
        reader="archives:read_zip",
        is_container=True,
    ),
    # Found by their content, whatever the file's name.
    *map(_text, MESSAGE_KINDS),
)

_BY_KIND = {row.kind: row for row in FORMATS}

ADDED: list[DocumentFormat] = []
"""The formats of other packages, as far as they are loaded (`rlm.documents.formats.plugins`)."""


def format_of(kind: str) -> DocumentFormat:
    """Return the row of `kind`. A kind without a row is read like text."""
    return _BY_KIND.get(kind) or next((row for row in ADDED if row.kind == kind), FORMATS[0])
