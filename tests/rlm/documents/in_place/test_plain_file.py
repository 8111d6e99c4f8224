"""Test that a large plain file is read where it is, as the same text that a copy would hold."""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path

import pytest
from document_tree import notes_of, text_of

from rlm.documents import ContextCache, FolderCache, Loaded, PathSource, load
from rlm.documents import in_place as plain_file
from rlm.documents.in_place import reports_changes
from rlm.errors import DocumentError
from rlm.sandbox.errors import SourceChanged
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, SOURCE_NAME, Body, BodyError

PIECES = [
    "plain words\n",
    "世界 ",
    "🙂",
    "é\r\n",
    "x" * 5_000,
    "\n\n",
    "# Title\n",
    "Title\n=====\n",
    "a,b\n",
    "\t",
]


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_file, "LEAST_BYTES", 100)


def written(path: Path, data: bytes | str, *, settled: bool = True) -> Path:
    """Write a file that nothing has changed for a while."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    if settled:
        os.utime(path, (time.time() - 3_600,) * 2)
        time.sleep(0.15)
    return path


def in_place(loaded: Loaded) -> bool:
    return (loaded.context.folder / BODY_NAME).is_symlink()


def copied(path: Path, folder: Path) -> Loaded:
    """Load the same file as a copy: a file with a neighbour is copied."""
    return load([path, written(folder.parent / "neighbour.txt", "y", settled=False)], folder)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv"])
def test_every_offset_is_that_of_a_copy(tmp_path: Path, seed: int, name: str) -> None:
    """Characters, lines, headings and texts at random places."""
    dice = random.Random(seed)
    text = "".join(dice.choices(PIECES, k=dice.choice([30, 300]))) + "end\n" + "filler " * 20 + "\n"
    path = written(tmp_path / name, text)
    here, there = load([path], tmp_path / "here"), copied(path, tmp_path / "there")
    assert in_place(here)
    assert not in_place(there)
    with here.context.open() as body, there.context.open() as other:
        whole = other.documents[0]
        assert body.chars == whole.end == len(text)
        assert body.documents[0].headings_indexed == whole.headings_indexed
        assert body.bytes == len(text.encode())
        for _ in range(50):
            start, end = sorted(dice.choices(range(body.chars + 1), k=2))
            assert body.text(start, end) == other.text(start, end) == text[start:end]
            assert body.byte_of(start) == other.byte_of(start)
            assert body.line_of(start) == other.line_of(start)
            assert body.line_start(body.line_of(start)) == other.line_start(other.line_of(start))
            assert body.heading_path(start) == other.heading_path(start) or start >= whole.end
            part = body.window(start, end)
            assert part.text(0, part.chars) == text[start:end]
            assert part.read(0, part.bytes) == text[start:end].encode()
            part.close()


def test_the_hash_and_the_index_are_those_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.txt", "some words 世界 🙂\n" * 9_000)
    here = load([path], tmp_path / "here")
    monkeypatch.setattr(plain_file, "LEAST_BYTES", 1 << 40)
    there = load([path], tmp_path / "there")
    assert in_place(here)
    assert not in_place(there)
    assert here.context.sha256 == there.context.sha256
    assert (tmp_path / "here" / INDEX_NAME).read_bytes() == (tmp_path / "there" / INDEX_NAME).read_bytes()
    assert sum(file.lstat().st_size for file in (tmp_path / "here").iterdir()) < 10_000


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mark.txt", b"\xef\xbb\xbf" + b"words\n" * 100),
        ("latin.txt", "déjà vu, très élégant\n".encode("cp1252") * 100),
        ("wide.txt", ("words\n" * 100).encode("utf-16")),
        ("nul.txt", b"words\n" * 100 + b"\0" + b"words\n" * 100),
        ("late.txt", "wörds\n".encode() * 400_000 + b"\xff\n"),
        ("cut.txt", "wörds\n".encode() * 100 + b"\xf0\x9f\x98"),
        (
            "chat.json",
            b'[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]' * 1 + b" " * 100,
        ),
        ("page.html", b"<html><body><p>words</p>" + b"<p>words</p>" * 50 + b"</body></html>"),
    ],
)
def test_a_text_that_is_not_the_file_is_copied(tmp_path: Path, name: str, data: bytes) -> None:
    """Other encodings, damage and formats."""
    loaded = load([written(tmp_path / name, data)], tmp_path / "context")
    assert not in_place(loaded)
    assert not (tmp_path / "context" / SOURCE_NAME).exists()
    with loaded.context.open() as body:
        assert body.chars


def test_a_file_that_was_just_written_is_copied(tmp_path: Path) -> None:
    loaded = load([written(tmp_path / "a.txt", "words\n" * 100, settled=False)], tmp_path / "context")
    assert not in_place(loaded)


def test_several_sources_and_folders_are_copied(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "a.txt", "words\n" * 100)
    assert not in_place(load([tmp_path / "folder"], tmp_path / "one"))


def test_a_link_is_followed_once(tmp_path: Path) -> None:
    """What the link points to later is another file."""
    first = written(tmp_path / "first.txt", "first\n" * 100)
    link = tmp_path / "link.txt"
    link.symlink_to(first)
    loaded = load([link], tmp_path / "context")
    assert in_place(loaded)
    assert loaded.context.documents[0].name == "link.txt"
    link.unlink()
    link.symlink_to(written(tmp_path / "second.txt", "other\n" * 100))
    assert text_of(loaded) == "first\n" * 100


def test_a_pipe_is_read_and_not_opened_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_bytes(b"words\n" * 100)
        os._exit(0)
    loaded = load([pipe], tmp_path / "context")
    os.wait()
    assert not in_place(loaded)
    assert text_of(loaded) == "words\n" * 100


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    path = written(folder / "a.txt", "words\n" * 100)
    path.chmod(0o400)
    folder.chmod(0o500)
    time.sleep(0.15)
    try:
        loaded = load([path], tmp_path / "context")
        assert in_place(loaded)
        assert text_of(loaded) == "words\n" * 100
        assert [one.name for one in folder.iterdir()] == ["a.txt"]
    finally:
        folder.chmod(0o700)


def test_a_file_of_a_remote_system_is_not_trusted(tmp_path: Path) -> None:
    assert reports_changes(tmp_path.stat().st_dev)
    # /proc reports no changes of its files, but they have no size either.
    assert not in_place(load([written(tmp_path / "a.txt", "x\n" * 40)], tmp_path / "context"))


def test_a_body_in_place_is_not_opened_without_a_watch(tmp_path: Path) -> None:
    loaded = load([written(tmp_path / "a.txt", "words\n" * 100)], tmp_path / "context")
    with pytest.raises(BodyError, match="nothing watches"):
        Body.open(loaded.context.folder)


def test_the_manifest_that_a_kernel_gets_does_not_name_the_file(tmp_path: Path) -> None:
    loaded = load([written(tmp_path / "a.txt", "words\n" * 100)], tmp_path / "context")
    assert str(tmp_path) not in (loaded.context.folder / "manifest.json").read_text()


def test_loading_that_takes_too_long_reads_the_first_part_as_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.txt", b"words words\n" * 700_000)
    begun = 0

    def slow(name: str, size: int) -> None:
        nonlocal begun
        if size and not begun:
            begun = size
            time.sleep(1.1)

    loaded = load([path], tmp_path / "context", slow, seconds=1.0)
    assert begun
    assert not in_place(loaded)
    assert text_of(loaded) == "words words\n" * 700_000 or notes_of(loaded)


def test_the_cache_holds_the_index_and_notices_a_change(tmp_path: Path) -> None:
    """A rewrite of the same size whose times were set back."""
    cache = ContextCache(FolderCache(tmp_path / "cache" / "contexts"), least_bytes=100)
    path = written(tmp_path / "a.txt", "words\n" * 100)
    old = path.stat()

    def loaded(*, pictures: bool = False) -> tuple[str, bool, bool]:
        """Return the text, whether it is read in place, and whether it was in the cache."""
        reads: list[int] = []
        found = load([path], tmp_path / "x", lambda _, size: reads.append(size), cache, pictures=pictures)
        try:
            return text_of(found), in_place(found), not any(reads)
        finally:
            assert found.lease is not None
            found.lease.close()

    assert loaded() == ("words\n" * 100, True, False)
    assert loaded() == ("words\n" * 100, True, True)
    # Pictures make no difference to a plain file: a resumed run finds the same entry.
    assert loaded(pictures=True) == ("words\n" * 100, True, True)
    path.write_text("WORDS\n" * 100)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    time.sleep(0.15)
    assert loaded() == ("WORDS\n" * 100, True, False)


def test_the_cache_counts_the_index_and_keeps_the_file(tmp_path: Path) -> None:
    cache = ContextCache(FolderCache(tmp_path / "cache" / "contexts", 1), least_bytes=100)
    path = written(tmp_path / "a.txt", "words\n" * 100)
    load([path], tmp_path / "one", None, cache).lease.close()  # type: ignore[union-attr]
    other = written(tmp_path / "b.txt", "other\n" * 100)
    load([other], tmp_path / "two", None, cache).lease.close()  # type: ignore[union-attr]
    assert path.read_text() == "words\n" * 100
    assert len(list(cache.folders.top.iterdir())) <= 1


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"words words\n" * 700_000)

    def append(name: str, size: int) -> None:
        with path.open("ab") as file:
            file.write(b"more\n")

    with pytest.raises(DocumentError, match="changed while it was read"):
        load([path], tmp_path / "context", append)
    assert not (tmp_path / "context").exists()


def test_a_file_that_was_cut_off_between_loading_and_opening_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "words\n" * 100)
    loaded = load([PathSource(path)], tmp_path / "context")
    os.truncate(path, 10)
    with pytest.raises(SourceChanged, match=r"a\.txt was cut off after it was read\. Restore it and resume"):
        loaded.context.open()
    path.unlink()
    with pytest.raises(SourceChanged, match="was removed"):
        loaded.context.open()
    os.mkfifo(path)
    with pytest.raises(SourceChanged, match="was removed"):
        loaded.context.open()


def test_no_file_stays_open_when_the_source_was_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "x" * 500)
    loaded = load([path], tmp_path / "there")
    assert in_place(loaded)
    os.replace(written(tmp_path / "b.txt", "y" * 500), path)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    failures = []
    for _ in range(3):
        with pytest.raises(SourceChanged) as caught:
            loaded.context.open_files()
        failures.append(caught.value)  # a traceback keeps what a frame holds
    assert len(os.listdir("/proc/self/fd")) == before
