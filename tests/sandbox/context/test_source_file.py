"""Test that a file which is read in place is never read as other text than was indexed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rlm.sandbox.context.source_file import SourceFacts, SourceFile
from rlm.sandbox.errors import SourceChanged

TEXT = b"".join(b"line %d\n" % number for number in range(200_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def file(path: Path) -> SourceFile:
    with path.open("rb") as stream:
        facts = SourceFacts.of(str(path), stream.fileno())
        again = SourceFacts.from_json(facts.to_json())
        assert again == facts
        return SourceFile(stream.fileno(), again, hashlib.sha256(TEXT).hexdigest())


def rewrite(path: Path) -> None:
    """Change one byte, which no sample holds, and set the time back."""
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(100_000)
        stream.write(b"#")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more\n")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"x" * len(TEXT))
    other.rename(path)


def test_it_reads_the_indexed_bytes(file: SourceFile) -> None:
    assert file.read(0, len(TEXT)) == TEXT
    assert file.read(5, 70_000) == TEXT[5:70_000]
    assert file.read(10, 10) == b""


@pytest.mark.parametrize(
    "change", [rewrite, lambda path: os.truncate(path, 1_000), lambda path: path.write_bytes(b"")]
)
def test_other_text_is_an_error_at_the_next_read(
    file: SourceFile, path: Path, change: Callable[[Path], None]
) -> None:
    """In the same place or not, and for ever after."""
    change(path)
    for read in (lambda: file.read(0, 10), file.check, lambda: file.read(5, 6)):
        with pytest.raises(SourceChanged, match=str(path)):
            read()


@pytest.mark.parametrize(
    "change", [append, replace, Path.unlink, lambda path: path.chmod(0o644), lambda path: path.touch()]
)
def test_the_same_text_is_read_on(file: SourceFile, path: Path, change: Callable[[Path], None]) -> None:
    """A file that grows, is replaced by another, removed or touched: the open file still is what was
    indexed."""
    assert not file.has_grown_or_moved
    change(path)
    assert file.read(0, len(TEXT)) == TEXT
    file.check()
    assert file.has_grown_or_moved


def test_a_change_that_the_system_does_not_report_is_found_in_the_samples(path: Path) -> None:
    """The facts are those of the changed file: only its text differs."""
    with path.open("rb") as stream:
        facts = SourceFacts.of(str(path), stream.fileno())
        path.write_bytes(b"X" * len(TEXT))
        other = SourceFacts(str(path), *SourceFacts.of(str(path), stream.fileno()).stamp, facts.samples)
        with pytest.raises(SourceChanged):
            SourceFile(stream.fileno(), other, hashlib.sha256(TEXT).hexdigest())


def test_another_file_of_the_same_name_is_not_opened(file: SourceFile, path: Path) -> None:
    with path.open("rb") as stream:
        facts = SourceFacts.of(str(path), stream.fileno())
    replace(path)
    with path.open("rb") as stream, pytest.raises(SourceChanged, match="was replaced"):
        SourceFile(stream.fileno(), facts, hashlib.sha256(TEXT).hexdigest())


def test_no_descriptor_is_left(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with path.open("rb") as stream:
        facts = SourceFacts.of(str(path), stream.fileno())
        for _ in range(20):
            SourceFile(stream.fileno(), facts, hashlib.sha256(TEXT).hexdigest())
    assert len(os.listdir("/proc/self/fd")) <= before
