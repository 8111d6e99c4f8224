"""Tests of benchmarks/readers/wordings: golds that follow from the texts, and runs with both wordings."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.readers.wordings.items import is_right, load
from benchmarks.readers.wordings.texts import TEXTS, write_texts
from tests.provider_server import ProviderServer, Received

ROOT = Path(__file__).parents[2]
QUESTIONS = {one.id: one for one in load()}
BLOCK = """```repl
hits = search("override code of the north sluice is")
finalize("7315", evidence=hits[:1])
```"""


def gold(name: str) -> str:
    return QUESTIONS[name].golds[0][0]


def text(name: str, file: str) -> str:
    return TEXTS[name]()[file]


def test_the_golds_are_computed_from_the_texts() -> None:
    """Each by other code than the texts were made with."""
    (code,) = re.findall(r"code of the north sluice is (\d+)", text("handbook", "handbook.txt"))
    assert gold("needle") == code
    tickets = map(json.loads, text("tickets", "tickets.jsonl").splitlines())
    chosen = [
        one for one in tickets if (one["team"], one["severity"], one["status"]) == ("payments", 1, "open")
    ]
    assert gold("count-records") == str(len(chosen))
    countries = {
        row["id"]: row["country"] for row in csv.DictReader(io.StringIO(text("shop", "customers.csv")))
    }
    paid: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(text("shop", "orders.csv"))):
        paid[countries[row["customer_id"]]] += int(row["euros"]) if row["status"] == "paid" else 0
    assert gold("table") == "{} {}".format(*paid.most_common(1)[0])
    errors = Counter(re.findall(r"T02:\S+ ERROR (\S+)", text("log", "jobs.log")))
    (first, many), (_, fewer) = errors.most_common(2)
    assert gold("log") == f"{first} {many}"
    assert many > fewer
    old, new = (
        [section.split() for section in text("policies", f"policy-{one}.txt").split("\n\n")] for one in "ab"
    )
    assert list(QUESTIONS["compare"].golds[0]) == [
        str(n) for n, pair in enumerate(zip(old, new, strict=True), 1) if pair[0] != pair[1]
    ]
    assert text("reviews", "reviews.txt").count("Review ") == 56


def test_what_is_read_from_words_is_in_the_texts() -> None:
    lease = text("lease", "lease.txt")
    assert "14.4 The lessee may end this lease early by written notice of 90 days" in lease
    assert "In clause 14.4 the notice period is halved." in lease
    assert not re.search(r"sublet[^.]*\. [^.]*penalty", lease)
    chat = text("chat", "chat.txt")
    assert "it is settled: the Marlin, 14 June" in chat
    assert "I'll be captain on the trip." in chat
    minutes = text("minutes", "minutes.md")
    keys = [
        "takes the key of the archive",
        "key goes to Kaya until he is back",
        "Bram is back",
        "Nils gets the key",
    ]
    places = [minutes.index(part) for part in keys]
    assert places == sorted(places)
    assert places[2] < minutes.index("# Minutes of 30 September 2024") < places[3]


def test_the_texts_are_the_same_every_time(tmp_path: Path) -> None:
    for name in TEXTS:
        first, again = write_texts(name, tmp_path / "a"), write_texts(name, tmp_path / "b")
        assert [one.read_bytes() for one in first] == [one.read_bytes() for one in again]


@pytest.mark.parametrize(
    ("name", "answer", "right"),
    [
        ("needle", "7315", True),
        ("needle", " 7315 [¹].", True),
        ("needle", "The code is 7315.", False),
        ("table", "Norway 289,218", True),
        ("table", "Peru 289,218", False),
        ("compare", "37, 89, 142 [1][2]", True),
        ("compare", "37, 89, 142, 11", False),
        ("chat", "On June 14 with the Marlin for 1,240; Odile is captain.", True),
        ("chat", "On 14 June with the Petrel for 1,240; Odile is captain.", False),
        ("absence", "Not in the documents: the lease names no penalty for it.", True),
        ("absence", "2 percent a month.", False),
        ("who-when", "Bram", True),
        ("who-when", "Kaya", False),
    ],
)
def test_answers_are_scored_by_rule(name: str, answer: str, right: bool) -> None:
    assert is_right(QUESTIONS[name], answer) is right


def play(request: Received) -> str:
    return BLOCK if "repl" in request.system else "not found"


@pytest.mark.timeout(400)
def test_both_wordings_are_asked_and_compared(tmp_path: Path) -> None:
    """The roots take turns, a result is not made again, and the report counts."""
    with ProviderServer(play) as server:
        key = {"RLM_OPENAI_COMPATIBLE_KEY": "x", "RLM_OPENAI_COMPATIBLE_KEY_HOST": server.url}

        def command(*options: str) -> str:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.readers.wordings",
                    *options,
                    f"--results={tmp_path / 'r'}",
                ],
                check=False,
                cwd=ROOT,
                env={**os.environ, **key},
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        models = ("--root", "one", "two", "--child", "child", f"--url={server.url}/v1")
        given = ("run", *models, "--only", "needle", f"--work={tmp_path / 'work'}")
        assert sorted(command(*given).splitlines()) == [
            "needle-full-0: right in 1 rounds",
            "needle-short-0: right in 1 rounds",
        ]
        systems = {one.body["model"]: one.system for one in server.requests}
        assert "help(NAME)" in systems["two"]
        assert "help(NAME)" not in systems["one"]
        asked = len(server.requests)
        assert command(*given).count("done before") == 2
        assert len(server.requests) == asked
        assert "| needle | 1 of 1, 1.0, " in command("report")
