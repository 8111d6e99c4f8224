"""Test the worker process that reads documents: confined, limited, and restarted after a crash."""

from __future__ import annotations

import io
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from handmade_pdf import PAGES, pdf_by_hand

from rlm.documents import load
from rlm.documents.formats import registry
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.frames import FrameError, packed, read_piece
from rlm.documents.formats.piece import Ended, Heading, NotRead, Page, Piece, Problem, Text
from rlm.documents.formats.registry import DocumentFormat


def read(converter: Converter, path: Path, kind: str = "pdf") -> list[Piece]:
    with path.open("rb") as file:
        return list(converter.pieces(file.fileno(), path.stat().st_size, kind, lambda: None))


HOSTILE = """
import json, os, socket
from rlm.documents.formats.piece import Ended, Text

def read_hostile(file, size):
    through = []
    for name, act in {
        "a private file": lambda: open(PRIVATE).read(),
        "a new file": lambda: open(PRIVATE + "2", "w"),
        "the mode of a file": lambda: os.chmod(PRIVATE, 0o666),
        "the network": lambda: socket.socket().connect(("127.0.0.1", 9)),
        "a server of the user": lambda: socket.socket(socket.AF_UNIX).connect(SERVER),
        "a process": os.fork,
        "a program": lambda: os.execv("/bin/true", ["true"]),
        "the document": lambda: os.write(file.fileno(), b"changed"),
        "the environment": lambda: os.environ["PLANTED_API_KEY"],
    }.items():
        try:
            act()
        except (OSError, KeyError):
            continue
        through.append(name)
    yield Text(json.dumps(through))
    yield Ended()
"""


def test_a_reader_that_is_taken_over_reaches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacks run in place of a reader, in the process of a document."""
    (tmp_path / "private.txt").write_text("secret")
    (tmp_path / "a.hostile").write_text("document")
    library = tmp_path / "site-packages"
    library.mkdir()
    words = f"PRIVATE, SERVER = {str(tmp_path / 'private.txt')!r}, {str(tmp_path / 'server')!r}"
    (library / "hostile_reader.py").write_text(f"{words}\n{HOSTILE}")
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    row = DocumentFormat(
        "hostile", frozenset({".hostile"}), article="an attack", reader="hostile_reader:read_hostile"
    )
    monkeypatch.setattr(registry, "ADDED", [row])
    with socket.socket(socket.AF_UNIX) as server, Converter() as converter:
        server.bind(str(tmp_path / "server"))
        server.listen()
        first, _ = read(converter, tmp_path / "a.hostile", "hostile")
    assert first == Text("[]")
    assert (tmp_path / "a.hostile").read_text() == "document"


def test_each_document_has_a_process_of_its_own_and_none_is_left(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with Converter() as converter:
        first = read(converter, tmp_path / "a.pdf")
        pid = converter.pid
        assert pid is not None
        assert read(converter, tmp_path / "a.pdf") == first
        assert converter.pid == pid
        os.kill(pid, signal.SIGKILL)
        assert read(converter, tmp_path / "a.pdf") == first
        pid = converter.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_reader_that_dies_costs_its_document_alone(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    (tmp_path / "large.html").write_text("<p>some words</p>\n" * 100_000)
    with Converter() as converter, (tmp_path / "large.html").open("rb") as file:
        pieces = converter.pieces(file.fileno(), 2_000_000, "html", lambda: None)
        next(pieces)
        converter.close()
        with pytest.raises(NotRead, match="crashed its reader"):
            list(pieces)
        assert read(converter, tmp_path / "a.pdf")


def test_a_reader_that_hangs_is_killed(tmp_path: Path) -> None:
    """A document that hangs its reader costs a limited time, and the next one is read."""
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    (tmp_path / "slow.html").write_text("<p>" + "<b>word</b> " * 2_000_000)
    with Converter(silence=0.3) as converter:
        began = time.monotonic()
        with pytest.raises(NotRead, match=r"no output for 0\.3 s"):
            read(converter, tmp_path / "slow.html", "html")
        assert time.monotonic() - began < 20
        pid = converter.pid
        assert read(converter, tmp_path / "a.pdf")
        assert converter.pid == pid


def test_a_reader_that_wants_too_much_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.html").write_text("<p>word</p>" * 1_000_000)
    with (
        Converter(memory_mb=150) as converter,
        pytest.raises(NotRead, match=r"memory|crashed its reader|SelectolaxError"),
    ):
        read(converter, tmp_path / "big.html", "html")


class Stopped(Exception):
    pass


def test_progress_can_end_the_waiting_for_a_reader(tmp_path: Path) -> None:
    """A run can be cancelled while a document is being read."""
    (tmp_path / "slow.html").write_text("<p>" + "<b>word</b> " * 1_500_000)
    began = time.monotonic()

    def progress(name: str, size: int) -> None:
        if time.monotonic() - began > 0.3:
            raise Stopped

    with pytest.raises(Stopped):
        load([tmp_path / "slow.html"], tmp_path / "c", progress)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "piece",
    [
        Text("naïve 🙂\n"),
        Heading(2, "Title"),
        Page(),
        Problem("a note", "mend it"),
        Ended(3, "cp1252"),
        Ended(),
    ],
)
def test_pieces_survive_the_channel(piece: Piece) -> None:
    assert read_piece(io.BytesIO(packed(piece)).read) == piece


@pytest.mark.parametrize(
    "data",
    [
        b"T\xff\xff\xff\xff",
        b"Z\0\0\0\0",
        b"T\x01\0\0\0\xff",
        b"H\0\0\0\0",
        b"E\x02\0\0\0[]",
        b"U\x02\0\0\0{}",
    ],
)
def test_bytes_of_a_reader_taken_over_are_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        read_piece(io.BytesIO(data).read)
