"""Test the context of a card's prompt: what is included, in which order, and how much of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlm.prompts import Adr, CardBudget, CardInput, CardPrompt, CardSettings, Library, SourceFile, get_counter
from rlm.prompts.recipes.card_settings import CONTEXT_KINDS

CHARS = get_counter("chars")


def parts(prompt: Any) -> dict[str, str]:
    return {section.name: section.content for section in prompt.sections}


def context(given: dict[str, Any], *, state: str = "coding", settings: CardSettings | None = None) -> str:
    return parts(CardPrompt(settings).assemble(CardInput(state=state, **given)))["context"]


def settings_with(other: int, **fields: Any) -> CardSettings:
    """Make settings that count characters, with `other` of them for the context."""
    budget = CardBudget(9_000, 9_000, 9_000, other, 90_000)
    return CardSettings(budget, counter=CHARS, **fields)


def test_notes_are_always_in_and_cut_only_when_larger_than_the_whole_budget() -> None:
    """Notes are required."""
    note = "n" * 400
    files = (SourceFile("a.py", "x" * 200),)
    made = context({"notes": (note,), "source_files": files}, settings=settings_with(450))
    assert made == f"## Notes\n\n{note}"
    cut = context({"notes": (note,)}, settings=settings_with(300))
    assert len(cut) <= 300
    assert re.match(r"## Notes\n\nn{200,}\n\[… \d+ characters cut …\]", cut)


@pytest.mark.parametrize("state", ["coding", "planning", "review", "testing", "unknown"])
def test_logs_enter_only_while_errors_are_fixed(state: str) -> None:
    """Build log, then pod log, only in error_fixing."""
    logs = {"build_logs": "BUILD", "pod_logs": "POD"}
    assert context(logs, state=state) == ""
    assert context(logs, state="error_fixing") == (
        "## Build Logs\n```\nBUILD\n```\n\n## Pod Logs\n```\nPOD\n```"
    )


def test_a_log_with_fences_can_not_break_out() -> None:
    """The fence is longer than any in the log, even if the log was cut."""
    log = "one\n```\n# Orders\n````\nten\n" * 50
    for budget in (9_000, 600):
        made = context({"build_logs": log}, state="error_fixing", settings=settings_with(budget))
        assert made.startswith("## Build Logs\n`````\n")
        assert made.endswith("\n`````")
        assert len(re.findall(r"^`{5,}$", made, re.MULTILINE)) == 2
    assert "characters cut" in made


def test_tokens_of_logs_are_deducted_before_files_come() -> None:
    """Files get what the logs leave."""
    file = SourceFile("a.py", "x" * 100)
    logs = {"build_logs": "L" * 3_000, "source_files": (file,)}
    assert "a.py" in context(logs, state="coding", settings=settings_with(4_000))
    assert "a.py" not in context(logs, state="error_fixing", settings=settings_with(4_000))
    assert "a.py" in context(logs, state="error_fixing", settings=settings_with(4_100))


def test_files_enter_while_more_than_1000_remain_and_decisions_while_more_than_500() -> None:
    """Each must also fit."""
    files = tuple(SourceFile(f"f{n}.py", "x" * 270) for n in range(20))
    made = context({"source_files": files}, settings=settings_with(3_000))
    assert made.count("### f") == 7  # 300 each; after seven, fewer than 1,000 are left
    adrs = tuple(Adr(f"ADR {n}", "x" * 290) for n in range(20))
    made = context({"adrs": adrs}, settings=settings_with(3_000))
    assert made.count("### ADR") == 9
    huge_first = (SourceFile("huge.py", "h" * 5_000), *files[:1])
    made = context({"source_files": huge_first}, settings=settings_with(3_000))
    assert "huge.py" not in made
    assert "f0.py" in made


def test_every_log_keeps_a_share_however_large_the_others_are() -> None:
    """The pod log and the results are there beside a huge build log, with their ends."""
    logs = {
        "build_logs": "build\n" * 5_000 + "build ends",
        "pod_logs": "pod\n" * 5_000 + "pod ends",
        "test_results": "test\n" * 5_000 + "tests end",
    }
    made = context(logs, state="error_fixing", settings=settings_with(5_000))
    assert len(made) <= 5_000
    for heading, end in (
        ("## Build Logs", "build ends"),
        ("## Pod Logs", "pod ends"),
        ("## Test Results", "tests end"),
    ):
        assert heading in made
        assert end in made
    sizes = {text.split("\n")[0]: len(text) for text in made.split("## ")[1:]}
    assert min(sizes.values()) >= 900
    assert sizes["Build Logs"] > 2_000


def test_what_remains_is_never_negative() -> None:
    """The context stays within its budget for any input."""
    everything = {
        "notes": ("n" * 900,),
        "adrs": (Adr("a", "a" * 900),),
        "libraries": (Library("l", "l" * 900),),
        "source_files": (SourceFile("s.py", "s" * 900),),
        "build_logs": "b" * 900,
        "pod_logs": "p" * 900,
        "test_results": "t" * 900,
    }
    for budget in range(950, 7_000, 137):
        made = context(everything, state="error_fixing", settings=settings_with(budget))
        assert len(made) <= budget
        assert "n" * 900 in made


def test_all_seven_priorities_are_used() -> None:
    """In default order, or in the configured one."""
    assert dict(CONTEXT_KINDS) == {
        "notes": 100,
        "build_logs": 90,
        "pod_logs": 85,
        "source_files": 80,
        "test_results": 75,
        "adrs": 50,
        "libraries": 40,
    }
    everything = {
        "notes": ("N",),
        "adrs": (Adr("a", "A"),),
        "libraries": (Library("l", "L"),),
        "source_files": (SourceFile("s.py", "S"),),
        "build_logs": "B",
        "pod_logs": "P",
        "test_results": "T",
    }
    headings = [
        "Notes",
        "Build Logs",
        "Pod Logs",
        "Source Files",
        "Test Results",
        "Architecture Decision Records",
        "Libraries",
    ]
    made = context(everything, state="error_fixing")
    assert re.findall(r"^## (.*)$", made, re.MULTILINE) == headings
    turned = {kind: 100 - value for kind, value in CONTEXT_KINDS.items()}
    made = context(everything, state="error_fixing", settings=CardSettings(priorities=turned))
    assert re.findall(r"^## (.*)$", made, re.MULTILINE) == headings[::-1]


def test_empty_inputs_leave_no_heading() -> None:
    """For missing and for blank inputs."""
    blank = {
        "notes": ("", "  \n"),
        "adrs": (Adr("a", " "),),
        "libraries": (Library("l", ""),),
        "source_files": (SourceFile("s", "\n"),),
        "build_logs": " \n",
        "test_results": "",
    }
    assert context(blank, state="error_fixing") == ""
