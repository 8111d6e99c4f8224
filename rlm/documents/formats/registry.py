"""The table of document formats. A new format is one row here and one reader module."""

from __future__ import annotations

import re

from rlm.lazy_dataclass import dataclass

__all__ = ["ADDED", "FORMATS", "DocumentFormat", "format_of"]

_ZIP = rb"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """One kind of document, as `Document.kind` names it.

    `magic` is matched at the first byte of a file. For a binary format it wins over the file's suffix; for a
    text format it counts only if the file has no suffix, or, with `magic_beats_text`, the suffix of no other
    format.
    `reader` is a `module:function` that is imported and called in the worker process; without one the
    loader decodes the text itself. `page_reader` replaces it where a model can look at pages, and
    `ocr_reader` where it cannot and the extra `ocr` is installed. A format with `is_picture` has only these.
    `article` names a document of a format with a reader in messages.
    An `is_container` holds other files, and has no text of its own.
    With `headings_indexed` the index holds every heading, so a line of text is never taken for one.
    `package` is the package that registers the format; "" for ours.
    """

    kind: str
    suffixes: frozenset[str] = frozenset()
    article: str = ""
    magic: re.Pattern[bytes] | None = None
    reader: str = ""
    page_reader: str = ""
    ocr_reader: str = ""
    is_picture: bool = False
    is_container: bool = False
    magic_beats_text: bool = False
    is_binary: bool = False
    headings_indexed: bool = False
    package: str = ""

    @property
    def is_converted(self) -> bool:
        """Whether the worker process reads it."""
        return bool(self.reader or self.page_reader)


def _suffixes(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _packed(kind: str, suffixes: str, magic: bytes) -> DocumentFormat:
    """Return the row of a packed file, whose content is a document or an archive."""
    return DocumentFormat(
        kind,
        _suffixes(suffixes),
        article=f"{'an' if kind == 'xz' else 'a'} {kind} file",
        magic=re.compile(magic, re.S),
        reader=f"rlm.documents.formats.containers.packed:read_{kind}",
        is_binary=True,
        is_container=True,
    )


FORMATS = (
    DocumentFormat("text"),
    DocumentFormat("markdown", _suffixes(".md .markdown .mdown .mkd .mdx .qmd .rmd")),
    DocumentFormat("csv", _suffixes(".csv .tsv .tab")),
    DocumentFormat("json", _suffixes(".json .geojson .webmanifest")),
    DocumentFormat("jsonl", _suffixes(".jsonl .ndjson .jsonlines")),
    DocumentFormat(
        "html",
        _suffixes(".html .htm .xhtml"),
        article="an HTML page",
        magic=re.compile(
            rb"(?:\xef\xbb\xbf)?\s{0,4000}(?:<!--.{0,1000}?-->\s{0,4000})?(?:<!doctype html|<html[\s>])",
            re.I | re.S,
        ),
        reader="rlm.documents.formats.html:read_html",
        headings_indexed=True,
    ),
    DocumentFormat(
        "pdf",
        _suffixes(".pdf"),
        article="a PDF",
        magic=re.compile(rb"\s{0,4000}%PDF-"),
        reader="rlm.documents.formats.pdf:read_pdf",
        page_reader="rlm.documents.formats.pdf:read_pages",
        ocr_reader="rlm.documents.formats.recognition:recognize_pdf",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "image",
        _suffixes(".png .jpg .jpeg .webp .gif .tif .tiff"),
        article="a picture",
        magic=re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|RIFF.{4}WEBP|GIF8[79]a|II\*\x00|MM\x00\*", re.S),
        page_reader="rlm.documents.formats.picture:read_picture",
        ocr_reader="rlm.documents.formats.recognition:recognize_picture",
        is_picture=True,
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "epub",
        _suffixes(".epub"),
        article="an EPUB",
        magic=re.compile(_ZIP + rb".{26}mimetypeapplication/epub\+zip", re.S),
        reader="rlm.documents.formats.epub:read_epub",
        is_binary=True,
        headings_indexed=True,
    ),
    # Before DOCX: these archives may hold what only looks like one.
    DocumentFormat(
        "pptx",
        _suffixes(".pptx .pptm .ppsx .ppsm .potx .potm"),
        article="a PPTX",
        magic=re.compile(
            _ZIP + rb"(?!.{0,4000}word/document)(?=.*?ppt/(?:presentation|slides/|_rels/))", re.S
        ),
        reader="rlm.documents.formats.office.pptx:read_pptx",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "odt",
        _suffixes(".odt .ott .fodt .odm"),
        article="an ODT",
        magic=re.compile(_ZIP + rb".{26}mimetypeapplication/vnd\.oasis\.opendocument\.text", re.S),
        reader="rlm.documents.formats.office.opendocument:read_odt",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "odp",
        _suffixes(".odp .otp .fodp"),
        article="an ODP",
        magic=re.compile(_ZIP + rb".{26}mimetypeapplication/vnd\.oasis\.opendocument\.presentation", re.S),
        reader="rlm.documents.formats.office.opendocument:read_odp",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "workbook",
        _suffixes(".xlsx .xlsm .xltx .xltm .xlsb .xls .xlt .ods .ots"),
        article="a workbook",
        magic=re.compile(
            rb"PK\x03\x04(?:.{26}mimetypeapplication/vnd\.oasis\.opendocument\.spreadsheet"
            rb"|(?!.*word/)(?!.*ppt/)(?=.*xl/workbook\.))"
            # Word, PowerPoint and Outlook files have the same first bytes, and may hold a workbook.
            rb"|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1(?!.*W\0o\0r\0d\0D\0o\0c)(?!.*P\0o\0w\0e\0r\0P\0o\0i\0n\0t)"
            rb"(?!.*_\0_\0s\0u\0b\0s\0t\0g)(?=.*W\0o\0r\0k\0b\0o\0o\0k\0)",
            re.S,
        ),
        reader="rlm.documents.formats.tables.workbook:read_workbook",
        is_binary=True,
    ),
    DocumentFormat(
        "parquet",
        _suffixes(".parquet .pq"),
        article="a Parquet file",
        magic=re.compile(rb"PAR[1E]"),
        reader="rlm.documents.formats.tables.parquet:read_parquet",
        is_binary=True,
    ),
    DocumentFormat(
        "sqlite",
        _suffixes(".sqlite .sqlite3 .db3"),
        article="an SQLite database",
        magic=re.compile(rb"SQLite format 3\x00"),
        reader="rlm.documents.formats.tables.sqlite:read_sqlite",
        is_binary=True,
    ),
    DocumentFormat(
        "docx",
        _suffixes(".docx .docm .dotx"),
        article="a DOCX",
        magic=re.compile(
            _ZIP + rb"(?:(?=.*word/)|(?=.{0,4000}\[Content_Types\]\.xml)(?=.{0,4000}docProps/))", re.S
        ),
        reader="rlm.documents.formats.docx:read_docx",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "mail",
        _suffixes(".eml .mbox .mht .mhtml"),
        article="a mail",
        # Only mail that has to be decoded: other mail is text.
        magic=re.compile(
            rb"(?:From [^\n]{1,300}\n)?(?:[A-Za-z][\w-]{0,60}:[^\n]{0,4000}\n|[ \t][^\n]{0,4000}\n){0,200}?"
            rb"(?:From|Subject|Received|Message-ID|MIME-Version):"
            rb"(?=.{0,200000}?\nContent-Transfer-Encoding:[ \t]*(?:base64|quoted-printable))",
            re.I | re.S,
        ),
        magic_beats_text=True,
        reader="rlm.documents.formats.mail:read_mail",
        headings_indexed=True,
    ),
    DocumentFormat(
        "msg",
        _suffixes(".msg"),
        article="an Outlook message",
        reader="rlm.documents.formats.containers.outlook:read_msg",
        is_binary=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "notebook",
        _suffixes(".ipynb"),
        article="a notebook",
        reader="rlm.documents.formats.notebook:read_notebook",
        headings_indexed=True,
    ),
    DocumentFormat(
        "rtf",
        _suffixes(".rtf"),
        article="RTF",
        magic=re.compile(rb"\{\\rtf"),
        reader="rlm.documents.formats.office.rtf:read_rtf",
        magic_beats_text=True,
        headings_indexed=True,
    ),
    DocumentFormat(
        "subtitles",
        _suffixes(".srt .vtt"),
        article="a file of subtitles",
        magic=re.compile(
            rb"(?:\xef\xbb\xbf)?(?:WEBVTT[ \t\r\n]|\s{0,20}\d{1,7}\r?\n\d\d:\d\d:\d\d[,.]\d{3} --> \d\d:)"
        ),
        reader="rlm.documents.formats.office.subtitles:read_subtitles",
        headings_indexed=True,
    ),
    DocumentFormat(
        "calendar",
        _suffixes(".ics .ical .ifb .vcs .vcf .vcard"),
        article="a calendar or an address book",
        magic=re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}BEGIN:(?:VCALENDAR|VCARD)[ \t]*\r?\n", re.I),
        magic_beats_text=True,
        reader="rlm.documents.formats.office.calendar:read_calendar",
        headings_indexed=True,
    ),
    DocumentFormat("latex", _suffixes(".tex .ltx .latex")),
    DocumentFormat(
        "code",
        _suffixes(
            ".py .pyi .pyx .js .mjs .cjs .jsx .ts .mts .cts .tsx .c .h .cc .cpp .cxx .hh .hpp .hxx .rs .go "
            ".java .kt .kts .scala .swift .m .mm .cs .fs .vb .rb .php .pl .pm .lua .r .jl .hs .ml .mli .ex "
            ".exs .erl .clj .lisp .el .scm .sh .bash .zsh .fish .ps1 .bat .sql .zig .nim .d .dart .groovy "
            ".gradle .proto .cu .asm .s .vim .tf .vue .svelte"
        ),
    ),
    _packed("gzip", ".gz .tgz .crate", rb"\x1f\x8b\x08"),
    _packed("bzip2", ".bz2 .tbz .tbz2", rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    _packed("xz", ".xz .txz .lzma", rb"\xfd7zXZ\0"),
    _packed("zstd", ".zst .tzst", rb"(?:[\x50-\x5f]\x2a\x4d\x18.{4})?\x28\xb5\x2f\xfd"),
    DocumentFormat(
        "tar",
        _suffixes(".tar .gem"),
        article="a tar archive",
        magic=re.compile(rb".{257}ustar", re.S),
        reader="rlm.documents.formats.containers.tar:read_tar",
        is_binary=True,
        is_container=True,
    ),
    DocumentFormat(
        "7z",
        _suffixes(".7z"),
        article="a 7z archive",
        magic=re.compile(rb"7z\xbc\xaf\x27\x1c"),
        reader="rlm.documents.formats.containers.sevenzip:read_7z",
        is_binary=True,
        is_container=True,
    ),
    # After every other format that is a zip archive.
    DocumentFormat(
        "zip",
        _suffixes(".zip .jar .war .ear .whl .egg .nupkg .vsix .xpi .apk .kmz .cbz"),
        article="a zip archive",
        magic=re.compile(rb"PK(?:\x03\x04|\x05\x06)"),
        reader="rlm.documents.formats.containers.zip:read_zip",
        is_binary=True,
        is_container=True,
    ),
    # Rendered from JSON, whatever the file's name.
    DocumentFormat("chat", headings_indexed=True),
    DocumentFormat("card", headings_indexed=True),
)


ADDED: list[DocumentFormat] = []
"""The formats of other packages, as far as they are loaded (`rlm.documents.formats.plugins`)."""


def format_of(kind: str) -> DocumentFormat:
    """Return the row of `kind`. A kind without a row is read like text."""
    return next((row for row in (*FORMATS, *ADDED) if row.kind == kind), FORMATS[0])
