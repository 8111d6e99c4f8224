"""One good file of every kind of document, with a question and its answer, and files that cannot be read.

The rows are those of the registry (`rlm.documents.formats.registry`).
"""

from __future__ import annotations

import base64
import bz2
import gzip
import importlib.util
import io
import json
import lzma
import random
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path

from handmade_pdf import pdf_by_hand

__all__ = ["ANSWER", "QUESTION", "SAMPLES", "Sample"]

QUESTION = "What is the notice period of the northern yard?"
ANSWER = "seventeen weeks"
SENTENCE = f"The notice period of the northern yard is {ANSWER}."
FILLER = "The southern mill has a new roof and a wide gate. "
_DOCUMENTS = Path(__file__).parents[1]
_LOCKED = _DOCUMENTS / "absence" / "files"


@dataclass(frozen=True)
class Sample:
    """A file of one kind. `place` is part of the place that a citation of the answer names.

    `unreadable` are files of the same kind by their suffix, which have lost the answer or cannot be opened.
    `needs` is the package without which the good file is not read, either.
    """

    name: str
    data: bytes
    place: str = ""
    unreadable: Mapping[str, bytes] = field(default_factory=dict)
    needs: str = ""

    @property
    def is_readable(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None


def _noise(size: int = 4_000) -> bytes:
    return random.Random(7).randbytes(size)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _garbled(data: bytes) -> bytes:
    """Return the data with its middle third replaced."""
    third = len(data) // 3
    return data[:third] + _noise(third) + data[2 * third :]


def _binary(name: str, data: bytes, place: str = "", *, needs: str = "", **more: bytes) -> Sample:
    """Return a sample of a format in which damage shows."""
    return Sample(
        name,
        data,
        place or name,
        {"cut": _cut(data), "garbled": _garbled(data), "empty": data[:16], **more},
        needs,
    )


def _text(name: str, text: str, place: str = "") -> Sample:
    """Return a sample of a format that is text. Nothing tells that it was longer, but noise is no text."""
    return Sample(name, text.encode(), place or name, {"noise": _noise(), "cut": b"\x00\x01\x02" * 500})


def _made(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write(path)
        return path.read_bytes()


def _zipped(**members: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return out.getvalue()


def _pdf(*, locked: bool = False) -> bytes:
    def write(path: Path) -> None:
        pdf_by_hand(path, ["The southern mill has a roof.", SENTENCE])
        if locked:
            from pypdf import PdfReader, PdfWriter

            writer = PdfWriter(clone_from=PdfReader(io.BytesIO(path.read_bytes())))
            writer.encrypt("secret")
            writer.write(path)

    return _made(write)


def _docx() -> bytes:
    import docx

    made = docx.Document()
    made.add_heading("Terms", 1)
    made.add_paragraph(SENTENCE)
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def _workbook() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["yard", "terms"])
    book.active.append(["north", SENTENCE])
    book.active.append(["south", FILLER])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _pptx() -> bytes:
    with zipfile.ZipFile(_DOCUMENTS / "office" / "files" / "talk.pptx") as talk:
        parts = {name: talk.read(name) for name in talk.namelist()}
    slide = "ppt/slides/slide2.xml"
    parts[slide] = parts[slide].replace(b"Honey rises", SENTENCE.encode())
    return _zipped(**parts)


def _opendocument(kind: str, body: str, *, locked: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr("content.xml", f"<document><body>{body}</body></document>", zipfile.ZIP_DEFLATED)
        archive.writestr("META-INF/manifest.xml", "<m><encryption-data/></m>" if locked else "<m/>")
    return out.getvalue()


def _odt(*, locked: bool = False) -> bytes:
    return _opendocument("text", _PLAIN, locked=locked)


def _epub(*, locked: bool = False) -> bytes:
    rights = '<encryption><d><CipherReference URI="a.xhtml"/></d></encryption>'
    return _zipped(
        mimetype="application/epub+zip",
        **{
            "META-INF__container_dot_xml": '<c><rootfile full-path="a.opf"/></c>',
            "a_dot_opf": '<p><item id="a" href="a.xhtml"/><itemref idref="a"/></p>',
            "a_dot_xhtml": f"<html><body><h1>Terms</h1><p>{SENTENCE}</p></body></html>",
        },
        **({"META-INF__encryption_dot_xml": rights} if locked else {}),
    )


def _sqlite() -> bytes:
    def write(path: Path) -> None:
        with closing(sqlite3.connect(path)) as made:
            made.execute("create table terms (yard, text)")
            made.executemany(
                "insert into terms values (?, ?)", [("south", FILLER)] * 400 + [("north", SENTENCE)]
            )
            made.commit()

    return _made(write)


def _parquet() -> bytes:
    if importlib.util.find_spec("pyarrow") is None:
        return b"PAR1" + _noise() + b"PAR1"
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"yard": ["north", "south"], "terms": [SENTENCE, FILLER]}), out)
    return out.getvalue()


def _mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ann@example.com", "bob@example.com", "The yard"
    mail.set_content(f"{FILLER * 5}\n{SENTENCE}\n{FILLER * 5}", cte="base64")
    mail.add_attachment(FILLER * 40, filename="mill.txt")
    return mail.as_bytes()


def _locked_mail() -> bytes:
    head = b"From: a@b.c\nSubject: papers\nMIME-Version: 1.0\nContent-Type: application/pkcs7-mime\n"
    return head + b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(_noise())


