"""Test the worker process that reads documents: confined, limited, and restarted after a crash."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from handmade_pdf import PAGES, pdf_by_hand

from rlm.documents import load
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.frames import FrameError, packed, read_piece
from rlm.documents.formats.piece import Ended, Heading, Note, Page, Piece, Text, Unreadable
from rlm.sandbox.isolation import landlock


def test_the_reader_process_has_no_keys_and_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys never reach the process that parses untrusted files."""
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with Converter() as converter, (tmp_path / "a.pdf").open("rb") as file:
        pieces = converter.pieces(file.fileno(), 1_000, "pdf", lambda: None)
        next(pieces)
        assert converter._process is not None
        pid = converter._process.pid
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"PYTHONPATH" in environment
        assert b"sk-planted" not in environment
        assert any(isinstance(piece, Ended) for piece in pieces)
    assert not Path(f"/proc/{pid}").exists()


def test_the_reader_process_opens_no_file_and_no_connection(tmp_path: Path) -> None:
    """A compromised parser reaches neither the user's files nor the network, on systems with Landlock.

    The code runs in place of a reader, after the same confinement.
    """
    if not landlock.available():
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "private.txt").write_text("secret")
    code = textwrap.dedent(
        f"""
        import errno, socket
        from rlm.documents.formats import worker
        worker.confine_parser()
        for act in (
            lambda: open({str(tmp_path / "private.txt")!r}).read(),
            lambda: open({str(tmp_path / "made.txt")!r}, "w"),
            lambda: socket.create_connection(("127.0.0.1", 9), 1),
        ):
            try:
                act()
            except OSError as error:
                print("refused" if error.errno in (errno.EACCES, errno.EPERM, errno.EOPNOTSUPP) else error)
        """
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout.split() == ["refused"] * 3


def test_one_process_reads_many_documents_and_is_renewed_when_it_dies(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "a.pdf", PAGES)

    def read(converter: Converter) -> list[Piece]:
        with (tmp_path / "a.pdf").open("rb") as file:
            return list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))

    with Converter() as converter:
        first = read(converter)
        assert converter._process is not None
        pid = converter._process.pid
        assert read(converter) == first
        assert converter._process.pid == pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unreadable, match="crashed its reader"):
            read(converter)
        assert read(converter) == first


def test_a_reader_that_hangs_is_killed(tmp_path: Path) -> None:
    """A document that hangs its reader costs a limited time, and the next one is read."""
    pdf_by_hand(tmp_path / "a.pdf", PAGES)
    with Converter() as converter, (tmp_path / "a.pdf").open("rb") as file:
        assert list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))
        assert converter._process is not None
        converter._silence = 0.5
        os.kill(converter._process.pid, signal.SIGSTOP)
        with pytest.raises(Unreadable, match=r"no output for 0\.5 s"):
            list(converter.pieces(file.fileno(), 1_000, "pdf", lambda: None))
        assert converter._process is None


def test_a_reader_that_wants_too_much_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.html").write_text("<p>word</p>" * 1_000_000)
    with (
        Converter(memory=250 << 20) as converter,
        (tmp_path / "big.html").open("rb") as file,
        pytest.raises(Unreadable, match=r"memory allowed|crashed its reader|not readable"),
    ):
        list(converter.pieces(file.fileno(), 11_000_000, "html", lambda: None))


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
    [Text("naïve 🙂\n"), Heading(2, "Title"), Page(), Note("a note"), Ended(3, "cp1252"), Ended()],
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
