"""Test `kill -9` of the driver at any moment, with a provider that counts: nothing is paid for twice."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from driver_processes import Drivers, Events

from rlm.results import RunResult

BODY = "".join(f"Part {number} says the word w{number * 7919 % 1000}.\n" for number in range(600))

BLOCKS = (
    "import random\nlucky = random.random()\nhits = search(r'w\\d+', max_hits=3)\nprint('lucky', lucky)",
    "parts = chunk(max_chars=2_000)\nsaid = sub_query_batch('What does it say?', parts)\nprint(len(said))",
    "told = evaluate_progress()['limits']['seconds']['used']\nprint('told', told)",
    "deep = [str(sub_query('And then?', said[0], sample=n)) for n in range(3)]\n"
    "more = sub_query_map(['More on ' + str(one) for one in said[:4]])",
    "finalize([[str(one) for one in said], deep, [str(one) for one in more], lucky == {lucky}, "
    "told == {told}])",
)

TREE = {
    "Report": (
        "import random\nlucky = random.random()\nparts = [(n * 2_000, n * 2_000 + 2_000) for n in range(3)]\n"
        "said = sub_rlm([f'INNER {n}' for n in range(3)], parts)\nprint('lucky', lucky)",
        "more = [sub_rlm('INNER 1', parts[1]), sub_rlm('INNER 8', ['made here', (5, 900)])]\n"
        "lost = sub_rlm(['STUBBORN 0'], [(0, 90)])",
        "finalize([[str(one) for one in said], [str(one) for one in more], lost.failed, lucky == {lucky}])",
    ),
    "INNER": (
        "import random\nlucky = random.random()\nsaid = sub_query_batch('Say?', chunk(max_chars=500))\n"
        "print('lucky', lucky)",
        "deep = sub_rlm('DEEP 0', (0, 200))",
        "finalize([[str(one) for one in said], str(deep), lucky == {lucky}])",
    ),
    "DEEP": ("said = sub_query('Deeper?', (0, 100))", "finalize(str(said) + peek(0, 9))"),
    "STUBBORN": ("said = sub_query('Why?', (0, 50))",),
}
"""What the roots of a tree write, by the first word of their task."""


def reply_in_a_tree(received: Any) -> str:
    """Play the provider of a tree. STUBBORN roots break the contract from their second round on."""
    if "repl" not in received.system:
        return reply_to(received)
    prompt_text = "\n".join(str(message["content"]) for message in received.body["messages"][1:])
    rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
    blocks = TREE[re.findall(r"\b(Report|INNER|DEEP|STUBBORN) (?:what|\d)", prompt_text)[0]]
    if rounds >= len(blocks):
        return "I will not."
    lucky = re.search(r"^lucky (\S+)$", prompt_text, re.M)
    code = blocks[rounds]
    return f"```repl\n{code.replace('{lucky}', lucky[1]) if lucky else code}\n```"


def reply_to(received: Any) -> str:
    """Play the provider: a root that writes BLOCKS in turn, and children that reply with the hash of their
    prompt.
    """
    time.sleep(0.004)
    if "repl" not in received.system:
        return "A" + hashlib.sha256(received.prompt.encode()).hexdigest()[:16]
    prompt_text = "\n".join(str(message["content"]) for message in received.body["messages"])
    rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
    seen = {
        name: found[1]
        for name in ("lucky", "told")
        if (found := re.search(rf"^{name} (\S+)$", prompt_text, re.M))
    }
    return f"```repl\n{BLOCKS[rounds].format(**seen) if rounds == 4 else BLOCKS[rounds]}\n```"


@pytest.fixture(autouse=True)
def _over_parts(provider_server: Any, tmp_path: Path) -> None:
    provider_server.always = reply_to
    (tmp_path / "parts.txt").write_text(BODY)


def result_of(drivers: Drivers) -> RunResult:
    return RunResult.from_json(drivers.outcome())


def replies(events: Events) -> list[str]:
    return [data["reply"] for _, data in events if "reply" in data]


@pytest.fixture(scope="module")
def undisturbed_tree() -> list[Any]:
    """Hold the result of a tree that nobody kills."""
    return []


@pytest.fixture(scope="module")
def undisturbed() -> list[Any]:
    """Hold the result of the run that nobody kills. The first test stores it."""
    return []


def check_undisturbed(drivers: Drivers, undisturbed: list[Any]) -> Any:
    if not undisturbed:
        drivers.begin()
        assert drivers.end() == 0
        result = result_of(drivers)
        events = drivers.events()
        assert (result.stop_reason, result.rounds) == ("finalized", 5)
        assert result.answer[3:] == [True, True]
        undisturbed.extend([result.answer, len(events), sorted(replies(events))])
        drivers.forget()
    return undisturbed


@pytest.mark.parametrize("share", range(20))
def test_a_killed_run_is_resumed_from_any_event(drivers, provider_server, undisturbed, share) -> None:
    """At 20 moments from the first event to the last, the answer is that of the undisturbed run, and no
    journalled reply is paid again.
    """
    answer, length, all_replies = check_undisturbed(drivers, undisturbed)
    chance = random.Random(share)
    at = 1 + share * (length - 2) // 19
    events = drivers.kill_at(at, chance.choice((0.0, 0.0, 0.002, 0.01, 0.03)))
    assert len(events) >= at
    drivers.begin(resume=drivers.run_id, key="key-of-the-second")
    assert drivers.end() == 0
    result = result_of(drivers)
    assert result.answer == answer
    # Each call of the undisturbed run is either journalled before the kill or made after it.
    known = Counter(map(without_chance, replies(events)))
    # A request that the killed process had sent may reach the server later. Its key tells it apart.
    asked_again = Counter(
        without_chance(reply_to(one))
        for one in provider_server.requests
        if one.headers["authorization"].endswith("second")
    )
    assert known + asked_again == Counter(map(without_chance, all_replies))
    after = drivers.events()
    assert after[: len(events)] == events
    assert len(replies(after)) == len(all_replies)
    # The budget continues from what was spent.
    assert result.usage[0].calls == len(all_replies)
    assert result.sub_calls == len(all_replies) - 5
    assert not any("as before" in warning for warning in result.warnings)


def without_chance(reply: str) -> str:
    """Return a reply without its random and timed parts."""
    return re.sub(r"== \S+?([,\]])", r"== X\1", reply)


@pytest.mark.parametrize("share", range(5))
def test_a_killed_tree_is_resumed_from_any_event(drivers, provider_server, undisturbed_tree, share) -> None:
    """Sub-RLMs run side by side, two levels down, and one of them fails."""
    provider_server.always = reply_in_a_tree
    drivers.order["depth"] = 2
    if not undisturbed_tree:
        drivers.begin()
        assert drivers.end() == 0
        answer = result_of(drivers).answer
        assert answer[2:] == [[0], True]
        events = drivers.events()
        undisturbed_tree.extend([answer, len(events), replies(events)])
        drivers.forget()
    answer, length, all_replies = undisturbed_tree
    events = drivers.kill_at(3 + share * (length - 6) // 4)
    drivers.begin(resume=drivers.run_id, key="key-of-the-second")
    assert drivers.end() == 0
    result = result_of(drivers)
    assert result.answer == answer
    asked_again = [
        reply_in_a_tree(one)
        for one in provider_server.requests
        if one.headers["authorization"].endswith("second")
    ]
    assert Counter(map(without_chance, replies(events) + asked_again)) == Counter(
        map(without_chance, all_replies)
    )
    assert result.usage[0].calls == len(all_replies)
    assert not any("as before" in warning for warning in result.warnings)


def test_a_run_that_is_killed_again_and_again_still_ends(drivers, undisturbed) -> None:
    """The kills also hit it while it is being resumed."""
    answer, length, _ = check_undisturbed(drivers, undisturbed)
    drivers.kill_at(4)
    for at in (length // 3, length // 2, length * 3 // 4):
        drivers.kill_at(at, resume=drivers.run_id)
    drivers.begin(resume=drivers.run_id)
    assert drivers.end() == 0
    assert result_of(drivers).answer == answer
