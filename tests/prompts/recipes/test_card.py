"""Test the card pipeline."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlm.prompts import (
    BudgetExceeded,
    CardBudget,
    CardInput,
    CardPrompt,
    CardSettings,
    InputError,
    Library,
    Message,
    SourceFile,
    UnknownStage,
    get_counter,
    is_complete,
)
from rlm.prompts.recipes.card import card_stage
from rlm.prompts.recipes.card_settings import CONTEXT_KINDS

CHARS = get_counter("chars")
EXAMPLE = json.loads((Path(__file__).parents[3] / "examples" / "card.json").read_text(encoding="utf-8"))
STAGES = {
    "planning": ("architecture decisions", "implementation steps", "risk"),
    "coding": ("implementing the feature", "tests first", "quality"),
    "review": ("addressing the feedback", "fixing the issues", "explaining the changes"),
    "testing": ("writing and fixing tests", "coverage", "edge cases"),
    "error_fixing": ("analyzing the error", "root cause", "implementing a fix"),
}
# The settings file that the pipeline was described with, word for word.
SEED_CONFIG = """\
# config.toml

[prompt]
# Token budgets
system_prompt_budget = 1000
agent_prompt_budget = 1500
chat_history_budget = 10000
other_context_budget = 15000

# RLM settings
[prompt.rlm]
# Model to use for summarization (smaller = cheaper)
model = "claude-3-haiku"
# Trigger RLM when history exceeds this percentage of budget
threshold_percentage = 80