def _notebook() -> bytes:
    cells = [{"cell_type": "markdown", "source": text, "metadata": {}} for text in (FILLER, SENTENCE)]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in (("a.txt", FILLER * 200), ("yard.txt", SENTENCE)):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def _seven(*, password: str | None = None) -> bytes:
    if importlib.util.find_spec("py7zr") is None:
        return b"7z\xbc\xaf\x27\x1c" + _noise()
    import py7zr

    out = io.BytesIO()
    with py7zr.SevenZipFile(out, "w", password=password) as archive:
        archive.writestr(SENTENCE, "yard.txt")
    return out.getvalue()


def _image() -> bytes:
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (1100, 300), "white")
    ImageDraw.Draw(page).text((60, 80), SENTENCE, fill="black", font=ImageFont.load_default(32))
    out = io.BytesIO()
    page.save(out, "PNG")
    return out.getvalue()


def _zstd() -> bytes:
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return zstd.compress((FILLER * 500 + SENTENCE).encode())


_LONG = (FILLER * 500 + SENTENCE + "\n").encode()
_RTF = rb"{\rtf1\ansi\pard " + FILLER.encode() + rb"\par " + SENTENCE.encode() + rb"\par}"
_CHAT = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": SENTENCE}]
_CARD = {"title": "Yard", "description": SENTENCE, "id": 7, "comments": [{"author": "Ann", "body": FILLER}]}
_PLAIN = f"<text><p>{FILLER}</p><p>{SENTENCE}</p></text>"
_BOX = f"<frame><text-box><p>{SENTENCE}</p></text-box></frame>"
_SLIDE = f"<presentation><page>{_BOX}</page></presentation>"

SAMPLES: dict[str, Sample] = {
    "text": _text("lease.txt", f"{FILLER}\n{SENTENCE}\n"),
    "markdown": _text("lease.md", f"# Terms\n\n{SENTENCE}\n", "under “Terms”"),
    "csv": _text("lease.csv", f"yard,terms\nsouth,roof\nnorth,{SENTENCE}\n"),
    "json": _text("lease.json", json.dumps({"leases": [{"yard": "south"}, {"terms": SENTENCE}]}, indent=1)),
    "jsonl": _text("lease.jsonl", '{"yard": "south"}\n' + json.dumps({"terms": SENTENCE}) + "\n"),
    "html": _text("lease.html", f"<h1>Terms</h1><p>{SENTENCE}</p>", "under “Terms”"),
    "pdf": _binary("lease.pdf", _pdf(), "page 2", locked=_pdf(locked=True)),
    "image": _binary("lease.png", _image(), needs="rapidocr"),
    "epub": _binary("lease.epub", _epub(), "under “Terms”", locked=_epub(locked=True)),
    "pptx": _binary("lease.pptx", _pptx(), "slide 2", locked=(_LOCKED / "lease.pptx").read_bytes()),
    "odt": _binary("lease.odt", _odt(), locked=_odt(locked=True)),
    "odp": _binary(
        "lease.odp",
        _opendocument("presentation", _SLIDE),
        "slide 1",
        locked=_opendocument("presentation", _SLIDE, locked=True),
    ),
    "workbook": _binary(
        "lease.xlsx", _workbook(), "lease.xlsx, Sheet!", locked=(_LOCKED / "lease.xlsx").read_bytes()
    ),
    "parquet": _binary("lease.parquet", _parquet(), "row 1", needs="pyarrow"),
    "sqlite": _binary("lease.sqlite", _sqlite(), "table terms, row 401", locked=_noise()),
    "docx": _binary("lease.docx", _docx(), "under “Terms”", locked=(_LOCKED / "lease.docx").read_bytes()),
    "mail": Sample("lease.eml", _mail(), "lease.eml", {"locked": _locked_mail(), "cut": _mail()[:330]}),
    "msg": _binary("letter.msg", (_DOCUMENTS / "containers" / "files" / "letter.msg").read_bytes()),
    "notebook": _binary("lease.ipynb", _notebook(), "cell 2"),
    "rtf": _binary("lease.rtf", _RTF),
    "subtitles": _text("lease.srt", f"1\n00:00:05,000 --> 00:00:09,000\n{SENTENCE}\n", "00:00:05"),
    "calendar": _text(
        "lease.ics",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Lease\r\n"
        f"DESCRIPTION:{SENTENCE}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    ),
    "latex": _text("lease.tex", f"\\section{{Terms}}\n{SENTENCE}\n", "under “Terms”"),
    "code": _text("lease.py", f'"""The lease.\n\n{SENTENCE}\n"""\n'),
    "gzip": _binary("lease.log.gz", gzip.compress(_LONG, mtime=0)),
    "bzip2": _binary("lease.log.bz2", bz2.compress(_LONG)),
    "xz": _binary("lease.log.xz", lzma.compress(_LONG)),
    "zstd": _binary("lease.log.zst", _zstd()),
    "tar": _binary("lease.tar", _tar(), "lease.tar/yard.txt"),
    "7z": _binary("lease.7z", _seven(), "lease.7z/yard.txt", needs="py7zr", locked=_seven(password="x")),
    "zip": _binary(
        "lease.zip",
        _zipped(**{"a_dot_txt": FILLER * 500, "yard_dot_txt": SENTENCE}),
        "lease.zip/yard.txt",
        locked=(_LOCKED / "lease.zip").read_bytes(),
    ),
    "chat": _text("lease.json", json.dumps(_CHAT), "message 2"),
    "card": _text("lease.json", json.dumps(_CARD)),
    "board": _text("board.json", json.dumps([{**_CARD, "id": number, "state": "open"} for number in (1, 2)])),
    "commits": _text("log.txt", f"commit {'0a1b' * 10}\nAuthor: Ann <a@x.org>\n\n    {SENTENCE}\n"),
}  # fmt: skip
"""By the kind of each row of the registry."""
