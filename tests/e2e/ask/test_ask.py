"""Test `rlm ask` from the shell to the answer."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from rlm.prompts import get_counter

NEEDLE = "One of the special magic numbers for loving-cockroach is: 5663623."
FILLER = "The grass is green. The sky is blue. Here we go. There and back again.\n"


@pytest.fixture
def haystack(tmp_path: Path) -> Path:
    path = tmp_path / "big.txt"
    half = FILLER * (3_000_000 // len(FILLER) // 2)
    path.write_text(half + NEEDLE + "\n" + half)
    return path


QUESTION = "What is the special magic number for loving-cockroach?"


def test_a_needle_without_a_key(rlm, haystack) -> None:
    """--json prints the RunResult with the needle and a verified citation."""
    ran = rlm("ask", QUESTION, str(haystack), "--json", "--quiet")
    assert (ran.code, ran.stderr) == (0, "")
    assert "5663623" in ran.json["answer"]
    assert set(ran.json) >= {
        "run_id", "answer", "confidence", "stop_reason", "forced", "strategy", "citations", "coverage",
        "usage", "rounds", "sub_calls", "seconds", "warnings",
    }  # fmt: skip
    (citation,) = ran.json["citations"]
    assert citation["verified"]
    assert citation["document"] == "big.txt"
    body = haystack.read_text()
    assert body[citation["start"] : citation["end"]] == citation["quote"] == NEEDLE
    assert body.splitlines()[citation["line"] - 1] == NEEDLE


def test_the_answer_alone_is_on_stdout(rlm, haystack) -> None:
    """What it took is one line on stderr, all of it with -v."""
    short = rlm("ask", QUESTION, str(haystack))
    assert re.fullmatch(
        r"1 document, [\d,]+ characters · 100 % searched · [\d.]+ s · rlm show", short.stderr.splitlines()[-1]
    )
    assert "round" not in short.stderr
    ran = rlm("ask", QUESTION, str(haystack), "-v")
    assert ran.code == 0
    assert ran.stdout.startswith("Extracts")
    assert "big.txt:" in ran.stdout
    assert "round 1: " in ran.stderr
    assert "round" not in ran.stdout


def test_folders_and_stdin(rlm, tmp_path) -> None:
    folder = tmp_path / "contracts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("# Lease\n\nRent is due monthly.\n" * 2_000)
    (folder / "deep" / "b.txt").write_text("The supplier is Zeppelin Works of Friedrichshafen.\n")
    (folder / "c.bin").write_bytes(bytes(1_000))
    ran = rlm("ask", "Who is the supplier?", str(folder), "--json", "--quiet")
    assert "Zeppelin" in ran.json["answer"]
    assert ran.json["citations"][0]["document"].endswith("deep/b.txt")
    piped = rlm("ask", "Who is the supplier?", "-", "--json", stdin="The supplier is Acme.\n" * 3)
    assert "Acme" in piped.json["answer"]
    assert piped.json["citations"][0]["document"] == "stdin"


def test_a_folder_can_leave_things_out(rlm, tmp_path) -> None:
    folder = tmp_path / "src"
    (folder / "vendor").mkdir(parents=True)
    (folder / "vendor" / "a.txt").write_text("The supplier is Wrong.\n")
    (folder / "b.txt").write_text("The supplier is Right.\n")
    ran = rlm("ask", "Who is the supplier?", str(folder), "--exclude", "vendor", "--json", "--quiet")
    assert "Right" in ran.json["answer"]
    assert "Wrong" not in ran.json["answer"]


class Provider:
    """Plays root and children through the OpenAI protocol."""

    def __init__(self, blocks: list[str], child: str) -> None:
        self.blocks = list(blocks)
        self.child = child
        self.roots: list = []
        self.children: list = []

    def __call__(self, received) -> str:
        if received.system.startswith("You are the root"):
            self.roots.append(received)
            return f"```repl\n{self.blocks.pop(0)}\n```"
        self.children.append(received)
        return self.child


def test_root_and_children_through_a_server(rlm, haystack, provider_server) -> None:
    """The number of calls is right, prompts are bounded, and the context is not in the root's messages."""
    played = Provider(
        [
            "hits = search('magic number')\nprint(hits.total)",
            "found = sub_query_batch('Which number?', [hits[0], *chunk(20_000)[:3]])\nprint(found[0])",
            "finalize(found[0], evidence=[hits[0].line_text])",
        ],
        "It is 5663623.",
    )
    provider_server.always = played
    ran = rlm("ask", QUESTION, str(haystack), "--json", "--model", f"openai:m@{provider_server.url}/v1")
    assert (ran.code, ran.json["answer"]) == (0, "It is 5663623.")
    assert (len(played.roots), len(played.children)) == (3, 4)
    assert (ran.json["rounds"], ran.json["sub_calls"]) == (3, 4)
    assert [citation["verified"] for citation in ran.json["citations"]] == [True]
    assert ran.json["usage"][0]["calls"] == 7
    counter = get_counter("estimate")
    for child in played.children:
        assert counter.count(child.system + child.prompt) <= 32_000
    assert NEEDLE not in json.dumps(played.roots[0].body)
    assert json.dumps(played.roots[-1].body).count("The grass is green") < 60
    assert len(json.dumps(played.roots[-1].body)) < 60_000