# Context priorities (higher = included first)
[prompt.context_priority]
notes = 100
build_logs = 90      # When in error-fixing state
pod_logs = 85        # When in error-fixing state
source_files = 80
test_results = 75
adrs = 50
libraries = 40
"""


def parts(prompt: Any) -> dict[str, str]:
    return {section.name: section.content for section in prompt.sections}


def context(given: dict[str, Any], *, state: str = "coding", settings: CardSettings | None = None) -> str:
    return parts(CardPrompt(settings).assemble(CardInput(state=state, **given)))["context"]


def settings_with(other: int, **fields: Any) -> CardSettings:
    """Make settings that count characters, with `other` of them for the context."""
    budget = CardBudget(9_000, 9_000, 9_000, other, 90_000)
    return CardSettings(budget, counter=CHARS, **fields)


def talk(count: int, size: int = 60) -> tuple[Message, ...]:
    return tuple(
        Message("user" if n % 2 == 0 else "assistant", f"Message {n}: " + "word " * (size // 5))
        for n in range(count)
    )


def test_four_sections_in_order_always_with_name_content_and_tokens() -> None:
    """System, agent, history and context, even if empty."""
    empty = CardPrompt().assemble(CardInput())
    assert [section.name for section in empty.sections] == ["system", "agent", "history", "context"]
    assert [bool(section.content) for section in empty.sections] == [True, True, False, False]
    assert [section.tokens > 0 for section in empty.sections] == [True, True, False, False]

    full = CardPrompt().assemble(EXAMPLE)
    data = full.to_json()
    assert [section["name"] for section in data["sections"]] == ["system", "agent", "history", "context"]
    assert all(section["content"] and section["tokens"] > 0 for section in data["sections"])
    assert data["prompt"] == "\n\n".join(section["content"] for section in data["sections"])


def test_system_has_role_constraints_output_format_guardrails_and_the_signal() -> None:
    """The signal is in system and agent, and can be configured."""
    found = parts(CardPrompt().assemble(CardInput()))
    assert found["system"].startswith("You are a senior software engineer")
    for part in ("## Guidelines", "## Guardrails", "secrets", "## Output format", "Markdown"):
        assert part in found["system"]
    for name in ("system", "agent"):
        assert "<promise>COMPLETE</promise>" in found[name]
    other = parts(CardPrompt(CardSettings(promise="<<FERTIG>>")).assemble(CardInput()))
    for name in ("system", "agent"):
        assert "<<FERTIG>>" in other[name]
        assert "promise" not in other[name]


def test_five_stages_each_with_its_own_foci() -> None:
    """The prompts differ, and each names the focus of its stage."""
    agents = {stage: parts(CardPrompt().assemble(CardInput(state=stage)))["agent"] for stage in STAGES}
    assert len(set(agents.values())) == 5
    for stage, foci in STAGES.items():
        for focus in foci:
            assert focus in agents[stage]


def test_an_unknown_state_falls_back_to_default_then_coding_then_an_error() -> None:
    """The error is typed."""

    def agent(agents: dict[str, str] | None) -> str:
        settings = CardSettings(agents=agents)
        return parts(CardPrompt(settings).assemble(CardInput(state="deploying")))["agent"]

    assert "last request" in agent(None)
    assert agent({"coding": "CODE", "default": "ANY"}).startswith("ANY")
    assert agent({"coding": "CODE", "planning": "PLAN"}).startswith("CODE")
    with pytest.raises(UnknownStage, match="'deploying': use one of planning"):
        agent({"planning": "PLAN"})


@pytest.mark.parametrize("state", ["error_fixing", "ErrorFixing", "error fixing", "Error-Fixing"])
def test_states_are_known_however_they_are_written(state: str) -> None:
    assert card_stage(state) == "error_fixing"
    assert card_stage("CodeReview") == card_stage("code_review") == card_stage("review") == "review"


def test_defaults() -> None:
    """1000 / 1500 / 10000 / 15000, total 27500."""
    budget = CardSettings().budget
    assert (budget.system_prompt, budget.agent_prompt) == (1_000, 1_500)
    assert (budget.chat_history, budget.other_context, budget.total) == (10_000, 15_000, 27_500)
    totals = CardPrompt().assemble(EXAMPLE).report.totals
    assert totals.allowed == 27_500


def test_budgets_that_add_up_to_more_than_the_total_are_an_error() -> None:
    """The error names the sum and the total."""
    with pytest.raises(InputError, match=r"prompt\.total_budget is 27,500.*add up to 27,501"):
        CardBudget(other_context=15_001)
    assert CardBudget(other_context=15_001, total=27_501).total == 27_501


@pytest.mark.parametrize("name", ["system", "agent"])
def test_a_static_section_over_its_budget_is_an_error(name: str) -> None:
    """It is never cut silently."""
    whole = CardPrompt().assemble(CardInput())
    tokens = {section.name: section.tokens for section in whole.sections}
    exact = CardBudget(**{"system_prompt": 1_000, "agent_prompt": 1_500, f"{name}_prompt": tokens[name]})
    assert parts(CardPrompt(CardSettings(exact)).assemble(CardInput())) == parts(whole)
    short = CardBudget(**{"system_prompt": 1_000, "agent_prompt": 1_500, f"{name}_prompt": tokens[name] - 1})
    with pytest.raises(BudgetExceeded) as caught:
        CardPrompt(CardSettings(short)).assemble(CardInput())
    assert caught.value.sections == (name,)


@pytest.mark.parametrize(("over", "asked"), [(0, False), (1, True)])
def test_a_history_at_its_threshold_is_whole_and_above_it_is_summarised(over: int, asked: bool) -> None:
    """The threshold is floor(budget × percentage / 100). At it, no model is called."""
    messages = talk(40)
    whole = "\n\n".join(f"{message.role}: {message.content}" for message in messages)
    budget = next(n for n in range(1, 99_999) if n * 80 // 100 == len(whole) - over)
    prompts: list[str] = []

    def summarize(prompt: str) -> str:
        prompts.append(prompt)
        return "## Task Summary\n- in short"

    settings = CardSettings(CardBudget(9_000, 9_000, budget, 0, 99_999), counter=CHARS)
    made = CardPrompt(settings, summarizer=summarize).assemble(CardInput(messages=messages))
    assert bool(prompts) is asked
    assert made.condensed is asked
    assert (parts(made)["history"] == whole) is not asked


def test_the_summary_has_five_headings_and_keeps_what_matters() -> None:
    """Uses the summary without a model. tests/prompts/history measures how much it keeps."""
    facts = [
        Message("user", "The export must finish within 90 seconds and must keep the column order."),
        Message("assistant", "We decided to stream rows instead of loading them, because memory ran out."),
        Message(
            "assistant", "Error: psycopg.OperationalError: timeout expired. The cause was a missing index."
        ),
        Message("assistant", "Current state: the exporter streams; its tests are not written."),
        Message("user", "Still to do: write the tests and update the README."),
    ]
    filler = [
        Message("assistant", f"Ok, looking at file number {n} now, nothing to note.") for n in range(300)
    ]
    settings = CardSettings(CardBudget(1_000, 1_500, 2_000, 0, 27_500))
    made = CardPrompt(settings).assemble(CardInput(messages=(*facts, *filler)))
    history = parts(made)["history"]
    assert made.condensed
    assert {section.name: section.tokens for section in made.sections}["history"] <= 2_000
    for heading in ("Task Summary", "Key Decisions", "Errors Resolved", "Current State", "Remaining Work"):
        assert f"## {heading}" in history
    for fact in ("90 seconds", "stream rows", "timeout expired"):
        assert fact in history


def test_a_card_may_have_a_threshold_of_its_own() -> None:
    card = {"messages": [{"role": "user", "content": f"Take port {n}, not {n + 1}."} for n in range(400)]}
    whole = CardPrompt(CardSettings(budget=CardBudget(chat_history=90_000, total=120_000))).assemble(card)
    size = get_counter().count(next(part.content for part in whole.sections if part.name == "history"))
    budget = CardBudget(chat_history=size * 4 // 3, total=120_000)
    maker = CardPrompt(CardSettings(budget=budget), summarizer=lambda prompt: "All ports were named.")
    assert not maker.assemble(card).condensed
    assert maker.assemble({**card, "threshold_percentage": 50}).condensed
    with pytest.raises(InputError, match="threshold_percentage"):
        maker.assemble(CardInput(threshold_percentage=0))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"sistem_prompt_budget": 1}, "prompt.sistem_prompt_budget"),
        ({"system_prompt_budget": -1}, "prompt.system_prompt_budget"),
        ({"chat_history_budget": "many"}, "prompt.chat_history_budget"),
        ({"chat_history_budget": True}, "prompt.chat_history_budget"),
        ({"rlm": {"threshold_percentage": 0}}, "prompt.rlm.threshold_percentage"),
        ({"rlm": {"threshold_percentage": 101}}, "prompt.rlm.threshold_percentage"),
        ({"rlm": {"modle": "x"}}, "prompt.rlm.modle"),
        ({"rlm": {"model": 3}}, "prompt.rlm.model"),
        ({"rlm": 3}, "prompt.rlm"),
        ({"context_priority": {"notes": -5}}, "prompt.context_priority.notes"),
        ({"context_priority": {"nots": 5}}, "prompt.context_priority.nots"),
        ({"promise": " "}, "prompt.promise"),
        ({"promise": ""}, "prompt.promise"),
    ],
)
def test_an_invalid_setting_is_one_error_naming_its_key(table: dict[str, Any], key: str) -> None:
    """Unknown key, negative number, percentage outside 1-100."""
    with pytest.raises(InputError) as caught:
        CardSettings.from_table(table)
    assert caught.value.path == key
    assert str(caught.value).startswith(key + " ")
    assert "\n" not in str(caught.value)


def test_the_prompt_says_act_or_spawn_child_research() -> None:
    """With the REPL contract, the output format names the contract instead."""
    system = parts(CardPrompt().assemble(CardInput()))["system"]
    assert "act on it" in system
    assert "spawn child research" in system
    under_driver = parts(CardPrompt().assemble(CardInput(repl=True)))["system"]
    assert "one ```repl block" in under_driver
    assert "Markdown blocks" not in under_driver
    assert "<promise>COMPLETE</promise>" in under_driver


def test_a_run_is_complete_by_the_promise() -> None:
    assert is_complete("All green.\n<promise>COMPLETE</promise>")
    assert not is_complete("It will be complete soon.")
    assert is_complete("Done.\n  **<promise>COMPLETE</promise>**  \nBye.")
    assert not is_complete("Not finished. I will write <promise>COMPLETE</promise> only when tests pass.")
    assert not is_complete("Write <promise>COMPLETE</promise>")
    assert is_complete("FERTIG", CardSettings(promise="FERTIG"))


def test_the_described_settings_file_loads_as_it_stands() -> None:
    """It gives the defaults."""
    loaded = CardSettings.from_table(tomllib.loads(SEED_CONFIG)["prompt"])
    assert loaded.budget == CardBudget()
    assert loaded.threshold_percentage == 80
    assert loaded.summary_model == "claude-3-haiku"
    assert loaded.priorities == CONTEXT_KINDS


def test_test_results_and_libraries_enter_when_they_fit_whole() -> None:
    """A library that is too large does not keep a smaller one out."""
    results = {"test_results": "t" * 500}
    assert "t" * 500 in context(results, settings=settings_with(600))
    assert context(results, settings=settings_with(500)) == ""
    libraries = {"libraries": (Library("big", "b" * 500), Library("small", "s" * 50))}
    made = context(libraries, settings=settings_with(300))
    assert "small" in made
    assert "big" not in made


def test_configured_priority_decides_which_section_gets_the_room() -> None:
    """Libraries before files, if configured."""
    given = {"source_files": (SourceFile("s.py", "s" * 1_500),), "libraries": (Library("l", "l" * 1_500),)}
    by_default = context(given, settings=settings_with(2_800))
    assert "s.py" in by_default
    assert "lll" not in by_default
    turned = context(given, settings=settings_with(2_800, priorities={"libraries": 99}))
    assert "lll" in turned
    assert "s.py" not in turned


def test_plain_data_is_read_and_what_is_wrong_is_named_by_its_path() -> None:
    before = copy.deepcopy(EXAMPLE)
    assert CardPrompt().assemble(EXAMPLE).text == CardPrompt().assemble(CardInput.from_json(EXAMPLE)).text
    assert before == EXAMPLE
    for wrong, path in (
        ({"messages": [{"role": "robot", "content": "x"}]}, "$.messages[0].role"),
        ({"messages": [{"role": "user"}]}, "$.messages[0].content"),
        ({"notes": [3]}, "$.notes[0]"),
        ({"adrs": [{"title": "t"}]}, "$.adrs[0].content"),
        ({"source_files": {"path": "x"}}, "$.source_files"),
        ({"build_logs": 3}, "$.build_logs"),
        ([], "$"),
    ):
        with pytest.raises(InputError) as caught:
            CardPrompt().assemble(wrong)  # type: ignore[arg-type]
        assert caught.value.path == path
    assert "$.tests is unknown" in CardPrompt().assemble({"tests": "x"}).report.warnings[0]
