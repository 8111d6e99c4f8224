"""Measure writing a handle of about 50 MB, and reading it: peek, search, count, lines and chunks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body

MEGABYTES = 50
_WORDS = [
    "alpha",
    "beta",
    "gamma",
    "the",
    "of",
    "model",
    "kernel",
    "price",
    "naïve",
    "café",
    "“quoted”",
    "世界",
    "人工智能",
    "слово",
    "🙂",
]


def generated(megabytes: int, *, ascii_only: bool) -> Iterator[bytes]:
    """Yield the blocks of a text of this size, which is always the same. NEEDLE_XYZ occurs once, at its
    end."""
    chooser = random.Random(1)
    words = [word for word in _WORDS if word.isascii() or not ascii_only]
    lines = (
        f"id={chooser.randint(0, 10**9)} {' '.join(chooser.choices(words, k=chooser.randint(3, 20)))}\n"
        for _ in range(20_000)
    )
    block = ("# Part\n\n" + "".join(lines)).encode()
    for _ in range((megabytes << 20) // len(block)):
        yield block
    yield b"NEEDLE_XYZ is here\n"


def written(folder: Path, blocks: list[bytes]) -> Body:
    with ContextFileWriter(folder) as writer:
        writer.begin_document("generated.md", "markdown")
        for block in blocks:
            writer.write(block)
        return writer.finish().open()


@pytest.fixture(scope="module", params=["ascii", "mixed"])
def handle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handle]:
    blocks = list(generated(MEGABYTES, ascii_only=request.param == "ascii"))
    with written(tmp_path_factory.mktemp("context") / "c", blocks) as body:
        yield Handle(body)


@pytest.mark.parametrize("text", ["ascii", "mixed"])
def test_write(benchmark, tmp_path: Path, text: str) -> None:
    blocks = list(generated(MEGABYTES, ascii_only=text == "ascii"))
    folders = (tmp_path / str(number) for number in range(100))
    benchmark.pedantic(lambda: written(next(folders), blocks).close(), rounds=3)


@pytest.mark.parametrize(("unit", "size"), [("chars", 2000), ("lines", 20)])
def test_peek(benchmark, handle: Handle, unit: str, size: int) -> None:
    chooser = random.Random(2)
    meta = handle.context_meta()
    places = [chooser.randrange(meta[unit] - size) for _ in range(1000)]
    benchmark(lambda: handle.peek(place := chooser.choice(places), place + size, unit))


@pytest.mark.parametrize(
    "pattern",
    [
        "NEEDLE_XYZ",
        "(?i)needle_xyz",
        r"\bNEEDLE_XYZ\b",
        r"NEEDLE_\w+ is",
        r"id=\d{12}",
        r"[A-Z]{6}_XYZ",
        r"(?<=_)XYZ",
        r"nowhere\s+to be",
    ],
)
def test_search(benchmark, handle: Handle, pattern: str) -> None:
    benchmark.pedantic(lambda: len(handle.search(pattern)), rounds=3)


@pytest.mark.parametrize("pattern", ["kernel", r"\bkernel\b", r"id=\d+7 "])
def test_count(benchmark, handle: Handle, pattern: str) -> None:
    assert benchmark.pedantic(lambda: handle.count(pattern), rounds=2) > 1000


def test_read_lines(benchmark, handle: Handle) -> None:
    counted = benchmark.pedantic(lambda: sum(1 for _ in handle.read_lines()), rounds=2)
    assert counted == handle.context_meta().lines


@pytest.mark.parametrize("by", [None, "lines", "paragraphs", "headings", "documents"])
def test_chunk(benchmark, handle: Handle, by) -> None:
    benchmark.pedantic(lambda: len(handle.chunk(20_000, by=by)), rounds=3)


def test_chunk_texts(benchmark, handle: Handle) -> None:
    read = benchmark.pedantic(lambda: sum(len(chunk.text) for chunk in handle.chunk()), rounds=3)
    assert read == handle.context_meta().chars
