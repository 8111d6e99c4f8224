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


async def test_the_overview_of_a_real_run(yard_views, yards) -> None:
    """It has the answer with its marks and claims, the tree, the coverage and the timeline."""
    shown = await yard_views.get(yards.newest, "overview")
    result = shown["result"]
    assert shown["run"]["stop_reason"] == "finalized"
    text = "".join(piece["text"] for piece in result["pieces"])
    assert "of 160 t [¹]." in text
    assert [piece["cites"] for piece in result["pieces"] if piece["cites"]] == [[1], [2], [3], [4]]
    assert [claim["status"] for claim in result["claims"]] == ["supported"] * 3 + ["unsupported"]
    assert [one["verdict"] for one in result["citations"]] == ["supported"] * 3 + ["unsupported"]
    root, below = shown["nodes"]
    assert (root["kind"], root["children"], root["failed"]) == ("run", 16, 1)
    assert (below["kind"], below["parent"], below["rounds"], below["children"]) == ("sub_rlm", 0, 2, 1)
    assert below["title"].startswith("Is the notice of the Harbour yard")
    coverage = shown["coverage"]
    assert coverage["totals"]["answered"] == result["coverage"]["answered_chars"]
    assert coverage["totals"]["failed"] == result["coverage"]["failed_chars"] > 0
    assert coverage["totals"]["read"] == result["coverage"]["read_chars"]
    assert len(coverage["documents"]) == 6
    assert {row["kind"] for row in shown["timeline"]["rows"]} == {"round", "cell", "children", "call"}
    spent = shown["timeline"]["costs"][-1][1]
    assert spent == pytest.approx(shown["run"]["cost_usd"])


async def test_steps_hold_code_output_violations_and_errors(yard_views, yards) -> None:
    steps = (await yard_views.get(yards.newest, "steps/0/0"))["steps"]
    rounds = [step for step in steps if step["kind"] == "round"]
    assert rounds[0]["violation"] == "no_block"
    assert rounds[0]["sections"][0]["section"] == "system"
    assert "context_meta()" in rounds[1]["code"]
    assert "6 documents" in rounds[1]["output"]
    asking = rounds[2]
    assert (asking["children"], asking["failed"], asking["first_child"]) == (16, 1, 0)
    assert asking["children_start"] < asking["children_end"]
    assert "NameError" in rounds[3]["error"]
    assert rounds[4]["nodes"] == [1]


async def test_children_and_their_events(yard_views, yards) -> None:
    chunk = await yard_views.get(yards.newest, "children/0/0")
    rows = [dict(zip(chunk["columns"], row, strict=True)) for row in chunk["rows"]]
    assert chunk["total"] == len(rows) == 16
    failed = [row for row in rows if row["status"] == "failed"]
    assert [row["error_type"] for row in failed] == ["model"]
    detail = await yard_views.get(yards.newest, f"event/{rows[1]['seq']}")
    assert detail["data"]["reply"] == rows[1]["reply"]
    assert detail["messages"][-1]["role"] == "user"
    assert "[characters " in detail["messages"][-1]["text"]
    start, end = detail["places"][0]
    assert [start, end] == rows[1]["spans"][0]


async def test_the_text_that_a_sub_rlms_child_got_is_found_in_the_input(yard_views, yards) -> None:
    """Its spans count from the start of its own text, which is a part of the input."""
    chunk = await yard_views.get(yards.newest, "children/1/0")
    row = dict(zip(chunk["columns"], chunk["rows"][0], strict=True))
    assert row["spans"] == [[0, 900]]
    (place,) = (await yard_views.get(yards.newest, f"event/{row['seq']}"))["places"]
    shown = await yard_views.get(yards.newest, f"span/{place[0]}-{place[1]}")
    assert place != [0, 900]
    assert "harbour" in shown["document"] or "Harbour" in shown["text"]


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
    ["", "steps", "steps/0", "steps/99/0", "steps/-1/0", "event/0", "event/999999", "place/0", "place/99",
     "span/5-1", "span/999999999-9999999999", "overview/", "../overview", "event/１", "span/0-1/../..",
     "children/0/0\n"],
)  # fmt: skip
async def test_what_is_not_there_is_refused(yard_views, yards, path: str) -> None:
    with pytest.raises(NoSuchView):
        await yard_views.get(yards.newest, path)


