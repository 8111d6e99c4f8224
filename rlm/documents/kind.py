"""What kind of document a file is, judged by its name and its first bytes."""

from __future__ import annotations

import re
from pathlib import PurePath

__all__ = ["kind_of", "unsupported_format"]

_KINDS = {
    "markdown": ".md .markdown .mdown .mkd .mdx .qmd .rmd",
    "csv": ".csv .tsv .tab",
    "json": ".json .geojson .ipynb .webmanifest",
    "jsonl": ".jsonl .ndjson .jsonlines",
    "html": ".html .htm .xhtml",
    "pdf": ".pdf",
    "docx": ".docx .docm .dotx",
    "epub": ".epub",
    "code": (
        ".py .pyi .pyx .js .mjs .cjs .jsx .ts .mts .cts .tsx .c .h .cc .cpp .cxx .hh .hpp .hxx .rs .go "
        ".java .kt .kts .scala .swift .m .mm .cs .fs .vb .rb .php .pl .pm .lua .r .jl .hs .ml .mli .ex .exs "
        ".erl .clj .lisp .el .scm .sh .bash .zsh .fish .ps1 .bat .sql .zig .nim .d .dart .groovy .gradle "
        ".proto .cu .asm .s .vim .tf .vue .svelte"
    ),
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}
_FOREIGN = {
    ".doc": ("an old Word document", "save it as .docx"),
    ".odt": ("an OpenDocument text", "save it as .docx or PDF"),
    ".pages": ("a Pages document", "export it as .docx or PDF"),
    ".pptx": ("slides", "export them as PDF"),
    ".ppt": ("slides", "export them as PDF"),
    ".xlsx": ("a spreadsheet", "export it as CSV"),
    ".xls": ("a spreadsheet", "export it as CSV"),
    ".ods": ("a spreadsheet", "export it as CSV"),
    ".mobi": ("a Kindle book", "convert it to EPUB"),
    ".azw3": ("a Kindle book", "convert it to EPUB"),
    ".zip": ("an archive", "unpack it and name the folder"),
    ".gz": ("packed", "unpack it"),
    ".xz": ("packed", "unpack it"),
    ".zst": ("packed", "unpack it"),
}
_HTML = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)?(?:<!doctype html|<html[\s>])", re.I | re.S)
_LOCAL_HEADER = b"PK\x03\x04"
_HEAD = 4096


def kind_of(name: str, first: bytes = b"") -> str:
    """markdown, csv, json, jsonl, html, pdf, docx, epub, code, else text: by the suffix of `name` in any
    case, and by the first bytes, which win for what is no text."""
    by_name = _BY_SUFFIX.get(PurePath(name).suffix.lower(), "text")
    head = first[:_HEAD]
    if by_name in ("pdf", "docx", "epub"):
        return by_name
    if head.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(_LOCAL_HEADER):
        if head[30:].startswith(b"mimetypeapplication/epub+zip"):
            return "epub"
        if b"word/" in first or (b"[Content_Types].xml" in head and b"docProps/" in head):
            return "docx"
    if by_name == "text" and not PurePath(name).suffix and _HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    return by_name


def unsupported_format(name: str) -> tuple[str, str] | None:
    """What a file of a kind that is not read is, by its name, and what to do with it."""
    return _FOREIGN.get(PurePath(name).suffix.lower())
