"""Test that a process that reads through a large body keeps few of its pages, in any direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import BODY_NAME, Body

_MB = 1 << 20
_SIZE = 80 * _MB
_LINE = "The quick brown fox 世界 jumps over the lazy dog, 7 times, and again. " * 20 + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "context"
    block = _LINE.encode() * (_MB // len(_LINE.encode()))
    with ContextFileWriter(folder) as writer:
        writer.begin_document("a.txt", "text")
        for _ in range(_SIZE // len(block)):
            writer.write(block)
        writer.write("The slow fox\n" * 6)
        writer.finish()
    return folder


@pytest.fixture
def body(folder: Path) -> Iterator[Body]:
    with Body.open(folder) as body:
        yield body


def _resident(folder: Path) -> int:
    """Return the bytes of the body that this process has mapped and present."""
    ours = False
    found = 0
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        if "-" in line.split(" ", 1)[0]:
            ours = line.endswith(str(folder / BODY_NAME))
        elif ours and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def _read_all_chunks(handle: Handle) -> int:
    return sum(len(piece.text) for piece in handle.chunk(max_chars=20_000))


def _read_all_lines(handle: Handle) -> int:
    return sum(1 for _ in handle.read_lines())


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of mapped pages")
@pytest.mark.parametrize(
    "go",
    [
        _read_all_chunks,
        _read_all_lines,
        lambda handle: handle.search("zzzz"),
        lambda handle: handle.search("(?i)zzzz"),
        lambda handle: handle.search("no such notation"),
        lambda handle: handle.search(r"[A-Z]{9}\d+"),
        lambda handle: handle.search(r"\bfox\d+\b"),
        lambda handle: handle.search(r"(?<!quick )brown"),
        lambda handle: handle.search(r"(?s)again(?!\. ).*end"),
        lambda handle: handle.search(r"^The(?= slow)[^\n]{0,5000}\nThe", max_hits=1),
        lambda handle: handle.count("the"),
        lambda handle: handle.count("(?i)the"),
    ],
    ids=[
        "chunks",
        "lines",
        "literal",
        "any-case",
        "common",
        "regex",
        "words",
        "look-around",
        "far",
        "lines apart",
        "count",
        "count-any-case",
    ],
)
def test_going_through_a_body_keeps_few_of_its_pages(
    body: Body, folder: Path, go: Callable[[Handle], object]
) -> None:
    go(Handle(body))
    assert _resident(folder) < 40 * _MB


def test_pages_let_go_of_come_back_as_they_were(body: Body) -> None:
    places = range(0, body.chars, 1_000_003)
    before = [body.text(at, at + 100) for at in places]
    _read_all_chunks(Handle(body))
    body.passed(_SIZE)
    assert [body.text(at, at + 100) for at in places] == before


def test_a_window_lets_go_of_the_pages_it_shares(body: Body, folder: Path) -> None:
    with body.window(1_000, body.chars - 1_000) as window:
        _read_all_chunks(Handle(window))
        assert _resident(folder) < 40 * _MB


def test_a_short_body_can_be_passed_any_number_of_times(tmp_path: Path) -> None:
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("a.txt", "text")
        writer.write("short")
        writer.finish()
    with Body.open(tmp_path / "context") as body:
        for _ in range(1_000):
            body.passed(_MB)
        assert body.text(0, 5) == "short"
