"""Tests of benchmarks/readers: items go through every arm, a judge, the scores, the report and a replay."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.quality.scoring import denies
from benchmarks.readers import journal
from tests.provider_server import ProviderServer, Received

ROOT = Path(__file__).parents[2]
ITEMS = """
seed = 13
summary_tokens = 400

[[item]]
id = "ask-yard"
kind = "ask"
of = ["yard/crane"]
scoring = "all"
lookup = true

[[item]]
id = "summarize-yard"
kind = "summarize"
texts = ["yard/minutes.txt.xz"]
question = "Summarize the minutes."
answers = ["The crane is bought for 92,000 euros."]

[[item]]
id = "research-yard"
kind = "research"
texts = ["yard/minutes.txt.xz"]
question = "What does the crane cost, and when does it come?"
answers = ["92,000 euros", "in May"]
"""
SECRET = "Marta signs for the northern yard"
MINUTES = f"""Anna: The northern yard offers the crane for 92,000 euros.
Ben: {SECRET}. It comes in May.
Anna: Then we buy it.
""" + "".join(f"Ben: Item {number} of the agenda is moved to the next meeting.\n" for number in range(1_500))
CELL = """```repl
hits = search("92,000")
print(hits)
print(sub_query("What does the crane cost?", hits[:1]))
finalize("The crane costs 92000 euros.", evidence=hits[:1])
```"""


def play(request: Received) -> str:
    """Reply as a model would: to the root, its children, the planner, the plain calls and the judge."""
    model, prompt = request.body["model"], request.prompt
    if model == "judge":
        return "Both name the price.\nEQUAL"
    if "repl" in request.system:
        return CELL
    if "Plan research" in prompt:
        return "- What does the crane cost?"
    if "[m1]" in prompt:
        return "## Task Summary\n- The northern yard offers the crane for 92,000 euros. [m1]"
    return "The crane costs 92,000 euros."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "yard"
    folder.mkdir(parents=True)
    (folder / "minutes.txt.xz").write_bytes(lzma.compress(MINUTES.encode()))
    crane = {
        "id": "crane",
        "context_file": "minutes.txt.xz",
        "question": "What does it cost?",
        "answers": ["92000"],
    }
    (folder / "items.jsonl").write_text(json.dumps(crane) + "\n")
    (tmp_path / "items.toml").write_text(ITEMS)
    return folder.parent


def command(name: str, data: Path, *options: str, url: str = "") -> str:
    """Run a command of the benchmark and return what it printed."""
    results = data.parent / "results"
    shared = [f"--data={data}", f"--items={data.parent / 'items.toml'}"] if name != "report" else []
    environment = {**os.environ, "RLM_OPENAI_COMPATIBLE_KEY": "x", "RLM_OPENAI_COMPATIBLE_KEY_HOST": url}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.readers.{name}", *shared, f"--results={results}", *options],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(400)
def test_items_go_through_every_arm_and_come_back_from_their_artifacts(data: Path) -> None:
    results = data.parent / "results"
    with ProviderServer(play) as server:
        url = f"{server.url}/v1"
        models = ("--root", "one", "two", "three", "four", "--child", "child", f"--url={url}")
        sizes = ("--window=12000", "--output=1000", f"--work={data.parent / 'work'}")
        printed = command("run", data, *models, *sizes, url=server.url)
        assert printed.count(": answered") == 11
        assert "summarize-yard bm25: skipped" in printed
        asked = len(server.requests)
        assert command("run", data, *models, *sizes, url=server.url).count("done before") == 12
        assert len(server.requests) == asked, "an artifact that exists is not paid for again"
        readers = {json.loads(one.read_text())["root"] for one in results.glob("*/ask-yard.json")}
        assert len(readers) == 4, "no model sees a text in two arms"
        command("judge", data, "--judge=judge", f"--url={url}", url=server.url)
    assert "12 artifacts of 3 items" in command("score", data)
    scores = json.loads((results / "scores.json").read_text())
    assert [scores["ask-yard"][arm]["right"] for arm in ("product", "direct", "map-reduce", "bm25")] == [
        True
    ] * 4
    assert scores["summarize-yard"]["product"]["first_try"]["kept"] is True

    printed = command("report", data)
    assert printed == command("report", data)
    assert "| ask, against direct | 0 | 1 | 0 | 1 of 1: 100 % (21 to 100) |" in printed

    kept = b"".join(
        lzma.decompress(one.read_bytes()) if one.suffix == ".xz" else one.read_bytes()
        for one in results.rglob("*")
        if one.is_file()
    )
    assert SECRET.encode() not in kept, "artifacts hold no text of a data set"
    # The server is gone: every reply comes from the artifacts.
    printed = command("replay", data)
    assert printed.count(": same") == 12, printed


def test_the_tables_of_the_readme_are_those_of_the_artifacts() -> None:
    from benchmarks.readers.items import RESULTS
    from benchmarks.readers.report import README, tables, with_tables

    page = README.read_text(encoding="utf-8")
    assert page == with_tables(page, tables(RESULTS))


@pytest.mark.parametrize(
    ("scoring", "golds", "answer", "right"),
    [
        ("choice", ["B"], "B: h, method, direction", True),
        ("choice", ["B"], "**B**", True),
        ("choice", ["B"], "A careful look shows that the answer is B.", True),
        ("choice", ["B"], "C", False),
        ("all", ["52"], "52 cards", True),
        ("all", ["92000"], "92,000 euros", True),
        ("all", ["52"], "There are 152.", False),
        ("all", ["quarry-1ke", "quarry-5oy"], "quarry-1ke", False),
        ("any", ["three", "3"], "He will have 3 pets.", True),
        ("absent", ["no"], "Not in the documents: no card names Kubernetes.", True),
        ("absent", ["no"], "She received a trophy.", False),
        ("file", ["a\nb\n"], "```js\na\nb\n```", True),
        ("file", ["a\nb\n"], "a", False),
    ],
)
def test_exact_scores(scoring: str, golds: list[str], answer: str, right: bool) -> None:
    from benchmarks.readers.items import Item
    from benchmarks.readers.score import is_right

    assert is_right(Item("x", "ask", "?", (tuple(golds),), (), scoring), answer) is right


def test_the_judge_sees_no_mark_of_an_arm() -> None:
    from benchmarks.readers.judge import bare, verdict_in

    report = "## Findings\n- 9 euros [1]\n\n## Not found\n\nThe date.\n\n## Sources\n\n- [1] a.txt:2: “9”\n"
    assert bare(report) == "## Findings\n- 9 euros\n\n## Not found\n\nThe date."
    assert bare("It costs 9 euros [¹][²]. [m3, m7]") == "It costs 9 euros."
    assert bare("") == "(no answer)"
    assert [verdict_in(one) for one in ("why\n2", "why\n**EQUAL**", "Answer 1", "both")] == [
        "2",
        "equal",
        "1",
        None,
    ]


def test_items_that_share_a_text_share_their_readers() -> None:
    from benchmarks.readers.items import ARMS, Item, reader_of

    def item(name: str, *texts: str) -> Item:
        return Item(name, "ask", "?", (("!",),), texts)

    items = [item("a", "one"), item("b", "two"), item("c", "two", "three"), item("d", "three")]
    names = [[reader_of(items, one, arm, ["r0", "r1", "r2", "r3"]) for arm in ARMS] for one in items]
    assert names[1] == names[2] == names[3] != names[0]
    assert all(len(set(one)) == 4 for one in names)


def call(role: str, reply: str, within: str = "") -> dict[str, object]:
    return {"kind": "model_call", "data": {"role": role, "reply": reply, "within": within}}


def test_a_text_is_thrown_away_only_if_it_said_something_and_nothing_of_it_is_left() -> None:
    first = "Kind: story\n## What Happened\n- The crane came from the northern yard in May. [m3]"
    last = "L1 + L2 = - ! The crane came from the northern yard in May, late. [m3]\nL4 = gone"
    shrunk = "L3 = gone\nL4 = gone"
    page = "## What Happened\n- The crane came from the northern yard in May, late. [m3]"
    events = [call("summary", first), call("summary", last), call("summary", shrunk)]
    assert journal.discarded(events, "summarize", page) == []
    assert journal.as_written(events, f"{page}\n- A line that a check put there instead. [m4]") == (1, 2)
    other = "## What Happened\n- Sentences of the messages stand here instead. [m1]"
    assert len(journal.discarded(events, "summarize", other)) == 1

    declines = [call("direct", "NOT_FOUND\nNEXT: priority 0 card", "q1"), call("root", "…", "q1")]
    assert (journal.discarded(declines, "research", "Two."), journal.declined(declines)) == ([], 1)
    refused = [call("direct", "Two cards have priority 0.", "q1"), call("root", "…", "q1")]
    assert (len(journal.discarded(refused, "research", "Two.")), journal.declined(refused)) == (1, 0)


def test_no_answer_of_the_archive_that_denies_what_the_text_holds_is_right() -> None:
    results = ROOT / "benchmarks" / "readers" / "results"
    chosen = tomllib.loads((results.parent / "items.toml").read_text("utf-8"))["item"]
    absent = {item["id"] for item in chosen if item.get("scoring") == "absent"}
    for name, arms in json.loads((results / "scores.json").read_text("utf-8")).items():
        for arm, figures in arms.items():
            record = json.loads((results / arm / f"{name}.json").read_text("utf-8"))
            if figures["right"] and name not in absent:
                assert record.get("found", True), (arm, name)
                assert not denies(record["answer"]), (arm, name)
