from __future__ import annotations

import gzip
import os
import threading
import time
from pathlib import Path

import pytest
from document_tree import put, text_of

from rlm.documents import StreamSource, load
from rlm.errors import DocumentError

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Большой текст на русском.\n"


def test_a_named_pipe_given_by_name_is_streamed(tmp_path: Path, tree: Path) -> None:
    pipe = tree / "pipe.md"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(("# " + "é" * 200_000).encode()))
    writer.start()
    loaded = load([pipe], tmp_path / "c")
    writer.join()
    assert text_of(loaded) == "# " + "é" * 200_000
    assert [(d.name, d.kind) for d in loaded.context.documents] == [("pipe.md", "markdown")]


def test_progress_is_reported_within_a_document_too(tmp_path: Path, tree: Path) -> None:
    put(tree, a=b"12345", b=b"x" * (3 << 20), c=b"678")
    reports: list[tuple[str, int]] = []
    load([tree], tmp_path / "c", progress=lambda name, size: reports.append((name, size)))
    assert [size for _, size in reports] == sorted(size for _, size in reports)
    block = 1 << 20
    assert {("a", 5), ("b", 5 + block), ("b", 5 + 2 * block), ("b", 5 + 3 * block)} <= set(reports)
    assert reports[-1] == ("c", 8 + 3 * block)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("make", [Path, lambda path: path.read_text(), lambda path: path.read_bytes()])
def test_progress_can_end_the_loading_within_a_document(tmp_path: Path, tree: Path, make) -> None:
    """An interrupt does not wait for the end of a gigabyte."""
    put(tree, a=b"words\n" * 1_000_000)
    last = 0

    def progress(_name: str, size: int) -> None:
        nonlocal last
        last = size
        if size:
            raise Stopped

    with pytest.raises(Stopped):
        load([make(tree / "a")], tmp_path / "c", progress)
    assert last == 1 << 20
    assert not (tmp_path / "c").exists()


def pipe_without_a_writer(folder: Path) -> tuple[Path, None]:
    os.mkfifo(folder / "fifo")
    return folder / "fifo", None


def open_pipe(_folder: Path) -> tuple[StreamSource, object]:
    reading, writing = os.pipe()
    os.write(writing, b"something, but not all")
    return StreamSource("stdin", os.fdopen(reading, "rb")), os.fdopen(writing, "wb")


def terminal(_folder: Path) -> tuple[StreamSource, object]:
    driver, terminal = os.openpty()
    os.write(driver, b"a line\n")
    return StreamSource("stdin", os.fdopen(terminal, "rb", buffering=0)), os.fdopen(driver, "wb")


@pytest.mark.parametrize("make", [pipe_without_a_writer, open_pipe, terminal])
def test_progress_can_end_the_waiting_for_a_stream(tmp_path: Path, tree: Path, make) -> None:
    source, other_end = make(tree)
    began = time.monotonic()

    def progress(_name: str, _size: int) -> None:
        if time.monotonic() - began > 0.15:
            raise Stopped

    with pytest.raises(Stopped):
        load([source], tmp_path / "c", progress)
    assert time.monotonic() - began < 1.0
    assert not (tmp_path / "c").exists()
    if isinstance(source, StreamSource):
        source.stream.close()
        other_end.close()


def test_what_a_buffer_holds_already_is_read_too(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    with os.fdopen(reading, "rb") as stream:
        assert stream.readline() == b"one\n"
        os.write(writing, b"three\n")
        os.close(writing)
        assert text_of(load([StreamSource("stdin", stream)], tmp_path / "c")) == "two\nthree\n"


def test_a_stream_of_the_callers_own_is_read_as_it_is(tmp_path: Path, tree: Path) -> None:
    """A decompressor has more data than its file; a short read is not the end."""
    with gzip.open(tree / "a.gz", "wb") as packed:
        packed.write(b"packed\n" * 300_000)
    with gzip.open(tree / "a.gz", "rb") as unpacked:
        assert text_of(load([StreamSource("a", unpacked)], tmp_path / "c")) == "packed\n" * 300_000


def test_how_a_pipe_was_written_to_does_not_show(tmp_path: Path, tree: Path) -> None:
    """The encoding is detected on whole blocks, because the first accent of a slow writer is not enough."""
    data = (RUSSIAN * 40).encode("cp1251")
    reading, writing = os.pipe()

    def dribble() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for at in range(0, len(data), 50):
                pipe.write(data[at : at + 50])

    writer = threading.Thread(target=dribble)
    writer.start()
    with os.fdopen(reading, "rb") as stream:
        loaded = load([StreamSource("stdin", stream)], tmp_path / "c")
    writer.join()
    assert text_of(loaded) == RUSSIAN * 40


def test_a_pipe_that_is_closed_before_it_is_opened_ends(tmp_path: Path) -> None:
    """`rlm ask q <(echo text)` passes /dev/fd/N, whose writer has ended."""
    reading, writing = os.pipe()
    os.write(writing, b"substituted\n")
    os.close(writing)
    assert text_of(load([Path(f"/dev/fd/{reading}")], tmp_path / "c")) == "substituted\n"
    os.close(reading)


def test_a_named_pipe_without_a_writer_is_not_waited_for_without_end(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.documents.blocks._WRITER_SECONDS", 0.5)
    pipe = tree / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DocumentError, match=r"no program opened it for writing within 0\.5 s: start"):
        load([pipe], tmp_path / "c")


def test_a_slow_writer_of_a_named_pipe_is_waited_for(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.documents.blocks._WRITER_SECONDS", 0.5)
    pipe = tree / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as stream:
            time.sleep(1.5)
            stream.write(b"late\n")

    writer = threading.Thread(target=write)
    writer.start()
    loaded = load([pipe], tmp_path / "c")
    writer.join()
    assert text_of(loaded) == "late\n"
