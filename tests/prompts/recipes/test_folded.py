"""Test the message that replaces old rounds."""

from __future__ import annotations

from rlm.prompts.recipes.folded import folded_rounds


def test_it_says_which_rounds_what_the_kernel_holds_and_what_was_noted() -> None:
    text = folded_rounds(7, "## Task Summary\n- {braces} stay [r1]", ["rows: list, 3 items", "x: int"])
    assert text.startswith("Rounds 1 to 7 were replaced by these notes")
    assert "Variables:\nrows: list, 3 items\nx: int\n\n## Task Summary\n- {braces} stay [r1]" in text


def test_it_is_bounded_and_says_so_when_there_is_nothing() -> None:
    text = folded_rounds(5, "", [f"v{n}: int" for n in range(500)])
    assert "v59: int\n… and 440 more (SHOW_VARS() lists all)" in text
    assert "v60: int" not in text
    assert "No notes could be made of them." in text
    assert "Variables:\nnone" in folded_rounds(5, "", [])