async def test_an_unknown_run(yard_views) -> None:
    with pytest.raises(JournalError):
        await yard_views.get("20200101-000000-aaaaaa", "overview")


async def test_the_list_has_the_newest_first(yard_views, yards) -> None:
    assert [run["run_id"] for run in await yard_views.runs()] == list(yards.runs)


async def test_ten_thousand_children_stay_small(views, write_children) -> None:
    await write_children("r1", 10_000)
    shown = await views.get("r1", "overview")
    assert len(page_json(shown)) < 50_000
    assert shown["nodes"][0]["children"] == 10_000
    chunk = await views.get("r1", "children/0/19")
    assert (chunk["total"], len(chunk["rows"])) == (10_000, 500)
    assert len(page_json(chunk)) < 150_000


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
        assert (await views.get("r1", "overview"))["nodes"][0]["children"] == 1
    await asyncio.wait_for(watching, 5)
    assert seen == [(1, "running"), (2, "running"), (2, "interrupted")]


async def test_a_rejected_reply_is_one_failed_child(journal, views, child_event) -> None:
    """The journal has its reply, and then an event that says why it was none."""
    async with journal.run("r1", "How many?", {"context_chars": 1_000}) as log:
        await log.append("child", child_event(1, "[]"))
        await log.append(
            "child",
            {"round": 1, "asked": "a1", "spans": [[100, 200]], "error": "no number", "error_type": "schema"},
        )  # fmt: skip
    shown = await views.get("r1", "overview")
    assert (shown["nodes"][0]["children"], shown["nodes"][0]["failed"]) == (1, 1)
    assert (shown["coverage"]["totals"]["answered"], shown["coverage"]["totals"]["failed"]) == (0, 100)
    chunk = await views.get("r1", "children/0/0")
    row = dict(zip(chunk["columns"], chunk["rows"][0], strict=True))
    assert (row["status"], row["error"], row["reply"], row["error_seq"]) == ("failed", "no number", "[]", 3)


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
    assert len(page_json(await views.get("r1", "steps/0/0"))) < 40_000
    for seq in (2, 3):
        detail = page_json(await views.get("r1", f"event/{seq}"))
        assert len(detail) < 1_300_000
    assert b"more characters" in detail


async def test_hostile_text_is_neutral_in_the_body_of_a_reply(journal, views) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u202e\u2028\x1b[31m\ud800 & <!--"
    async with journal.run("r1", evil, {"model": evil}) as log:
        await log.append("cell", {"round": 1, "code": evil, "result": {"report": {}, "stdout": evil}})
    for path in ("overview", "steps/0/0", "event/2"):
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
    assert not (await views.get("r1", "overview"))["has_text"]
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


async def test_a_claim_is_marked_where_its_text_is(yards, yard_views) -> None:
    """Text that was put before the answer afterwards moves no underline into the middle of a word."""
    digest = await yard_views.digest(yards.newest)
    result = result_of(digest.result)
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
    result = result_of((await yard_views.digest(yards.newest)).result)
    text = "no " * 30_000
    claim = replace(result.support.claims[0], text=f"{text}yes", start=0, end=len(text) + 3)
    shown = replace(
        result, answer=f"{text}{text}yes", citations=(), support=replace(result.support, claims=(claim,))
    )
    began = time.process_time()
    marked = [piece["text"] for piece in answer_pieces(shown) if piece["claim"] == 0]
    assert time.process_time() - began < 5
    assert "".join(marked) == f"{text}yes"


async def test_a_run_says_how_it_ended_in_one_word(journal, views) -> None:
    events = {
        "answered": {"stop_reason": "finalized", "answer": "12,400 euros\nmore", "found": True},
        "not found": {"stop_reason": "finalized", "answer": "Not in the documents.", "found": False},
        "no answer": {"stop_reason": "rounds", "answer": None, "found": True},
    }
    for name, data in events.items():
        async with journal.run(name, "q", {}) as log:
            await log.append("finished", data)
    async with journal.run("stopped", "q", {}):
        pass
    async with journal.run("running", "q", {}):
        listed = {run["run_id"]: run for run in await views.runs()}
    assert {name: run["status"] for name, run in listed.items()} == {name: name for name in listed}
    assert len(listed) == 5
    assert [run["answer"] for run in listed.values() if run["answer"]] == [
        "Not in the documents.",
        "12,400 euros",
    ]
