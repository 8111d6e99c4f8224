"""Test the worker process that reads documents: confined, limited, and restarted after a crash."""

from __future__ import annotations

import io
import os
import signal
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from handmade_pdf import PAGES, pdf_by_hand
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize("shared", [False, True])
def test_a_reader_that_is_taken_over_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """The attacks run in place of a reader, in the process of a document, or of several."""
    (tmp_path / "private.txt").write_text("secret")
    (tmp_path / "a.hostile").write_text("document")
    library = tmp_path / "site-packages"
    library.mkdir()
    words = f"PRIVATE, SERVER = {str(tmp_path / 'private.txt')!r}, {str(tmp_path / 'server')!r}"
    (library / "hostile_reader.py").write_text(f"{words}\n{HOSTILE}")
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    row = DocumentFormat(
        "hostile",
        article="an attack",
        reader="hostile_reader:read_hostile",
        shares_process=shared,
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


SHARED = """
import os
from rlm.documents.formats.html import pieces_of_markup
from rlm.documents.formats.piece import Ended, Fault, Text

def read_one(file, size):
    what = file.read().decode()
    yield Text(f"{os.getpid()} {what}")
    match what:
        case "crash":
            os.abort()
        case "hang":
            while True:
                pass
        case "bomb":
            b"x" * (1 << 40)
        case "fault":
            raise Fault("locked")
        case "flood":
            yield from (Text("x" * 1_000_000) for _ in range(1_000))
        case "page":
            yield from pieces_of_markup("<p>a page</p>")
    yield Ended()
"""


@pytest.fixture
def shared_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Converter, str], list[Piece]]:
    """A reader of small documents that tells its process, and does what the document says."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "shared_reader.py").write_text(SHARED)
    monkeypatch.syspath_prepend(str(library))
    row = DocumentFormat("shared", article="one", reader="shared_reader:read_one", shares_process=True)
    monkeypatch.setattr(registry, "ADDED", [row])

    def read_words(converter: Converter, words: str) -> list[Piece]:
        (tmp_path / "words").write_text(words)
        return read(converter, tmp_path / "words", "shared")

    return read_words


def process_of(pieces: list[Piece]) -> str:
    assert isinstance(pieces[0], Text)
    return pieces[0].text.split()[0]


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        ("crash", "crashed its reader"),
        ("hang", "too complex for its size"),
        ("bomb", "too much memory"),
        ("fault", "protected by a password"),
        ("flood", "grows beyond 200 times"),
    ],
)
def test_one_hostile_document_among_fifty_that_share_processes_costs_itself_alone(
    shared_reader: Callable[[Converter, str], list[Piece]], hostile: str, reason: str
) -> None:
    processes = set()
    with Converter(cpu_seconds=1) as converter:
        for number in range(50):
            if number == 20:
                with pytest.raises(NotRead, match=reason):
                    shared_reader(converter, hostile)
                continue
            pieces = shared_reader(converter, f"words {number}")
            processes.add(process_of(pieces))
            assert pieces == [Text(f"{process_of(pieces)} words {number}"), Ended()]
    assert len(processes) == 2


def test_the_documents_of_a_process_are_bounded_and_large_ones_have_their_own(
    shared_reader: Callable[[Converter, str], list[Piece]],
) -> None:
    with Converter() as converter:
        shared = [process_of(shared_reader(converter, "words")) for _ in range(33)]
        own = [process_of(shared_reader(converter, "x" * 70_000)) for _ in range(2)]
    assert len(set(shared)) == 2
    assert len({*own, *shared}) == 4


def test_a_page_in_a_small_document_is_parsed_in_a_process_of_its_own(
    shared_reader: Callable[[Converter, str], list[Piece]],
) -> None:
    """The parser of pages is written in C: it runs where no other document is read."""
    with Converter() as converter:
        shared = process_of(shared_reader(converter, "words"))
        pieces = shared_reader(converter, "page")
        own = process_of(pieces)
        assert own != shared
        assert pieces == [Text(f"{own} pagea page\n"), Ended()]
        assert process_of(shared_reader(converter, "words")) == shared


SMALL = {
    "mail": b"From: a@b\nSubject: =?utf-8?q?=C3=A9?=\nContent-Type: multipart/mixed; boundary=b\n\n"
    b"--b\n\nwords\n--b\nContent-Type: text/html\n\n<p>a page</p>\n"
    b"--b\nContent-Disposition: attachment; filename=a.txt\n\nmore\n--b--\n",
    "notebook": b'{"cells": [{"cell_type": "code", "source": ["a = 1"], "outputs": [{"text": "1"},'
    b' {"data": {"text/html": "<b>1</b>"}}]}]}',
    "subtitles": b"1\n00:00:01,000 --> 00:00:02,000\n<v Ann>words\n\n"
    b"2\n00:00:03,000 --> 00:00:04,000\nmore\n",
    "calendar": b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:words\n"
    b"DESCRIPTION;ENCODING=QUOTED-PRINTABLE:a=C3=A9\nEND:VEVENT\nEND:VCALENDAR\n",
}
SUFFIXES = {"mail": ".eml", "notebook": ".ipynb", "subtitles": ".srt", "calendar": ".ics"}


def test_a_folder_gives_the_same_with_shared_processes_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for kind, data in SMALL.items():
        suffix = SUFFIXES[kind]
        for number in range(4):
            # Whole, changed within, cut, and damaged.
            given = data.replace(b"words", b"w%d" % number)[: len(data) - 40 * (number == 2)]
            (folder / f"{number}{suffix}").write_bytes(given if number < 3 else b"\xff\xfe{" + given[:9])
        with zipfile.ZipFile(folder / f"{kind}.zip", "w") as packed_folder:
            packed_folder.writestr(f"a{suffix}", data)
            packed_folder.writestr(f"b{suffix}", b"{" + data)
    shared = load([folder], tmp_path / "shared")
    monkeypatch.setattr("rlm.documents.formats.converter._SMALL", 0)
    apart = load([folder], tmp_path / "apart")
    assert [(file.name, file.read_bytes()) for file in sorted((tmp_path / "shared").iterdir())] == [
        (file.name, file.read_bytes()) for file in sorted((tmp_path / "apart").iterdir())
    ]
    assert len(shared.context.documents) > 20
    assert shared.problems == apart.problems
    assert shared.problems
    assert shared.replaced == apart.replaced


@pytest.fixture(scope="module")
def two_converters() -> Iterator[tuple[Converter, Converter]]:
    with Converter() as sharing, Converter() as other:
        yield sharing, other


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(SMALL)),
    cuts=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    put=st.binary(max_size=20),
)
def test_a_document_gives_the_same_in_a_shared_process_and_in_its_own(
    tmp_path: Path,
    two_converters: tuple[Converter, Converter],
    kind: str,
    cuts: tuple[int, int],
    put: bytes,
) -> None:
    data = SMALL[kind]
    (tmp_path / "small").write_bytes(data[: min(cuts)] + put + data[max(cuts) :] or b"x")
    results: list[object] = []
    for converter, largest in zip(two_converters, (1 << 16, 0), strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rlm.documents.formats.converter._SMALL", largest)
            try:
                results.append(read(converter, tmp_path / "small", kind))
            except NotRead as refusal:
                results.append(refusal.problem)
    assert results[0] == results[1]


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
