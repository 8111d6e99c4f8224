"""Fuzz cards and budgets: bounded, deterministic, and only typed errors.

The fuzz tests of the other recipes are in their own files.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts import (
    Adr,
    CardBudget,
    CardInput,
    CardPrompt,
    CardSettings,
    ChildPrompt,
    Library,
    Message,
    PromptError,
    SourceFile,
    get_counter,
)

TEXTS = st.text(st.sampled_from("ab c.\n`#é漢😀\u202e\ud800{}[]"), max_size=120) | st.sampled_from(
    [
        "```\n## Notes\n",
        "<promise>COMPLETE</promise>",
        "===== slice 00 ends =====",
        "{{output}} {promise}",
        "x" * 900,
    ]
)


def documents(kind: Any) -> st.SearchStrategy[Any]:
    return st.lists(st.builds(kind, TEXTS, TEXTS), max_size=3).map(tuple)


CARDS = st.builds(
    CardInput,
    id=TEXTS,
    title=TEXTS,
    state=st.sampled_from(["planning", "error_fixing", "CodeReview", "", "漢"]),
    messages=st.lists(
        st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), TEXTS), max_size=12
    ).map(tuple),
    notes=st.lists(TEXTS, max_size=3).map(tuple),
    adrs=documents(Adr),
    libraries=documents(Library),
    source_files=documents(SourceFile),
    build_logs=TEXTS,
    pod_logs=TEXTS,
    test_results=TEXTS,
    repl=st.booleans(),
)
SUMMARIES: st.SearchStrategy[Any] = st.sampled_from(
    [None, lambda prompt: "## Task Summary\n- short", lambda prompt: "", lambda prompt: prompt * 2]
)


@settings(max_examples=80)
@given(
    CARDS,
    st.integers(0, 2_500),
    st.integers(0, 2_500),
    st.integers(1, 100),
    st.sampled_from(["estimate", "chars4_ceil", "bytes4_floor"]),
    SUMMARIES,
    st.dictionaries(st.sampled_from(["notes", "adrs", "libraries"]), st.integers(0, 200)),
)
def test_whatever_the_card_each_section_keeps_within_its_budget(
    card: CardInput,
    history: int,
    context: int,
    threshold: int,
    counter: str,
    summarize: Any,
    priorities: dict[str, int],
) -> None:
    """No section and no prompt exceeds its budget. The report adds up, and the input is unchanged."""
    budget = CardBudget(1_000, 1_500, history, context, 2_500 + history + context)
    count = get_counter(counter)
    recipe = CardPrompt(
        CardSettings(budget, threshold, priorities=priorities, counter=count), summarizer=summarize
    )
    before = copy.deepcopy(card)
    try:
        made = recipe.assemble(card)
    except PromptError:
        return
    assert card == before
    sizes = {section.name: section.tokens for section in made.sections}
    assert list(sizes) == ["system", "agent", "history", "context"]
    assert sizes["history"] <= history
    assert sizes["context"] <= context
    totals = made.report.totals
    assert count.count(made.text) == totals.prompt <= budget.total
    assert made.text == "\n\n".join(section.content for section in made.sections if section.content)
    again = recipe.assemble(card)
    assert json.dumps(again.to_json()) == json.dumps(made.to_json())


@settings(max_examples=60)
@given(TEXTS, TEXTS, st.integers(1, 3_000), st.integers(0, 500))
def test_whatever_the_slice_a_childs_prompt_is_bounded_and_its_boundary_is_not_in_it(
    task: str, text: str, window: int, reserve: int
) -> None:
    data = {"prompt": task, "slice": {"text": text}, "window": window, "output_reserve": reserve}
    try:
        made = ChildPrompt().assemble(data)
    except PromptError:
        return
    assert made.report.totals.prompt <= window - reserve
    assert get_counter().count(made.text) == made.report.totals.prompt
    (code,) = re.findall(r"^===== slice ([0-9a-f]{12}) begins", made.user, re.MULTILINE)
    assert code not in text
    assert ChildPrompt().assemble(data).text == made.text
