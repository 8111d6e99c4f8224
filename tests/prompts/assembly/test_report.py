"""Test the report, as JSON and as a table."""

from __future__ import annotations

import json

from rich.console import Console

from rlm.prompts import Budget, Item, Section, assemble, get_counter
from rlm.prompts.assembly.policy import Skip


def make():  # type: ignore[no-untyped-def]
    items = (Item("[bold]big", "x" * 100), Item("small", "yy", order=1))
    parts = [Section("ctx", "user", 0, 0, policy=Skip(), items=items)]
    return assemble(parts, Budget(50, headroom=5, counter=get_counter("chars"))).report


def test_json_holds_every_decision_and_the_totals() -> None:
    data = json.loads(json.dumps(make().to_json()))
    assert data["decisions"] == [
        {
            "section": "ctx",
            "id": "[bold]big",
            "status": "dropped",
            "reason": "only 45 tokens were left",
            "tokens_before": 100,
            "tokens_after": 0,
        },
        {
            "section": "ctx",
            "id": "small",
            "status": "included",
            "reason": "fits",
            "tokens_before": 2,
            "tokens_after": 2,
        },
    ]
    assert data["totals"] == {
        "budget": 50,
        "headroom": 5,
        "allowed": 45,
        "items": 2,
        "framing": 0,
        "prompt": 2,
    }
    assert data["counter"] == "chars/1"
    assert data["order"] == ["ctx"]
    assert data["actions"] == ["skip ctx: 104 to 2 tokens"]


def test_the_table_shows_the_same_and_takes_ids_literally() -> None:
    console = Console(width=120, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as captured:
        console.print(make())
    text = captured.get()
    assert "2 of 45 tokens (chars/1)" in text
    assert "[bold]big" in text
    assert "dropped" in text
    assert "skip ctx: 104 to 2 tokens" in text
