"""Test what a page is told of a run."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.journal.events import RunSummary
from rlm.results import RunTotals
from rlm.viewer import NoSuchView, RunViews, export_page, page_json
from rlm.viewer.answer_view import answer_pieces, result_of
from rlm.viewer.source_text import SourceTexts


async def test_the_pieces_of_a_real_run(yard_views, yards) -> None:
    """The overview has the answer with its marks and claims; the events have what happened, and not the
    texts of the prompts, which the whole event has."""
    shown = await yard_views.get(yards.newest, "overview")
    result = shown["result"]
    assert (shown["run"]["status"], shown["run"]["sub_calls"]) == ("answered", 17)
    text = "".join(piece["text"] for piece in result["pieces"])
    assert "of 160 t [¹]." in text
    assert [piece["cites"] for piece in result["pieces"] if piece["cites"]] == [[1], [2], [3], [4]]
    assert [claim["status"] for claim in result["claims"]] == ["supported"] * 3 + ["unsupported"]
    assert [one["verdict"] for one in result["citations"]] == ["supported"] * 3 + ["unsupported"]
    assert len(shown["text"]["documents"]) == 6
    page = await yard_views.get(yards.newest, "events/0")
    assert [event["seq"] for event in page["events"]] == list(range(1, len(page["events"]) + 1))
    assert page["next"] is None
    root = next(event for event in page["events"] if event["kind"] == "model_call")
    assert root["data"]["sections"][0]["section"] == "system"
    child = next(event for event in page["events"] if event["kind"] == "child" and event["data"].get("reply"))
    assert not {"messages", "report"} & {*root["data"], *child["data"]}
    whole = await yard_views.get(yards.newest, f"event/{child['seq']}")
    assert whole["messages"][-1]["role"] == "user"
    assert "[characters " in whole["messages"][-1]["text"]


async def test_a_citation_is_shown_in_its_place(yard_views, yards) -> None:
    shown = await yard_views.get(yards.newest, "place/2")
    assert shown["document"] == "contracts/harbour-yard.md"
    assert shown["text"] == "The rent of the crane is 21,400 euros a month"
    assert shown["before"].startswith("# Contract of the Harbour yard\n")
    assert shown["line"] == 1
    assert shown["is_start"]
    assert not shown["is_end"]


@pytest.mark.parametrize(
    "path",
    ["", "events", "events/-1", "events/0/0", "event/0", "event/999999", "place/0", "place/99", "span/5-1",
     "span/999999999-9999999999", "overview/", "../overview", "event/１", "span/0-1/../..", "events/0\n"],
)  # fmt: skip
async def test_what_is_not_there_is_refused(yard_views, yards, path: str) -> None:
    with pytest.raises(NoSuchView):
        await yard_views.get(yards.newest, path)


async def test_an_unknown_run(yard_views) -> None:
    with pytest.raises(JournalError):
        await yard_views.get("20200101-000000-aaaaaa", "overview")


async def test_the_list_has_the_newest_first(yard_views, yards) -> None:
    assert [run["run_id"] for run in await yard_views.runs()] == list(yards.runs)


async def test_ten_thousand_children_come_in_pages(views, write_children) -> None:
    await write_children("r1", 10_000)
    assert len(page_json(await views.get("r1", "overview"))) < 5_000
    pages, after = 0, 0
    while after is not None:
        page = await views.get("r1", f"events/{after}")
        assert len(page_json(page)) < 1_000_000
        pages, after = pages + 1, page["next"]
    assert pages == 11


async def test_a_growing_run_is_followed(journal, views, child_event) -> None:
    """Each change is reported, and only what is new is read."""
    seen: list[tuple[int, str]] = []

    async def watch() -> None:
        async for change in views.follow("r1"):
            seen.append((change["version"], change["state"]))

    async with journal.run("r1", "How many?", {"context_chars": 1_000}) as log:
        watching = asyncio.create_task(watch())
        while not seen:
            await asyncio.sleep(0.01)
        assert seen == [(1, "running")]
        await log.append("child", child_event(1))
        while len(seen) < 2:
            await asyncio.sleep(0.05)
        assert (await views.get("r1", "overview"))["run"]["sub_calls"] == 1
    await asyncio.wait_for(watching, 5)
    assert seen == [(1, "running"), (2, "running"), (2, "interrupted")]


async def test_a_damaged_run_is_told_and_the_list_shows_the_others(journal, views) -> None:
    for name, answer in (("whole", "yes"), ("damaged", "no")):
        async with journal.run(name, "How many?", {}) as log:
            await log.append("finished", {"stop_reason": "finalized", "answer": answer})

    def damage(transaction):
        transaction.execute("UPDATE events SET data = '[1' WHERE run_id = 'damaged'")

    await journal._store.write(damage)
    with pytest.raises(JournalError, match="rlm runs rm damaged"):
        await views.get("damaged", "overview")
    listed = {run["run_id"]: run["answer"] for run in await views.runs()}
    assert listed == {"whole": "yes", "damaged": ""}


async def test_a_huge_event_is_cut(journal, views) -> None:
    async with journal.run("r1", "q", {}) as log:
        await log.append(
            "cell", {"round": 1, "code": "x" * 3_000_000, "result": {"report": {}, "stdout": "y" * 3_000_000}}
        )
        await log.append("planned", {"questions": ["z" * 100_000] * 300})
    assert len(page_json(await views.get("r1", "events/0"))) < 100_000
    for seq in (2, 3):
        detail = page_json(await views.get("r1", f"event/{seq}"))
        assert len(detail) < 1_300_000
    assert b"more characters" in detail


async def test_hostile_text_is_neutral_in_the_body_of_a_reply(journal, views) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u202e\u2028\x1b[31m\ud800 & <!--"
    async with journal.run("r1", evil, {"model": evil}) as log:
        await log.append("cell", {"round": 1, "code": evil, "result": {"report": {}, "stdout": evil}})
    for path in ("overview", "events/0", "event/2"):
        body = page_json(await views.get("r1", path))
        assert not re.search(rb"[<>&\x00-\x1f\x7f-\xff]", body)
        assert not re.search(r"[\u202e\u2028\x1b\ud800]", str(json.loads(body)))


async def test_without_its_text_a_run_shows_its_quotes(journal, views) -> None:
    place = {"start": 0, "end": 3, "document": "a", "page": None, "line": 1}
    citation = {"marker": "[¹]", "quote": "one", "verified": True, **place}
    async with journal.run("r1", "q", {"context_chars": 10}) as log:
        await log.append(
            "finished", {"stop_reason": "finalized", "citations": [citation, {**citation, "start": None}]}
        )
    assert (await views.get("r1", "overview"))["text"] is None
    assert "not in the journal" in (await views.get("r1", "place/1"))["missing"]
    assert "not found" in (await views.get("r1", "place/2"))["missing"]


async def test_a_foreign_journal_deletes_nothing(yards, tmp_path) -> None:
    """The row of a run may name any path as its input."""
    store = tmp_path / "foreign.db"
    shutil.copy(yards.store, store)
    home = tmp_path / "planted"
    home.mkdir()
    (home / "thesis.txt").write_text("precious")
    for name in (str(home), f"../{home.name}", "", "A" * 64):
        with closing(sqlite3.connect(store)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("UPDATE runs SET input = ?", (name,))
            connection.execute("UPDATE inputs SET input = ?", (name,))
            connection.commit()
        async with Journal.open(store) as journal, RunViews(journal) as views:
            with pytest.raises(JournalError, match="its input is unreadable"):
                await views.get(yards.newest, "overview")
            with pytest.raises(JournalError, match="its input is unreadable"):
                await export_page(views, yards.newest)
            # Whatever a journal says, the view itself opens no other name.
            summary = RunSummary("r", "t", "finished", None, 0.0, None, RunTotals(), {}, name)
            assert await SourceTexts(journal).body(summary) is None
        assert (home / "thesis.txt").read_text() == "precious"


async def test_the_folder_of_a_killed_view_is_swept(yards) -> None:
    code = (
        "import asyncio, sys\n"
        "from rlm.journal import Journal\n"
        "from rlm.viewer import RunViews\n"
        "async def main(store, run):\n"
        "    async with Journal.open(store) as journal, RunViews(journal) as views:\n"
        "        await views.get(run, 'overview')\n"
        "        print('open', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    top = Path(tempfile.gettempdir())
    before = set(top.glob("rlm-*"))
    with subprocess.Popen(
        [sys.executable, "-c", code, yards.store, yards.newest], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        left = {one for one in set(top.glob("rlm-*")) - before if f"-{process.pid}-" in one.name}
        process.kill()
    assert left, "the input was not opened in a folder that names its process"
    async with Journal.open(yards.store) as journal, RunViews(journal) as views:
        await views.get(yards.newest, "overview")
    assert not any(one.exists() for one in left)


async def result_in(views, yards):
    last = await views._journal.last_event(yards.newest)
    return result_of(last.data)


async def test_a_claim_is_marked_where_its_text_is(yards, yard_views) -> None:
    """Text that was put before the answer afterwards moves no underline into the middle of a word."""
    result = await result_in(yard_views, yards)
    late = replace(result, answer=f"Not in the documents: no passage says so.\n{result.answer}")
    lost = replace(result, answer="C: the third choice")
    for shown, claims in ((late, [0, 1, 2, 3]), (lost, [])):
        marked = {piece["claim"] for piece in answer_pieces(shown) if piece["claim"] is not None}
        assert sorted(marked) == claims
    for piece in answer_pieces(late):
        if piece["claim"] is not None and not piece["cites"]:
            assert piece["text"].strip() in result.support.claims[piece["claim"]].text


async def test_a_claim_of_many_equal_words_costs_no_minutes(yards, yard_views) -> None:
    """The text of a claim is looked up once, however often its first word comes."""
    result = await result_in(yard_views, yards)
    text = "no " * 30_000
    claim = replace(result.support.claims[0], text=f"{text}yes", start=0, end=len(text) + 3)
    shown = replace(
        result, answer=f"{text}{text}yes", citations=(), support=replace(result.support, claims=(claim,))
    )
    began = time.process_time()
    marked = [piece["text"] for piece in answer_pieces(shown) if piece["claim"] == 0]
    assert time.process_time() - began < 5
    assert "".join(marked) == f"{text}yes"
