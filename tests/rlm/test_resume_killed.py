"""`kill -9` of the driver at any moment, against a provider that counts: nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlm.types import RunResult

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
    "What": (
        "import random\nlucky = random.random()\nparts = [(n * 2_000, n * 2_000 + 2_000) for n in range(3)]\n"
        "said = sub_rlm_batch([f'INNER {n}' for n in range(3)], parts)\nprint('lucky', lucky)",
        "more = [sub_rlm('INNER 1', parts[1]), sub_rlm('INNER 8', ['made here', (5, 900)])]\n"
        "lost = sub_rlm_batch(['STUBBORN 0'], [(0, 90)])",
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
    """The provider of a tree: STUBBORN ones break the contract from their second round on."""
    if "repl" not in received.system:
        return reply_to(received)
    told = "\n".join(str(message["content"]) for message in received.body["messages"][1:])
    rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
    blocks = TREE[re.findall(r"\b(What|INNER|DEEP|STUBBORN) (?:do|\d)", told)[0]]
    if rounds >= len(blocks):
        return "I will not."
    lucky = re.search(r"^lucky (\S+)$", told, re.M)
    code = blocks[rounds]
    return f"```repl\n{code.replace('{lucky}', lucky[1]) if lucky else code}\n```"


def reply_to(received: Any) -> str:
    """The provider: a root that writes BLOCKS in turn, children that say the hash of what they are asked."""
    time.sleep(0.004)
    if "repl" not in received.system:
        return "A" + hashlib.sha256(received.prompt.encode()).hexdigest()[:16]
    told = "\n".join(str(message["content"]) for message in received.body["messages"])
    rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
    seen = {
        name: found[1] for name in ("lucky", "told") if (found := re.search(rf"^{name} (\S+)$", told, re.M))
    }
    return f"```repl\n{BLOCKS[rounds].format(**seen) if rounds == 4 else BLOCKS[rounds]}\n```"


@dataclass
class Drivers:
    """Processes that run or resume, one after the other."""

    farm: subprocess.Popen[str]
    folder: Path
    order: dict[str, Any]

    def begin(self, **more: str) -> int:
        assert self.farm.stdin is not None
        assert self.farm.stdout is not None
        self.farm.stdin.write(json.dumps({**self.order, "out": str(self.folder / "out.json"), **more}) + "\n")
        self.farm.stdin.flush()
        return int(self.farm.stdout.readline())

    def end(self) -> int:
        assert self.farm.stdout is not None
        return int(self.farm.stdout.readline())

    def result(self) -> RunResult:
        return RunResult.from_json(json.loads((self.folder / "out.json").read_text()))


@pytest.fixture(scope="module")
def farm() -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).parent.parent / "forking_driver.py"
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def drivers(farm, provider_server, sandbox_level, tmp_path) -> Drivers:
    provider_server.always = reply_to
    (tmp_path / "parts.txt").write_text(BODY)
    order = {
        "model": f"openai:m@{provider_server.url}/v1",
        "store": str(tmp_path / "rlm.db"),
        "sandbox": sandbox_level,
        "key": "key-of-the-first",
        "context": str(tmp_path / "parts.txt"),
    }
    return Drivers(farm, tmp_path, order)


def journalled(store: Path) -> list[tuple[str, dict[str, Any]]]:
    """The events in a store of one run."""
    database = sqlite3.connect(store)
    try:
        rows = database.execute("SELECT kind, data FROM events ORDER BY seq").fetchall()
    finally:
        database.close()
    return [(kind, json.loads(data)) for kind, data in rows]


def count_events(store: Path) -> int:
    if not store.exists():
        return 0
    database = sqlite3.connect(store)
    try:
        return int(database.execute("SELECT count(*) FROM events").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # it is being made
    finally:
        database.close()


def wait_for(store: Path, count: int) -> None:
    """Until so many events are in the store."""
    while count_events(store) < count:
        time.sleep(0.002)


def killed_at(drivers: Drivers, count: int, pause: float) -> list[tuple[str, dict[str, Any]]]:
    """Begin a run and kill it -9 `pause` seconds after it has so many events. What its journal has then."""
    store = Path(drivers.order["store"])
    pid = drivers.begin()
    wait_for(store, count)
    time.sleep(pause)
    os.kill(pid, signal.SIGKILL)
    drivers.end()
    return journalled(store)


def replies(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["reply"] for _, data in events if "reply" in data]


@pytest.fixture(scope="module")
def undisturbed_tree() -> list[Any]:
    """The same of a tree."""
    return []


@pytest.fixture(scope="module")
def undisturbed() -> list[Any]:
    """What the run answers when nobody kills it, kept by the first test."""
    return []


def check_undisturbed(drivers: Drivers, undisturbed: list[Any]) -> Any:
    if not undisturbed:
        drivers.begin()
        assert drivers.end() == 0
        result = drivers.result()
        events = journalled(Path(drivers.order["store"]))
        assert (result.stop_reason, result.rounds) == ("finalized", 5)
        assert result.answer[3:] == [True, True]
        undisturbed.extend([result.answer, len(events), sorted(replies(events))])
        for path in (*drivers.folder.glob("rlm.db*"), drivers.folder / "out.json"):
            path.unlink()
    return undisturbed


@pytest.mark.parametrize("share", range(20))
def test_a_killed_run_is_resumed_from_any_event(drivers, provider_server, undisturbed, share) -> None:
    """driver.md 6.2: 20 moments, from the first event to the last: the answer of the undisturbed run, and no
    call whose reply was journalled is paid again."""
    answer, length, all_replies = check_undisturbed(drivers, undisturbed)
    chance = random.Random(share)
    at = 1 + share * (length - 2) // 19
    events = killed_at(drivers, at, chance.choice((0.0, 0.0, 0.002, 0.01, 0.03)))
    assert len(events) >= at
    (run_id,) = names(drivers)
    drivers.begin(resume=run_id, key="key-of-the-second")
    assert drivers.end() == 0
    result = drivers.result()
    assert result.answer == answer
    # Each call of the undisturbed run is either journalled before the kill or asked after it.
    known = Counter(map(named, replies(events)))
    # What the killed process still had on its way may reach the server after it: the key tells them apart.
    asked_again = Counter(
        named(reply_to(one))
        for one in provider_server.requests
        if one.headers["authorization"].endswith("second")
    )
    assert known + asked_again == Counter(map(named, all_replies))
    after = journalled(Path(drivers.order["store"]))
    assert after[: len(events)] == events
    assert len(replies(after)) == len(all_replies)
    # The budget goes on from what was spent.
    assert result.usage[0].calls == len(all_replies)
    assert result.sub_calls == len(all_replies) - 5
    assert not any("as before" in warning for warning in result.warnings)


def named(reply: str) -> str:
    """A reply without what chance and time have put into it."""
    return re.sub(r"== \S+?([,\]])", r"== X\1", reply)


def names(drivers: Drivers) -> list[str]:
    database = sqlite3.connect(drivers.order["store"])
    try:
        return [name for (name,) in database.execute("SELECT run_id FROM runs")]
    finally:
        database.close()


@pytest.mark.parametrize("share", range(3))
def test_a_killed_tree_is_resumed_from_any_event(drivers, provider_server, undisturbed_tree, share) -> None:
    """driver.md 6.2: also where sub-RLMs run beside each other, two levels down, and one of them fails."""
    provider_server.always = reply_in_a_tree
    drivers.order["depth"] = 2
    if not undisturbed_tree:
        drivers.begin()
        assert drivers.end() == 0
        answer = drivers.result().answer
        assert answer[2:] == [[0], True]
        events = journalled(Path(drivers.order["store"]))
        undisturbed_tree.extend([answer, len(events), replies(events)])
        for path in (*drivers.folder.glob("rlm.db*"), drivers.folder / "out.json"):
            path.unlink()
    answer, length, all_replies = undisturbed_tree
    events = killed_at(drivers, 3 + share * (length - 6) // 2, 0.0)
    (run_id,) = names(drivers)
    drivers.begin(resume=run_id, key="key-of-the-second")
    assert drivers.end() == 0
    result = drivers.result()
    assert result.answer == answer
    asked_again = [
        reply_in_a_tree(one)
        for one in provider_server.requests
        if one.headers["authorization"].endswith("second")
    ]
    assert Counter(map(named, replies(events) + asked_again)) == Counter(map(named, all_replies))
    assert result.usage[0].calls == len(all_replies)
    assert not any("as before" in warning for warning in result.warnings)


def test_a_run_that_is_killed_again_and_again_still_ends(drivers, undisturbed) -> None:
    """driver.md 6.2: also while it is being resumed."""
    answer, length, _ = check_undisturbed(drivers, undisturbed)
    killed_at(drivers, 4, 0.0)
    (run_id,) = names(drivers)
    for at in (length // 3, length // 2, length * 3 // 4):
        pid = drivers.begin(resume=run_id)
        wait_for(Path(drivers.order["store"]), at)
        os.kill(pid, signal.SIGKILL)
        drivers.end()
    drivers.begin(resume=run_id)
    assert drivers.end() == 0
    assert drivers.result().answer == answer
