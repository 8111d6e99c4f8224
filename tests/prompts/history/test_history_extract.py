"""Test how many facts of a history the summary without a model keeps."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from rlm.prompts.history import Message, compact_history


def test_the_extractive_default_keeps_planted_facts_under_the_five_headings() -> None:
    """Requirements, errors with cause, decisions with reason, state and remaining work."""
    facts = {
        "Task Summary": "The report must list every refund above 40 euros.",
        "Key Decisions": "We chose Kafka over RabbitMQ because replay matters to Ines.",
        "Errors Resolved": "Import failed with `KeyError: 'vat'`; cause: an empty header in data/in.csv.",
        "Current State": "The parser is implemented and 41 of 44 tests pass.",
        "Remaining Work": "Still to do: the retry queue and the docs in ops/README.md.",
    }
    talk = "I am looking at it now. That reads well, carry on. Let me think about it for a moment. "
    messages = [Message("user" if n % 2 == 0 else "assistant", talk * 3) for n in range(300)]
    for at, fact in enumerate(facts.values()):
        place = 40 + 40 * at
        messages[place] = Message("user" if at == 0 else "assistant", f"{talk}{fact} {talk}")
    result = compact_history(messages, budget=3_000)
    assert result.kind == "summary"
    assert result.summary is not None
    assert [line[3:] for line in result.summary.splitlines() if line.startswith("## ")] == list(facts)
    for heading, fact in facts.items():
        section = result.summary.split(f"## {heading}\n")[1].split("\n## ")[0]
        assert fact in section


def test_the_extractive_default_keeps_what_people_say_themselves_amid_pasted_documentation() -> None:
    """Everyday words without a number, a name or a "must", among pasted sentences."""
    statements = (
        "My aunt couldn't find the lift with her pram, and she wasn't the only one.",
        "I'd sooner have the two shops apart, our bookkeepers mix them up.",
        "It wasn't the printer at all, I'd plugged the cable into the wrong wall.",
        "We're through with the northern lines and haven't begun the southern ones.",
    )
    draw = random.Random(7)

    def make_text() -> str:
        words = ["".join(draw.choices("bdfklmnprst", k=2)) + draw.choice("aeiou") * 2 + "n" for _ in range(4)]
        return "The {} of the {} must return `{}`, or an error of its {}.".format(*words)

    messages = [
        Message("assistant" if n % 2 else "user", " ".join(make_text() for _ in range(4))) for n in range(400)
    ]
    for at, fact in enumerate(statements):
        place = 50 + 70 * at
        messages[place] = Message(messages[place].role, f"{make_text()} {fact} {make_text()}")
    result = compact_history(messages, budget=4_000)
    assert result.kind == "summary"
    assert [fact for fact in statements if fact not in result.text] == []


def test_the_extractive_default_says_each_thing_once_and_keeps_what_differs() -> None:
    """The same words with another number are not a repetition."""
    request = "We need the export of tenant 17 before the audit in Lyon."
    other = "We need the export of tenant 18 before the audit in Lyon."
    messages = [Message("user", request if n % 3 == 0 else f"ok {n} " + "fine " * 40) for n in range(200)]
    messages[100] = Message("user", other)
    summary = compact_history(messages, budget=1_500).summary
    assert summary is not None
    assert summary.count(request) == 1
    assert summary.count(other) == 1


def test_at_least_twice_as_many_planted_facts_survive_as_in_the_latest_messages(tmp_path: Path) -> None:
    """Uses the benchmark's facts, at 8,000 tokens, both methods in one run."""
    script = Path(__file__).parents[3] / "benchmarks" / "history" / "survival.py"
    found = tmp_path / "shares.json"
    for talk in ([], ["--busy"]):
        command = [sys.executable, script, "--chats", "2", "--json", found, *talk]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        shares = json.loads(found.read_text())
        for kind in ("requirement", "error", "decision", "state"):
            summary, latest = shares[kind]
            assert summary >= 0.8
            assert summary >= 2 * latest


def test_facts_in_many_styles_and_languages_survive(tmp_path: Path) -> None:
    """Uses phrasings that the rules were not tuned on, in chats of a thousand messages."""
    script = Path(__file__).parents[3] / "benchmarks" / "history" / "survival.py"
    found = tmp_path / "shares.json"
    options = ["--styles", "unseen", "--messages", "1000", "--chats", "1", "--json", found]
    subprocess.run([sys.executable, script, *options], check=True, capture_output=True, timeout=120)
    shares = json.loads(found.read_text())
    summary, latest = shares["all"]
    assert summary >= 0.85
    assert summary >= 2 * latest
    assert all(shares[f"({style})"][0] >= 0.6 for style in ("languages", "esl", "machines", "customers"))
