"""Test that a child is told where its slice comes from, and gets line numbers where they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.testing import ScriptedModel

LOG = "".join(f"2026-05-0{day} 10:00:00 INFO disk {day} is full\n" for day in range(1, 10)) * 3
TALK = "".join(f"Anna: this is turn {turn}.\nBen Carter: and mine.\n" for turn in range(9))
PROSE = (
    "The yard was closed in May. It opened again in June, and the cranes were sold. Nobody came.\n\nEnd.\n"
)
BOOK = "# Yards\n\nAll yards.\n\n## Cranes\n\nThere are three cranes in the yard.\n"


async def seen(run, block, text: str, span: tuple[int, int], name: str = "a.txt", options: str = "") -> str:
    """Return the whole prompt of a child over a span of a file with this text."""
    folder = Path(run.store).parent / "input"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    model = ScriptedModel.of(root=[block(f"sub_query('q', {span}{options})\nfinalize(1)")], child="a")
    await run(model, folder / name)
    (child,) = [request for request in model.requests if request.role == "child"]
    return "\n".join(message.content for message in child.messages)


@pytest.mark.parametrize(("name", "text"), [("a.log", LOG), ("a.txt", TALK), ("a.py", "import os\n" * 20)])
async def test_lines_are_numbered_where_the_block_says_so(run, block, name, text) -> None:
    second = text.index("\n") + 1
    prompt = await seen(run, block, text, (second, len(text)), name, ", numbered=True")
    assert f"\n1\t{text[second:].splitlines()[0]}\n2\t" in prompt
    assert "begins with its number" in prompt
    assert "begins with its number" not in await seen(run, block, text, (second, len(text)), name)


async def test_the_label_names_section_and_document(run, block) -> None:
    at = BOOK.index("There are")
    prompt = await seen(run, block, BOOK, (at, len(BOOK)), "b.md")
    assert f'document "b.md", section "Yards > Cranes", characters {at} to {len(BOOK)} =====' in prompt


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("The yard", "in May.", ""),
        (" It opened", "Nobody came.", ""),
        ("yard was", "in May.", ", cut off at its start"),
        ("It opened", "the cranes", ", cut off at its end"),
        ("opened", "the cranes", ", cut off at its start and its end"),
        ("\n\nEnd", "\n\nEnd.", ""),
    ],
)
async def test_a_slice_that_was_cut_in_mid_sentence_says_so(run, block, first, last, said) -> None:
    start, end = PROSE.index(first), PROSE.index(last) + len(last)
    assert f"characters {start} to {end}{said} =====" in await seen(run, block, PROSE, (start, end))


async def test_a_log_is_cut_only_within_a_line(run, block) -> None:
    line = LOG.index("\n") + 1
    assert f"characters {line} to {2 * line} =====" in await seen(run, block, LOG, (line, 2 * line))
    assert f"to {2 * line - 4}, cut off at its end" in await seen(run, block, LOG, (line, 2 * line - 4))
