"""Test that a paid look is paid once: replayed and resumed runs find it by page, file and question."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from picture_files import scanned_pdf

from rlm import RLM, Settings
from rlm.journal import Journal
from rlm.models.base import ModelWindow
from rlm.replay import replay
from rlm.testing import ScriptedModel

SEES = ModelWindow(128_000, 8_000, sees=True)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return scanned_pdf(tmp_path / "scan.pdf", ["Total 93.20 EUR"], ["Page two"])


@pytest.fixture
def settings(run) -> Settings:
    return Settings(strategy="rlm", sandbox=run.level, store=run.store)


async def test_a_run_is_replayed_without_its_pictures(run, block, scan, settings) -> None:
    """The journal keeps page, hash and reply, no pictures: the file may be gone."""
    model = ScriptedModel.of(
        root=[
            block(
                "saw = look([documents()[0].page(1), documents()[0].page(2)], 'What?')\n"
                "finalize([str(one) for one in saw], evidence=saw)"
            )
        ],
        child=lambda request: f"read from {request.slices[0].span}",
        window=SEES,
    )
    result = await run(model, scan)
    async with Journal.open(run.store) as journal:
        events = [event.data for event in await journal.events(result.run_id) if event.kind == "child"]
    pages = sorted(data["pages"][0] for data in events)
    assert [page[:2] for page in pages] == [["scan.pdf", 1], ["scan.pdf", 2]]
    assert len(pages[0][2]) == 64
    assert all("PNG" not in str(data) for data in events)
    scan.unlink()
    again = await replay(result.run_id, store=run.store, settings=settings)
    assert again.equal
    assert again.result.citations == result.citations
    assert again.result.coverage.pages_looked == 2


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_resumed_run_pays_no_look_twice(run, block, scan, settings, is_there) -> None:
    """The first page is in the journal. The second is looked at now, or names the remedy."""
    reached = asyncio.Event()

    async def stop(request):
        reached.set()
        await asyncio.sleep(60)

    code = (
        "d = documents()[0]\nfirst = look(d.page(1), 'What?')",
        "saw = look([d.page(1), d.page(2)], 'What?')\n"
        "finalize([saw[0], saw[1].ok, saw[1].error], evidence=saw[:1])",
    )
    model = ScriptedModel.of(root=[block(code[0]), stop], child="first", window=SEES)
    rlm = RLM(model, settings=settings)
    running = asyncio.ensure_future(rlm.run("How many?", scan, run_id="left"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    if not is_there:
        scan.unlink()
    second = ScriptedModel.of(root=[block(code[1])], child="second", window=SEES)
    result = await RLM(second, settings=settings).resume("left")
    first, ok, error = result.answer
    assert first == "first"
    assert ok is is_there
    assert is_there or "resume with the files in place" in error
    assert len([one for one in second.requests if one.role == "child"]) == int(is_there)
