"""Test the documents as files against plain Python: pathlib, and a text file that is opened."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.body.body import Span
from rlm.sandbox.in_kernel.file_view import open_document
from rlm.sandbox.in_kernel.file_view.globbing import matches

NAMES = ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt", "README.md", "src/[x].py", "data/.hidden.csv")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}\n")
    return root


@pytest.fixture
def handle(make_views):
    return make_views(*((name, "text", f"text of {name}\n") for name in NAMES))


PATTERNS = """
    * *.py **/*.py src/*.py src/**/*.py **/deep/* */*/*.txt **/[ab].py **/[!ab].py **/?.py **/*.md
    src/deep/c.py ./src/*.py **/* src/**/**/*.py **/[[]x].py none*
"""


@pytest.mark.parametrize("pattern", PATTERNS.split())
def test_glob_is_that_of_pathlib(handle, tree: Path, pattern: str) -> None:
    expected = {str(one.relative_to(tree)) for one in tree.glob(pattern) if one.is_file()}
    assert {str(one) for one in handle.files().glob(pattern)} == expected
    assert {str(one) for one in handle.files(pattern)} == expected


def test_rglob_is_that_of_pathlib(handle, tree: Path) -> None:
    for pattern in ("*.py", "deep/*", "README.md"):
        expected = {str(one.relative_to(tree)) for one in tree.rglob(pattern) if one.is_file()}
        assert {str(one) for one in handle.files().rglob(pattern)} == expected


def test_a_pattern_that_only_fits_below_says_so(handle, capsys) -> None:
    assert not handle.files("*.txt")
    assert capsys.readouterr().err == "glob('*.txt') fits no document on top, and 1 below: glob('**/*.txt')\n"


@given(st.text(alphabet="ab/.*[]?!-^\\", min_size=1, max_size=8), st.text(alphabet="ab/.", max_size=6))
def test_a_pattern_never_breaks(pattern: str, name: str) -> None:
    with suppress(ValueError):
        matches(pattern, name)


def test_a_file_is_like_a_path(handle) -> None:
    file = handle.files()["src/deep/c.py"]
    path = PurePosixPath("src/deep/c.py")
    for name in ("name", "stem", "suffix", "suffixes", "parent", "parts"):
        assert getattr(file, name) == getattr(path, name)
    assert (
        str(file),
        file == "src/deep/c.py",
        file == path,
        file.exists(),
        file.is_file(),
        file.is_dir(),
    ) == (
        "src/deep/c.py",
        True,
        True,
        True,
        True,
        False,
    )
    assert (file.size, file.stat().st_size, file.match("*.py"), str(file.relative_to("src"))) == (
        len("text of src/deep/c.py\n"),
        len("text of src/deep/c.py\n"),
        True,
        "deep/c.py",
    )
    assert [str(one) for one in sorted(handle.files("src/**/*.py"))] == sorted(
        ["src/b.py", "src/deep/c.py", "src/[x].py"]
    )
    assert "a.py" in handle.files()
    assert len({*handle.files(), *handle.files()}) == len(NAMES)
    assert repr(handle.files("a.py")) == "1 file\n  File('a.py', size=13)"
    with pytest.raises(KeyError, match=r"no documents are named 'x\.py'"):
        handle.files()["x.py"]


TEXTS = st.text(alphabet="aé世🙂\n\r\t ,", max_size=60)
STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "readline", "next", "seek", "iterate"]), st.integers(0, 40)),
    max_size=12,
)


@settings(max_examples=150)
@given(TEXTS, TEXTS, STEPS)
def test_reading_is_that_of_plain_python(
    make_views, before: str, text: str, steps: list[tuple[str, int]]
) -> None:
    """The model of an open document is `io.StringIO` with the line ends as they stand."""
    handle = make_views(("before", "text", before), ("it", "text", text))
    own, plain = handle.files()[1].open(), io.StringIO(text, newline="\n")
    start = handle.files()[1].start
    for step, size in steps:
        at = plain.tell()
        if step == "seek":
            place = min(size, len(text))
            assert own.seek(place) == plain.seek(place)
            continue
        if step == "iterate":
            assert list(islice(own, size)) == list(islice(plain, size))
            assert own.tell() == plain.tell()
            continue
        if step == "next":
            ours, theirs = next(own, ""), next(plain, "")
        else:
            ours, theirs = getattr(own, step)(size), getattr(plain, step)(size)
        assert ours == theirs
        assert own.tell() == plain.tell()
        if ours:
            assert ours.span == Span(start + at, start + at + len(ours))
    assert list(own) == list(plain)
    assert own.read() == ""


@settings(max_examples=50)
@given(TEXTS)
def test_whole_files(make_views, text: str) -> None:
    handle = make_views(("it", "text", text))
    file = handle.files()[0]
    assert file.read_text() == text
    assert file.read_bytes() == text.encode()
    assert list(file) == list(io.StringIO(text, newline="\n"))
    with file.open(encoding="utf-8") as lines:
        assert lines.readlines() == list(io.StringIO(text, newline="\n"))
    with pytest.raises(ValueError, match="closed file"):
        lines.read()
    with pytest.raises(ValueError, match="closed file"):
        next(iter(lines))


def test_the_standard_library_reads_it(make_views) -> None:
    handle = make_views(("t.csv", "csv", 'a,b\r\n1,"x\r\ny"\r\n'), ("t.json", "json", '{"a": [1, 2]}'))
    table, data = handle.files()
    assert list(csv.DictReader(table.open(newline=""))) == [{"a": "1", "b": "x\r\ny"}]
    assert json.load(data.open()) == {"a": [1, 2]}


@pytest.mark.parametrize("mode", ["w", "a", "rb", "r+", "x"])
def test_it_is_text_and_read_only(handle, mode: str) -> None:
    with pytest.raises(ValueError, match="documents can only be read, as text"):
        handle.files()[0].open(mode)
    with pytest.raises(io.UnsupportedOperation):
        handle.files()[0].open().write("x")


def test_coverage_counts_what_was_read(make_views) -> None:
    handle = make_views(("a", "text", "one\ntwo\n"), ("b", "text", "three\nfour\n"))
    first, second = handle.files()
    assert handle.drain_access() == ((), ())
    assert next(iter(first)) == "one\n"
    assert second.open().read(2) == "th"
    assert handle.drain_access() == ((Span(0, 4), Span(8, 10)), ())
    first.read_text()
    assert handle.drain_access()[0] == (Span(0, 8),)


def test_a_file_is_a_place(make_views) -> None:
    handle = make_views(("a", "text", "one\ntwo\n"), ("b", "text", "one\n"))
    file = handle.files()[1]
    assert handle.count("one", within=file) == 1
    assert handle.peek(file) == "one\n"
    assert [line.number for line in handle.read_lines(within=file)] == [2]


def test_a_large_read_is_refused_with_the_better_way(make_views, monkeypatch) -> None:
    handle = make_views(("a.log", "text", "x" * 50 + "\n" + "y" * 100))
    file = handle.files()[0]
    for module in (open_document, __import__(type(file).__module__, fromlist=["x"])):
        monkeypatch.setattr(module, "MAX_TEXT", 100)
    message = (
        r"a.log has 151 characters to read, and up to .*: iterate over its lines \(for line in f.open\(\)\)"
    )
    reads: list[Any] = [file.read_text, file.read_bytes, file.open().read, file.open().readlines]
    for read in reads:
        with pytest.raises(ValueError, match=message):
            read()
    assert len(file.open().read(100)) == 100
    assert [len(line) for line in file.open()] == [51, 100]


async def test_files_in_a_kernel(open_kernel, handler) -> None:
    kernel = await open_kernel()
    code = (
        "f = files()[0]\nsub_query('q', f); sub_query_batch('q', files())\n"
        "line = [line for line in f.open() if 'tw' in line]\n"
        "open('text')"
    )
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.ename == "FileNotFoundError"
    assert [batch.slices[0].pieces for batch in handler.batches] == [(Span(0, 14),), (Span(0, 14),)]
    await kernel.execute("finalize('x', evidence=[line, f])", round=2, timeout=20)
    assert handler.finals[0].evidence == (Span(4, 8), Span(0, 14))
