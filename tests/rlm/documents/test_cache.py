"""Test the cache of contexts."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from document_tree import text_of

from rlm import RLM, Settings
from rlm.documents import ContextCache, FolderCache, Loaded, PathSource, StreamSource, load
from rlm.documents.workspace import Workspace
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "big.txt"
    path.write_text("some words 世界 🙂\n" * 1_000)
    settle(path)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> ContextCache:
    return ContextCache(FolderCache(tmp_path / "cache" / "contexts"), least_bytes=100)


def settle(path: Path) -> None:
    """Write a file dated an hour ago: recently changed files are not cached."""
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))


@contextmanager
def loaded_by(cache: ContextCache, *sources: Path) -> Iterator[tuple[Loaded, bool]]:
    """Return what is loaded, and whether it came from the cache: then the given folder is never made."""
    reads: list[int] = []
    folder = cache.folders.top.parent.parent / f"run-{time.monotonic_ns()}"
    loaded = load(list(sources), folder, lambda name, size: reads.append(size), cache)
    try:
        yield loaded, not any(reads)
    finally:
        if loaded.lease is not None:
            loaded.lease.close()


def entries(cache: ContextCache) -> list[Path]:
    return sorted(cache.folders.top.iterdir())


def test_the_same_file_is_read_once(cache: ContextCache, source: Path) -> None:
    """The body is a private copy, cached by path, size, mtime and inode, with its sha256."""
    with loaded_by(cache, source) as (first, found):
        assert not found
        text = text_of(first)
    with loaded_by(cache, source) as (second, found):
        assert found
        assert text_of(second) == text == source.read_text()
        assert second.context.sha256 == first.context.sha256
        assert second.context.documents == first.context.documents


def test_notes_about_the_files_are_cached_too(cache: ContextCache, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("déjà vu\n" * 100, "cp1252")
    (folder / "b.bin").write_bytes(bytes(1_000))
    (folder / "c.pdf").write_bytes(b"%PDF-broken")
    (folder / "d.txt").write_bytes("naïve 世界".encode() * 50 + b"\xff")
    for path in folder.iterdir():
        settle(path)
    with loaded_by(cache, folder) as (first, _):
        pass
    with loaded_by(cache, folder) as (second, found):
        assert found
        assert (second.problems, second.replaced) == (first.problems, 1)
        assert [one.kind for one in second.problems] == ["encoding", "other", "missing"]


def test_a_log_that_became_empty_is_no_longer_noted(cache: ContextCache, tmp_path: Path) -> None:
    """The file of an empty log stays while the database is in use."""
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    with closing(sqlite3.connect(path)) as made:
        made.execute("pragma journal_mode = wal")
        made.execute("create table t (a)")
        made.execute("insert into t values (?)", ["word " * 1_000])
        made.commit()
    settle(path)
    log.write_bytes(b"changes")
    with loaded_by(cache, path) as (loaded, _):
        assert loaded.unread == ("a.db (in part)",)
    log.write_bytes(b"")
    with loaded_by(cache, path) as (loaded, _):
        assert loaded.unread == ()


def test_it_is_private(cache: ContextCache, source: Path) -> None:
    """The cache holds the text of documents, so its modes are 0700 and 0600 under any umask."""
    old = os.umask(0)
    try:
        with loaded_by(cache, source):
            pass
    finally:
        os.umask(old)
    assert stat.S_IMODE(cache.folders.top.stat().st_mode) == 0o700
    [entry] = entries(cache)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()} == {0o600}


@pytest.mark.parametrize("change", ["content", "mtime", "inode", "path"])
def test_a_file_that_changed_is_read_again(cache: ContextCache, source: Path, change: str) -> None:
    with loaded_by(cache, source):
        pass
    match change:
        case "content":
            source.write_text("other words\n" * 1_000)
            settle(source)
        case "mtime":
            os.utime(source, (1, 1))
        case "inode":
            status = source.stat()
            data = source.read_bytes()
            opened = source.open("rb")  # so that the number is not reused
            source.unlink()
            source.write_bytes(data)
            os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
            opened.close()
        case _:
            source = source.rename(source.with_name("other.txt"))
    with loaded_by(cache, source) as (loaded, found):
        assert not found
        assert text_of(loaded) == source.read_text()


def test_a_folder_with_another_file_in_it_is_read_again(
    cache: ContextCache, tmp_path: Path, source: Path
) -> None:
    with loaded_by(cache, tmp_path):
        pass
    with loaded_by(cache, tmp_path) as (_, found):
        assert not found  # in this test the cache itself is in this folder
    folder = tmp_path / "only"
    folder.mkdir()
    source.rename(folder / "a.txt")
    with loaded_by(cache, folder):
        pass
    with loaded_by(cache, folder) as (_, found):
        assert found
    (folder / "b.txt").write_text("new\n")
    settle(folder / "b.txt")
    with loaded_by(cache, folder) as (loaded, found):
        assert not found
        assert len(loaded.context.documents) == 2


@pytest.mark.parametrize(
    "damage", ["body changed", "body short", "index gone", "entry garbage", "entry gone", "open to all"]
)
def test_a_damaged_entry_is_made_again(cache: ContextCache, source: Path, damage: str) -> None:
    """Damaged entries are detected, removed and replaced."""
    with loaded_by(cache, source):
        pass
    [entry] = entries(cache)
    match damage:
        case "body changed":
            (entry / BODY_NAME).write_bytes(b"X" * (entry / BODY_NAME).stat().st_size)
        case "body short":
            os.truncate(entry / BODY_NAME, 10)
        case "index gone":
            (entry / INDEX_NAME).unlink()
        case "entry garbage":
            (entry / "entry.json").write_text('{"files": 1}')
        case "entry gone":
            (entry / "entry.json").unlink()
        case _:
            entry.chmod(0o755)
    with loaded_by(cache, source) as (loaded, found):
        assert not found
        assert text_of(loaded) == source.read_text()


def test_an_entry_is_on_the_disk_before_it_has_its_name(
    cache: ContextCache, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a body would have the right size and the wrong content."""
    synced: set[str] = set()

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        assert path.parent.name.startswith("part-")
        synced.add(path.name)

    monkeypatch.setattr(os, "fsync", fsync)
    with loaded_by(cache, source):
        pass
    [entry] = entries(cache)
    assert synced == {file.name for file in entry.iterdir() if not file.is_symlink()}
    assert "entry.json" in synced


