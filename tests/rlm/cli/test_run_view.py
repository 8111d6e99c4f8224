"""Test what `rlm show` prints of a run that was killed."""

from __future__ import annotations

from rlm.cli.console.run_view import RunView
from rlm.journal.events import JournalEvent

RESULT = {"status": "ok", "stdout": "done", "result": None, "traceback": None, "evalue": None, "seconds": 1.0}
CELL = {"round": 1, "code": "sub_query_batch('?', parts)", "result": RESULT}
SETTINGS = {"model": "m", "sub_model": "m", "context_chars": 9, "documents": 1}


def shown(capsys, *events: tuple[str, dict]) -> str:
    RunView(full=False).show(JournalEvent("r", seq, 0.0, *event) for seq, event in enumerate(events, 1))
    return capsys.readouterr().out


def child(name: str) -> tuple[str, dict]:
    return "child", {"asked": name, "reply": f"reply {name}", "round": 1, "spans": []}


STARTED = ("run_started", {"task": "Which?", "settings": SETTINGS})
CALLED = ("model_call", {"role": "root", "round": 1, "usage": {}, "cost_usd": 0.5})


def test_children_from_before_a_kill_stand_within_their_round(capsys) -> None:
    text = shown(capsys, STARTED, CALLED, child("a"), ("resumed", {}), child("b"), ("cell", CELL))
    assert text.index("round 1: ok") < text.index("reply a") < text.index("reply b") < text.index("done")


def test_an_unfinished_round_is_named_and_counted(capsys) -> None:
    text = shown(capsys, STARTED, CALLED, child("a"), ("interrupted", {"stop_reason": "cancelled"}))
    assert text.index("round 1: not ended") < text.index("reply a")
    assert text.endswith("stopped; so far: 1 round · 1 of 1 child · $0.5000\n")
