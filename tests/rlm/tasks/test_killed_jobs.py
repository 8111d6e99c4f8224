"""Research and comparisons killed with -9 at any moment.

They resume without paying an answered call again, and have the same result as without the kill.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from driver_processes import Drivers, Events

BODY = "".join(f"Part {number} says the word w{number * 7919 % 1000}.\n" for number in range(300))
QUESTIONS = ("Which word does part 7 say?", "Which word does part 150 say?", "Which word does part 299 say?")
BLOCKS = (
    "hits = search(r'Part {n} says', max_hits=1)\nsaid = sub_query_batch('What does it say?', chunk(3_000))",
    "line = hits[0]\nfinalize('It is said in the first line. [1]', evidence=[(line.start, line.start + 20)])",
)


def reply_to(received: Any) -> str:
    """The provider: a planner, roots that write BLOCKS in turn, children that say their prompt's hash."""
    time.sleep(0.003)
    told = received.prompt
    if told.startswith("Plan research"):
        return "\n".join(f"- {question}" for question in QUESTIONS)
    if told.startswith("Below are numbered passages"):
        return json.dumps([{"sources": [1, 2], "about": "the word"}])
    if told.startswith("Below are the questions"):
        return "They say words [1][2][3]."
    if "repl" not in received.system:
        return "A" + hashlib.sha256(json.dumps(received.body["messages"]).encode()).hexdigest()[:16]
    messages = received.body["messages"]
    rounds = sum(message["role"] == "assistant" for message in messages)
    asked = "\n".join(str(message["content"]) for message in messages)
    number = next((n for n in ("7", "150", "299") if f"does part {n} say" in asked), "1")
    return f"```repl\n{BLOCKS[min(rounds, 1)].format(n=number)}\n```"


@pytest.fixture(autouse=True)
def _over_parts(provider_server: Any, tmp_path: Path) -> None:
    provider_server.always = reply_to
    (tmp_path / "parts.txt").write_text(BODY)


def replies(events: Events) -> Counter[str]:
    """What was paid for, by the place in the job and the reply."""
    return Counter(f"{data.get('within', '')} {data['reply']}" for _, data in events if "reply" in data)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """What the jobs come to when nobody kills them, kept by the first test of each."""
    return {}


def check_undisturbed(
    drivers: Drivers, undisturbed: dict[str, Any]
) -> tuple[dict[str, Any], int, Counter[str]]:
    job = drivers.order["job"]
    if job not in undisturbed:
        drivers.begin()
        assert drivers.end() == 0
        events = drivers.events()
        undisturbed[job] = (drivers.outcome(), len(events), replies(events))
        drivers.forget()
    found: tuple[dict[str, Any], int, Counter[str]] = undisturbed[job]
    return found


def settled(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome without what differs from run to run: its name, its time, its server's port."""
    same = re.sub(r"127\.0\.0\.1:\d+", "server", json.dumps(outcome))
    varying = ("run_id", "seconds")
    kept = {key: value for key, value in json.loads(same).items() if key not in varying}
    for question in kept.get("questions", ()):
        question.pop("seconds", None)
    if "rows" in kept:
        kept["rows"] = [
            {key: value for key, value in row.items() if key not in ("run_id", "seconds")}
            for row in kept["rows"]
        ]
    return kept


@pytest.mark.parametrize("job", ["research", "compare"])
@pytest.mark.parametrize("share", range(5))
def test_a_killed_job_resumes_from_any_event(
    drivers: Drivers, provider_server: Any, undisturbed: dict[str, Any], job: str, share: int
) -> None:
    """kill -9 from its first event to its last: the report of the undisturbed job, byte by byte, its
    citations, its coverage; no call whose reply was journalled is asked again; one run in the journal."""
    drivers.order["job"] = job
    outcome, length, all_replies = check_undisturbed(drivers, undisturbed)
    assert outcome["stop_reason" if job == "research" else "recommendation"]
    events = drivers.kill_at(1 + share * (length - 2) // 4)
    drivers.begin(resume=drivers.run_id, key="key-of-the-second")
    assert drivers.end() == 0
    assert settled(drivers.outcome()) == settled(outcome)
    assert replies(drivers.events()) == all_replies
    again = [one for one in provider_server.requests if one.headers["authorization"].endswith("second")]
    assert len(again) == all_replies.total() - replies(events).total()
    if share:
        return
    # Its end is in the journal: it is given once more without asking anybody.
    drivers.begin(resume=drivers.run_id, key="key-of-the-third")
    assert drivers.end() == 0
    assert settled(drivers.outcome()) == settled(outcome)
    assert not [one for one in provider_server.requests if one.headers["authorization"].endswith("third")]


def test_a_research_that_is_killed_again_and_again_still_ends(
    drivers: Drivers, undisturbed: dict[str, Any]
) -> None:
    """Also while it is being resumed. What it spent is counted once."""
    drivers.order["job"] = "research"
    outcome, length, all_replies = check_undisturbed(drivers, undisturbed)
    drivers.kill_at(4)
    for share in (1, 2, 3):
        drivers.kill_at(max(6, length * share // 4), resume=drivers.run_id)
    drivers.begin(resume=drivers.run_id)
    assert drivers.end() == 0
    assert drivers.outcome()["report"] == outcome["report"]
    assert settled(drivers.outcome()) == settled(outcome)
    assert replies(drivers.events()) == all_replies


def test_a_research_is_one_run_with_its_questions_under_it(
    drivers: Drivers, undisturbed: dict[str, Any]
) -> None:
    """The one run in the journal has the calls of each question under the question's name."""
    drivers.order["job"] = "research"
    outcome, _, all_replies = check_undisturbed(drivers, undisturbed)
    parts = {key.partition(" ")[0] for key in all_replies}
    assert parts == {"", "q1", "q2", "q3"}
    assert outcome["usage"][0]["calls"] == all_replies.total()
    assert [one["question"] for one in outcome["findings"]] == ["1", "2", "3"]
