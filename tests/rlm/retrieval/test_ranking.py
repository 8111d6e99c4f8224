"""rank() in a cell: served by the driver, bounded, cancellable. Its packs are slices and evidence."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import pytest

from rlm import Settings
from rlm.documents import FolderCache
from rlm.errors import UsageError
from rlm.events import Loading
from rlm.retrieval import retriever
from rlm.retrieval.ranking import Ranking
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.testing import ScriptedModel

TEXT = (
    "# Birds\n\nThe heron fishes at dawn.\n\n"
    + "Nothing of note was seen on that walk.\n\n" * 60
    + "# Cats\n\nA cat fished once, badly. It was a cat of the harbour.\n"
)


async def test_a_pack_is_a_slice_and_evidence(run, block) -> None:
    """Packs by BM25 with span, score, heading path (none in a plain text), document, text."""
    code = (
        "packs = rank('fishing cats', k=2)\n"
        "answer = sub_query('read', packs[0])\n"
        "first = packs[0]\n"
        "assert peek(first.start, first.end) == first.text\n"
        "finalize([answer, first.heading_path, first.document, first.index, first.score > packs[1].score],"
        " evidence=packs[:1])"
    )
    model = ScriptedModel.of(root=[block(code)], child=["seen"])
    result = await run(model, TEXT)
    assert result.answer == ["seen", [], "text", 0, True]
    (citation,) = result.citations
    assert "A cat fished once" in citation.quote
    assert citation.verified
    child = next(request for request in model.requests if request.role == "child")
    assert "A cat fished once" in child.slices[0].text


async def test_ranked_text_counts_as_scanned_not_as_read(run, block) -> None:
    """Ranked text counts as searched."""
    result = await run(ScriptedModel.of(root=[block("packs = rank('heron'); finalize(1)")]), TEXT)
    assert result.coverage.scanned_chars == result.coverage.input_chars
    assert result.coverage.read_chars == 0


async def test_an_index_is_kept_for_later_runs_unless_the_cache_is_off(run, block, monkeypatch) -> None:
    """Built once per content, in the user's cache folder."""
    monkeypatch.setattr(retriever, "_IN_MEMORY", 0)
    root = [block("packs = rank('heron'); finalize(1)")]
    folder = FolderCache.of_user("index", os.environ).top
    off = Settings(strategy="rlm", document_cache=False)
    assert (await run(ScriptedModel.of(root=root), TEXT, settings=off)).answer == 1
    assert not folder.exists()
    assert (await run(ScriptedModel.of(root=root), TEXT)).answer == 1
    kept = [(one.name, one.stat().st_ino) for one in folder.iterdir()]
    assert len(kept) == 1
    assert (await run(ScriptedModel.of(root=root), TEXT)).answer == 1
    assert [(one.name, one.stat().st_ino) for one in folder.iterdir()] == kept


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("rank('')", "TypeError: query must be a non-empty str"),
        ("rank(7)", "TypeError: query must be a non-empty str"),
        ("rank('x', k=0)", "ValueError: k is 0"),
        ("rank('x', k=5_000)", "rank() takes k from 1 to 1,000"),
        ("rank('x' * 5_000)", "Give its key words"),
    ],
)
async def test_a_bad_call_says_what_to_do(run, block, call, said) -> None:
    code = (
        f"try:\n    {call}\nexcept Exception as error:\n    peek(0, 1)\n"
        "    finalize(f'{type(error).__name__}: {error}')"
    )
    result = await run(ScriptedModel.of(root=[block(code)]), TEXT)
    assert said in result.answer


async def test_no_match_is_an_empty_list(run, block) -> None:
    result = await run(ScriptedModel.of(root=[block("finalize(len(rank('zeppelin')))")]), TEXT)
    assert result.answer == 0


@pytest.fixture
def large(tmp_path):
    """Return a body of 12 MB: its indexing reports progress and can be stopped."""
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("large.txt")
        for number in range(120_000):
            writer.write(
                f"Line {number} of a text about rivers, bridges and the towns along them, n{number}n.\n"
            )
        context = writer.finish()
    with context.open() as body:
        yield body


async def test_building_is_reported_and_done_once(large, tmp_path) -> None:
    """The index is built on first use, with progress."""
    told: list[Loading] = []
    cache = FolderCache(tmp_path / "index")
    for _ in range(2):
        ranking = Ranking(large, told.append, [cache])
        (pack,) = await ranking.packs("n777n", limit=1)
        assert "n777n" in pack.text
        await ranking.packs("n778n", limit=1)
        await ranking.aclose()
        assert [event.done for event in told] == sorted({event.done for event in told})
        assert told[-1] == Loading("", large.chars, large.chars)
        count = len(told)
    assert len(told) == count


async def test_a_cancelled_building_leaves_nothing_and_may_be_asked_again(large, tmp_path) -> None:
    """Building can be interrupted."""
    cache = FolderCache(tmp_path / "index")
    begun = asyncio.Event()
    ranking = Ranking(large, lambda _: begun.set(), [cache])
    task = asyncio.create_task(ranking.packs("rivers", limit=1))
    await begun.wait()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 5
    assert list(cache.top.iterdir()) == []
    assert await ranking.packs("n5n", limit=1)
    await ranking.aclose()
    gc.collect()


async def test_an_unusable_cache_folder_is_skipped(large, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    own = FolderCache(tmp_path / "own")
    ranking = Ranking(large, lambda _: None, [FolderCache(tmp_path / "file" / "index"), own])
    assert await ranking.packs("n5n", limit=1)
    assert len(list(own.top.iterdir())) == 1
    await ranking.aclose()


async def test_a_failure_of_the_index_is_an_error_not_a_crash(large, tmp_path) -> None:
    ranking = Ranking(large, lambda _: None, [FolderCache(tmp_path / "index")])
    with pytest.raises(UsageError, match="limit is 0"):
        await ranking.packs("x", limit=0)
    assert await ranking.packs("n5n", limit=1)
    await ranking.aclose()
