"""Test the prompt texts: names in them exist, and no placeholder is left."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from rlm import prompts
from rlm.citation_markers import marker
from rlm.prompts import (
    NOT_FOUND,
    CardInput,
    CardPrompt,
    ChildInput,
    ChildPrompt,
    ChildSliceText,
    CitedInput,
    CitedPrompt,
    Pack,
    TilePrompt,
)
from rlm.prompts.history.cue_phrases import HEADINGS
from rlm.prompts.recipes.card_settings import CONTEXT_KINDS
from rlm.prompts.templates import table, words

TEXTS = sorted(entry.name for entry in files("rlm.prompts").joinpath("text").iterdir())
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_used_and_reads_as_text(name: str) -> None:
    """Every file is used, and has no tabs or trailing blanks."""
    # The jobs of rlm have their words here, too.
    packages = [Path(prompts.__path__[0]).parent]
    files = (path for package in packages for path in package.rglob("*.py"))
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    assert f'"{name}"' in sources
    text = words(name)
    assert "\t" not in text
    assert not re.search(r"[ ]+$", text, re.MULTILINE)


def test_no_placeholder_is_left_in_any_prompt() -> None:
    made = [
        *(
            CardPrompt().assemble(CardInput(state=state, repl=repl)).text
            for state in (*table("card.toml")["agent"], "no such state")
            for repl in (False, True)
        ),
        *(
            CitedPrompt().assemble(CitedInput("q", (Pack("p", "d", "t"),), style, citations)).text  # type: ignore[arg-type]
            for style in ("qa", "summarize")
            for citations in ("numeric", "footnote")
        ),
        TilePrompt().assemble(json.loads((EXAMPLES / "tiles.json").read_text(encoding="utf-8"))).text,
        ChildPrompt()
        .assemble(ChildInput("x", 9_000, 1_000, (ChildSliceText("t"),), part=(1, 2), stage="map"))
        .text,
    ]
    for text in made:
        assert not re.search(r"\{\{?\w*\}\}?", text)


def test_the_markers_the_cited_words_show_are_those_of_their_style() -> None:
    assert table("cited.toml")["form"] == {"numeric": marker(1), "footnote": "[^1]"}


def test_a_card_has_words_for_every_stage_and_every_kind_of_context() -> None:
    data = table("card.toml")
    assert set(data["agent"]) == {"planning", "coding", "review", "testing", "error_fixing", "default"}
    assert set(data["headings"]) == set(CONTEXT_KINDS)


def test_the_summary_prompt_names_the_headings_that_are_looked_for() -> None:
    assert [heading for heading in HEADINGS if f"`## {heading}`" in words("summary.md")] == list(HEADINGS)


def test_the_child_texts_name_the_token_that_is_recognized() -> None:
    for text in (words("child_system.md"), *map(str, table("child.toml").values())):
        assert re.findall(r"NOT[_ ]?FOUND", text) == [NOT_FOUND] * text.count(NOT_FOUND)
    assert NOT_FOUND in table("child.toml")["close"]
