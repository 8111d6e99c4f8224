"""Test the bytes that each command prints over hostile names and texts: no terminal obeys them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "rlm"]
HOSTILE = (
    "\x1b]0;owned\x07\x1b[31mred\x1b[2J\u009b31m\u009d52;c;eA==\u009c\x7f\u0085 "
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069 end"
)
NAME = "crane\n1. forged.txt:1  (score 9.99)\r\x1b[31m\u009b\u202e\u200f\u061c\u2028.txt"
TEXT = f"# The crane {HOSTILE}\n\nThe crane of the yard costs 40 euros {HOSTILE}.\nSources\n  [¹] x\n"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
CELL = "```repl\nprint(peek(0, 500))\nglobals()['x' + peek(0, 90)] = 1\nhits = search('crane')\n```"
FINAL = "```repl\nfinalize(peek(0, 300), evidence=[hits[0]])\n```"


@pytest.fixture
def folder(rlm, tmp_path: Path) -> Path:
    """Return a folder with a hostile document, a script, a batch, a hostile settings file and segments."""
    folder = tmp_path / "work"
    (folder / "in").mkdir()
    (folder / "in" / NAME).write_text(TEXT, encoding="utf-8")
    (folder / "in" / "chat.json").write_text(
        json.dumps([{"role": "user", "author": HOSTILE, "content": f"We must buy the crane {HOSTILE}."}] * 30)
    )
    entries = [
        {"role": "root", "reply": CELL}, {"role": "root", "reply": FINAL},
        {"role": "child", "reply": HOSTILE}, {"role": "summary", "reply": HOSTILE},
    ]  # fmt: skip
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, entries)))
    (folder / "cell.py").write_text(
        "print(peek(0, 400))\nprint(peek(0, 400), file=__import__('sys').stderr)\n1/0"
    )
    task = {"id": HOSTILE, "task": f"The crane? {HOSTILE}", "context": [{"text": TEXT}]}
    (folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    (folder / "card.json").write_text(
        json.dumps(
            {"title": HOSTILE, "state": "implement", "messages": [{"role": "user", "content": HOSTILE}]}
        )
    )
    (folder / "cited.json").write_text(
        json.dumps({"question": HOSTILE, "packs": [{"pack_id": HOSTILE, "doc_id": HOSTILE, "text": TEXT}]})
    )
    (folder / "child.json").write_text(json.dumps({"prompt": HOSTILE, "slice": {"text": TEXT}}))
    (folder / "own.toml").write_text(
        f"[models.{json.dumps(f'openai:m{HOSTILE}@http://localhost:1/v1')}]\nwindow = 9000\noutput = 100\n"
    )
    return folder


def check(ran: subprocess.CompletedProcess[bytes], *, is_json: bool = False) -> str:
    """Check the bytes of both streams, and that JSON lost nothing. Return stdout."""
    out, err = ran.stdout.decode(), ran.stderr.decode()
    assert b"Traceback" not in ran.stderr or b"  line " in ran.stderr, err
    for stream in (out, err):
        found = BAD.search(stream)
        assert found is None, (ran.args, stream[max(0, found.start() - 80) : found.end() + 80])
    if is_json:
        for line in [out] if out.startswith(("{\n", "[\n")) else out.splitlines():
            json.loads(line)
        assert "\\u202e" in out or "\\u009b" in out, ran.args
    return out


SCRIPT = ("--model", "scripted:s.jsonl", "--strategy", "rlm")
QUESTION = f"What does the crane cost? {HOSTILE}"


@pytest.fixture
def run(folder, environment):
    """Return `run("ask", …)`, which checks the bytes of a command and returns its stdout."""

    def run(*arguments: str, is_json: bool = False) -> str:
        ran = subprocess.run(
            [*COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, timeout=90, check=False
        )
        assert ran.stdout or ran.stderr
        return check(ran, is_json=is_json)

    return run


def test_ask_prints_no_control_character(run) -> None:
    """Text has none, and JSON escapes them."""
    run("ask", QUESTION, "in", *SCRIPT)
    run("ask", QUESTION, "in", *SCRIPT, "--json", is_json=True)
    run("ask", QUESTION, "in", *SCRIPT, "--trace", "trace.jsonl", "--quiet")
    run("ask", QUESTION, "in", "--dry-run")
    run("ask", QUESTION, f"missing {NAME}")
    run("ask", QUESTION, "in", f"--{HOSTILE}")


def test_the_journal_s_commands_print_no_control_character(run) -> None:
    run("ask", QUESTION, "in", *SCRIPT)
    name = run("runs").split()[0]
    run("runs", "--json", is_json=True)
    run("show", name)
    run("show", name, "--json", is_json=True)
    run("export", name, is_json=True)
    run("replay", name)
    run("resume", name)
    run("resume", name, "--json", is_json=True)
    run("show", HOSTILE)


def test_search_and_sandbox_print_no_control_character(run) -> None:
    run("search", "crane", "in")
    run("search", "crane", "in", "--json", is_json=True)
    run("search", "-e", "crane", "in")
    run("search", "-e", "crane", "in", "--json", is_json=True)
    run("sandbox", "exec", "cell.py", "--context", "in")
    run("sandbox", "exec", "cell.py", "--context", "in", "--json", is_json=True)


def test_a_batch_writes_no_control_character(run, folder) -> None:
    for out in ("r.jsonl", f"r{NAME}.jsonl"):
        run("batch", "tasks.jsonl", "--out", out, "--model", "scripted:s.jsonl")
        assert BAD.search((folder / out).read_text()) is None


def test_jobs_print_no_control_character(run, folder) -> None:
    run("summarize", "in", "--kind", "chat")
    run("summarize", "in", "--kind", "chat", "--json", is_json=True)
    run("summarize", "in", "--kind", "chat", "--out", "summary.md")
    assert BAD.search((folder / "summary.md").read_text()) is None
    run("research", QUESTION, "in")
    run("research", QUESTION, "in", "--json", is_json=True)
    run("research", QUESTION, "in", "--plan-only")
    run("compare", QUESTION, "in", "--model", "scripted:s.jsonl")
    run("compare", QUESTION, "in", "--model", "scripted:s.jsonl", "--json", is_json=True)


def test_prompts_and_segments_print_no_control_character(run) -> None:
    for kind in ("card", "cited", "child"):
        run("assemble", kind, f"{kind}.json", "--report")
        run("assemble", kind, f"{kind}.json", "--json", is_json=True)
    run("assemble", "card", f"missing{HOSTILE}")
    run("segments", "add", "--scope", "core", "--content", TEXT, "--note", HOSTILE, "--store", "s.db")
    segment = run("segments", "list", "--store", "s.db").split()[0]
    run("segments", "list", "--store", "s.db", "--json", is_json=True)
    run("segments", "show", segment, "--store", "s.db")
    run("segments", "show", segment, "--store", "s.db", "--json", is_json=True)
    run("segments", "export", "--store", "s.db", is_json=True)
    run("segments", "show", HOSTILE, "--store", "s.db")


def test_the_other_commands_print_no_control_character(run) -> None:
    run("models", "--config", "own.toml")
    run("models", "--config", "own.toml", "--json")
    run("doctor")
    run("init", f"new{NAME}.toml")


def test_a_name_of_a_document_forges_no_line(folder, rlm) -> None:
    """A line end in it is shown as `\\n`."""
    for arguments in (("crane",), ("-e", "crane", "--limit", "100")):
        out = rlm("search", *arguments, "in").stdout
        assert "1. forged.txt:1" in out
        assert not re.search(r"^1\. forged", out, re.MULTILINE)


def test_text_in_the_journal_forges_no_event(folder, rlm) -> None:
    """`rlm show` indents all lines of a text but the first."""
    forged = "ok\nround 9: ok, 0.10 s\nfinalized: The fee is waived.\n  child []: forged"
    cell = f"```repl\nprint({forged!r})\nsub_query('q', (0, 3))\n```"
    final = f"```repl\nfinalize({forged!r}, evidence=[(0, 9)])\n```"
    # The first `finalize` is refused, because its evidence does not support it.
    roots = [{"role": "root", "reply": reply} for reply in (cell, final, final)]
    entries = [*roots, {"role": "child", "reply": forged}]
    (folder / "f.jsonl").write_text("\n".join(map(json.dumps, entries)))
    ran = rlm("ask", f"What? {forged}", "in", "--model", "scripted:f.jsonl", "--strategy", "rlm")
    assert ran.code == 0, ran.stderr
    lines = rlm("show", rlm("runs").stdout.split()[0]).stdout.splitlines()
    assert [line for line in lines if line.startswith(("finalized:", "answered:"))] == ["answered: ok"]
    assert not [line for line in lines if line.startswith(("round 9", "  child []: forged"))]


def in_terminal(*arguments: str, cwd: Path, env: dict[str, str]) -> str:
    """Run a command in a terminal of 100 columns with colours. Return all that it wrote there."""
    main, side = pty.openpty()
    env = {**env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen([*COMMAND, *arguments], stdin=side, stdout=side, stderr=side, cwd=cwd, env=env)
    os.close(side)
    written = b""
    while True:
        try:
            data = os.read(main, 65_536)
        except OSError:
            break
        if not data:
            break
        written += data
    os.close(main)
    process.wait(60)
    return written.decode()


OWN = re.compile(r"\x1b\[(?:\??25[lh]|[0-9;]*m|2K|1A|[0-9]*[ABG])|\r")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", f"The crane? {HOSTILE}", "in", "--model", "scripted:s.jsonl", "--strategy", "rlm"),
        ("ask", "The crane?", "in", f"--{HOSTILE}"),
        ("search", "crane", "in"),
        ("assemble", "cited", "cited.json", "--report"),
        ("doctor",),
    ],
)
def test_a_terminal_gets_our_colours_only(folder, environment, arguments) -> None:
    """The colours of the answer, of the live line and of tables are written; those of a text are not."""
    shown = in_terminal(*arguments, cwd=folder, env=environment)
    assert BAD.search(OWN.sub("", shown)) is None, repr(shown)
    assert "\x1b[31mred" not in shown
    assert "\x1b[2J" not in shown
    if arguments[0] in ("doctor", "assemble") or "scripted:s.jsonl" in arguments:
        assert "\x1b[" in shown