def test_a_provider_that_fails_is_exit_4(rlm, haystack, provider_server, providers) -> None:
    provider_server.always = providers.Status(401, "bad key")
    ran = rlm("ask", QUESTION, str(haystack), "-q", "--model", f"openai:m@{provider_server.url}/v1")
    assert ran.code == 4
    assert ran.stdout == ""
    assert "model" in ran.one_line


def test_a_limit_without_an_answer_is_exit_1(rlm, haystack, provider_server) -> None:
    provider_server.always = "I would rather talk."
    ran = rlm("ask", QUESTION, str(haystack), "-q", "--model", f"openai:m@{provider_server.url}/v1")
    assert (ran.code, ran.stdout) == (1, "")
    assert "contract_violation" in ran.one_line


BAD = {
    "a missing file": (["nowhere.txt"], "nowhere.txt does not exist"),
    "an unknown model": (["good.txt", "--model", "gtp-5"], "gtp-5"),
    "a missing key": (["good.txt", "--model", "openai:gpt-5"], "OPENAI_API_KEY"),
    "a binary file": (["binary.bin"], "binary.bin"),
    "an empty file": (["empty.txt"], "empty.txt is empty"),
    "an empty folder": (["folder"], "folder"),
    "a glob without a match": (["*.pdf"], "*.pdf"),
    "a script that is not there": (["good.txt", "--model", "scripted:none.jsonl"], "none.jsonl"),
    "a limit of nothing": (["good.txt", "--max-rounds", "0"], "rounds"),
    "a store that is a folder": (["good.txt", "--store", "folder"], "folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(rlm, tmp_path, case) -> None:
    """The exit code is 2, and nothing is spent."""
    work = tmp_path / "work"
    (work / "good.txt").write_text("good\n")
    (work / "binary.bin").write_bytes(b"\x00\x01" * 500)
    (work / "empty.txt").write_text("")
    (work / "folder").mkdir()
    arguments, words = BAD[case]
    ran = rlm("ask", "What?", *arguments, "--quiet")
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.one_line


def test_an_empty_stdin_is_reported(rlm) -> None:
    ran = rlm("ask", "What?", "-", "-q", stdin="")
    assert ran.code == 2
    assert "empty" in ran.one_line


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every folder")
def test_an_unreadable_folder_is_reported(rlm, tmp_path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    ran = rlm("ask", "What?", str(folder), "-q")
    assert ran.code == 2
    assert "closed" in ran.one_line


def test_nothing_listens(rlm, haystack) -> None:
    """There are at most 3 attempts in 10 s, then one line."""
    began = time.monotonic()
    ran = rlm("ask", QUESTION, str(haystack), "-q", "--model", "openai:m@http://127.0.0.1:9/v1")
    assert ran.code == 4
    assert "127.0.0.1:9" in ran.one_line
    assert time.monotonic() - began < 25


def test_documents_other_than_plain_text(rlm, tmp_path) -> None:
    """PDF and JSON chats are read. A broken PDF gives one clear line."""
    from reportlab.pdfgen.canvas import Canvas

    folder = tmp_path / "all"
    folder.mkdir()
    canvas = Canvas(str(folder / "a.pdf"))
    for line in ("An empty page.", "The treasurer of Ashford is Pauline Ferris."):
        canvas.drawString(72, 700, line)
        canvas.showPage()
    canvas.save()
    (folder / "b.json").write_text(
        '{"messages": [{"role": "user", "author": "Jo", "content": "The baker of Ashford is Jonas Crumb."}]}'
    )
    (folder / "j.pdf").write_bytes(b"%PDF-1.7 damaged")
    for role, name, document in [
        ("treasurer", "Pauline Ferris", "a.pdf"),
        ("baker", "Jonas Crumb", "b.json"),
    ]:
        ran = rlm("ask", f"Who is the {role} of Ashford?", str(folder), "--json", "--quiet")
        assert ran.code == 0
        cited = [one for one in ran.json["citations"] if name in one["quote"]]
        assert cited[0]["verified"]
        assert cited[0]["document"] == document
    [warning] = [line for line in ran.json["warnings"] if "j.pdf" in line]
    assert "a PDF that is damaged" in warning
    assert "get it again" in warning
