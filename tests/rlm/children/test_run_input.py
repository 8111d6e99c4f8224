"""Test how the source of a sub-RLM is copied, and that the copies stay small."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlm.accounting.coverage import CoverageLedger
from rlm.children.run_input import MappedSpan, ParentCoverage, RunInput
from rlm.errors import UsageError
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.types import ChildSlice, Span
from rlm.testing import ScriptedModel

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def input_of(text: str, folder: Path) -> Iterator[RunInput]:
    with ContextFileWriter(folder) as writer:
        writer.begin_document("a.txt")
        writer.write(text)
        context = writer.finish()
    with context.open() as body:
        yield RunInput(context, body)


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[RunInput]:
    yield from input_of(LETTERS, tmp_path / "letters")


@pytest.fixture
def large(tmp_path: Path) -> Iterator[RunInput]:
    yield from input_of("The grass is green.\n" * 1_000_000, tmp_path / "large")


def source(*pieces: tuple[int, int] | str) -> ChildSlice:
    return ChildSlice(tuple(piece if isinstance(piece, str) else Span(*piece) for piece in pieces))


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([(0, 3), (5, 7)], "abc\nfg"),
        ([(5, 7), (0, 3)], "fg\nabc"),
        ([(0, 5), (3, 8)], "abcde\nfgh"),
        ([(3, 5), (0, 8)], "de\nabc\nfgh"),
        ([(0, 2), "x", "x", (0, 2)], "ab\nx"),
    ],
)
async def test_what_a_source_holds_twice_is_copied_once(letters, tmp_path, pieces, text) -> None:
    """The copy is removed afterwards."""
    async with letters.part(source(*pieces), tmp_path / "sub") as part:
        assert part.body.text(0, part.body.chars) == text
    assert not (tmp_path / "sub").exists()


async def test_spans_that_are_one_are_not_copied(letters, tmp_path) -> None:
    async with letters.part(source((1, 4), (1, 4), (2, 3)), tmp_path / "sub") as part:
        assert part.body.text(0, 9) == "bcd"
        assert not (tmp_path / "sub").exists()


async def test_a_copy_that_is_too_long_is_refused(large, tmp_path) -> None:
    pieces = source((0, 8_000_000), (8_000_010, 17_000_000))
    refused = r"16,999,990 characters are more than the 16,000,000 that may be\. Give one span"
    with pytest.raises(UsageError, match=refused):
        async with large.part(pieces, tmp_path / "sub"):
            pass
    assert not (tmp_path / "sub").exists()


async def test_the_copying_of_a_cancelled_sub_rlm_ends(large, tmp_path) -> None:
    async def copy() -> None:
        async with large.part(source((0, 9), (10, 16_000_000)), tmp_path / "sub"):
            await asyncio.Event().wait()

    copying = asyncio.ensure_future(copy())
    while not (tmp_path / "sub").exists():
        await asyncio.sleep(0.001)
    copying.cancel()
    await asyncio.gather(copying, return_exceptions=True)
    assert not (tmp_path / "sub").exists()


async def test_the_same_span_three_hundred_times_takes_no_disk(run, block) -> None:
    """One sub-RLM filled the disk with 2.5 GB: each span was written anew."""
    model = ScriptedModel.of(
        root=lambda request: block(
            "finalize(str(sub_rlm('inner', [(0, 1_900_000)] * 300)))"
            if request.task == "top"
            else "finalize(str(context_meta().chars))"
        )
    )
    result = await run(model, "The sky is blue.\n" * 120_000, task="top")
    assert (result.answer, result.sub_calls) == ("1900000", 1)


def test_spans_of_many_pieces_are_mapped_at_once(letters) -> None:
    """A cell may report 12,500 spans over a source of 10,000 pieces. The event loop waits meanwhile."""
    stretches = tuple(MappedSpan(10 * n, 1_000_000 - 20 * n, 10) for n in range(10_000))
    pieces = replace(letters, stretches=stretches)
    assert list(pieces.above([Span(5, 25), Span(99_999, 200_000)])) == [
        Span(1_000_005, 1_000_010),
        Span(999_980, 999_990),
        Span(999_960, 999_965),
        Span(800_029, 800_030),
    ]
    ledger = CoverageLedger(2_000_000)
    began = time.process_time()
    ParentCoverage(ledger, pieces).note("answered", [Span(8 * n, 8 * n + 8) for n in range(12_500)])
    ParentCoverage(ledger, pieces).note("answered", [Span(0, 100_000 - n) for n in range(12_500)])
    assert time.process_time() - began < 5
    assert ledger.answered_chars == 100_000