def test_the_longest_unused_go_first_and_none_in_use(tmp_path: Path) -> None:
    """Over the limit the least recently used contexts are removed."""
    cache = ContextCache(FolderCache(tmp_path / "cache" / "contexts", 70_000), least_bytes=100)
    sources = []
    for number in range(4):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"{number}" * 30_000)
        settle(path)
        sources.append(path)
    with loaded_by(cache, sources[0]) as (in_use, _):
        for path in sources[1:]:
            with loaded_by(cache, path):
                time.sleep(0.01)
        assert len(entries(cache)) == 2
        assert text_of(in_use) == "0" * 30_000
    with loaded_by(cache, sources[3]) as (_, found):
        assert found
    with loaded_by(cache, sources[1]) as (_, found):
        assert not found


@pytest.mark.parametrize("kind", ["text", "stream", "small", "fresh"])
def test_what_is_not_to_be_kept(tmp_path: Path, kind: str) -> None:
    cache = ContextCache(FolderCache(tmp_path / "cache"), least_bytes=100)
    path = tmp_path / "a.txt"
    path.write_text("x" * (10 if kind == "small" else 1_000))
    if kind != "fresh":
        settle(path)
    with path.open("rb") as file:
        source = {"text": "y" * 1_000, "stream": StreamSource("stdin", file)}.get(kind, PathSource(path))
        loaded = load([source], tmp_path / "c", cache=cache)
    assert loaded.lease is None
    assert not cache.folders.top.exists()


@pytest.mark.parametrize("trouble", ["a file in the way", "a link"])
def test_a_cache_that_cannot_be_used_is_done_without(tmp_path: Path, source: Path, trouble: str) -> None:
    cache = ContextCache(FolderCache(tmp_path / "cache"), least_bytes=100)
    if trouble == "a link":
        (tmp_path / "elsewhere").mkdir()
        cache.folders.top.symlink_to(tmp_path / "elsewhere")
    else:
        cache.folders.top.write_text("")
    loaded = load([source], tmp_path / "c", cache=cache)
    assert text_of(loaded) == source.read_text()
    assert loaded.context.folder == tmp_path / "c"


def test_two_processes_at_once_both_have_their_context(
    cache: ContextCache, source: Path, tmp_path: Path
) -> None:
    """Two processes each read the whole text, and leave one entry and no unfinished folder."""
    source.write_text("some words 世界 🙂\n" * 100_000)
    settle(source)
    code = textwrap.dedent(
        """
        import sys, pathlib
        from rlm.documents import ContextCache, FolderCache, load
        top = pathlib.Path(sys.argv[1])
        cache = ContextCache(FolderCache(top / "cache" / "contexts"), least_bytes=100)
        for turn in range(3):
            loaded = load([top / "big.txt"], top / f"{sys.argv[2]}-{turn}", cache=cache)
            with loaded.context.open() as body:
                assert body.text(0, body.chars) == (top / "big.txt").read_text()
            loaded.lease.close()
        """
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)]) for n in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    [entry] = entries(cache)
    assert not entry.name.startswith("part-")


def test_a_new_folder_that_another_process_sweeps_is_made_again(
    cache: ContextCache, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may take a new folder for an unfinished one, before its writer has locked it."""
    make, made = tempfile.mkdtemp, []

    def swept_at_once(**kwargs: Any) -> str:
        made.append(make(**kwargs))
        if len(made) == 1:
            shutil.rmtree(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    loaded = load([source], tmp_path / "c", cache=cache)
    assert loaded.lease is not None
    assert len(made) == 2
    assert text_of(loaded) == source.read_text()


def test_what_a_killed_process_left_half_made_is_removed(
    cache: ContextCache, source: Path, tmp_path: Path
) -> None:
    """A kill -9 during a write leaves no entry, and the next run removes its folder."""
    code = textwrap.dedent(
        """
        import sys, pathlib, time
        from rlm.documents import ContextCache, FolderCache, load
        top = pathlib.Path(sys.argv[1])
        def slow(name, size):
            if size:
                print("under way", flush=True)
                time.sleep(60)
        cache = ContextCache(FolderCache(top / "cache" / "contexts"), least_bytes=100)
        load([top / "big.txt"], top / "c", slow, cache)
        """
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"under way\n"
        [part] = entries(cache)
        assert part.name.startswith("part-")
        with loaded_by(cache, source) as (_, found):
            assert not found
        assert part.exists()  # its process is alive
        process.send_signal(signal.SIGKILL)
    other = source.with_name("other.txt")
    other.write_text("x" * 1_000)
    settle(other)
    with loaded_by(cache, other):
        pass
    assert not any(path.name.startswith("part-") for path in entries(cache))


async def test_a_workspace_gives_its_context_back_at_its_end(cache: ContextCache, source: Path) -> None:
    with Workspace() as workspace:
        loaded = await workspace.load([source], cache=cache)
        assert loaded.context.folder.parent == cache.folders.top
        assert not cache.folders.remove(loaded.context.folder)  # it is in use
    assert cache.folders.remove(loaded.context.folder)


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_keeps_large_inputs_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    path = tmp_path / "big.txt"
    path.write_text("The key is under the mat.\n" + "other words\n" * 400_000)
    settle(path)
    settings = Settings(store=tmp_path / "rlm.db", sandbox=0, document_cache=kept)
    result = RLM("extractive", settings=settings).run_sync("Where is the key?", path)
    assert result.answer is not None
    assert (tmp_path / "xdg" / "rlm" / "contexts").exists() is kept


def test_an_extra_that_was_installed_since_is_used(tmp_path: Path, cache: ContextCache, monkeypatch) -> None:
    """More of the same files may then be read."""
    (tmp_path / "a.txt").write_text("some words\n" * 100)
    settle(tmp_path / "a.txt")
    sources = [PathSource(tmp_path / "a.txt")]
    before = cache.key(sources, lambda: None)
    assert before == cache.key(sources, lambda: None)
    for name in ("rapidocr", "onnxruntime"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    assert cache.key(sources, lambda: None) != before
