"""The form of a summary: chosen by the kind of text, by the model, by name or by a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm.documents import TextSource
from rlm.errors import UsageError
from rlm.models.base import Request
from rlm.tasks.summaries.writing.forms import FORMS, read_form
from rlm.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("in_parts")

GIT_LOG = "\n".join(
    f"commit {n:07x}{'0' * 33}\nAuthor: Ann <a@b.example>\nDate:   2026-05-0{n + 1} 10:00:00 +0000\n\n"
    f"    The crane {n} lifts {n + 20} tons\n"
    for n in range(5)
)
LOG = "\n".join(
    f"2026-05-01 10:0{n}:00 {'ERROR' if n == 3 else 'INFO'} crane: lift {n} of {n + 20} tons"
    for n in range(8)
)
BOARD = "\n".join(
    json.dumps(
        {
            "id": f"C-{n}",
            "title": f"Crane {n}",
            "status": "open" if n % 2 else "closed",
            "issue_type": "bug",
            "created_at": f"2026-05-0{n + 1}",
        }
    )
    for n in range(6)
)
TALK = "Ann: The crane lifts 20 tons.\nBen: It lifts 30.\nAnn: No, 20.\nBen: Fine, 20 it is.\n"
STORY = "\n\n".join(
    f'"I will sell the crane to nobody," said the harbourmaster for the {n}th time. He looked at the sea. '
    f'"Then I will take it," said Ann. It was {n} o\'clock and the fog came in over the yard and the sheds.'
    for n in range(20)
)


@pytest.fixture
def ask(summary: Any, careful: Any) -> Any:
    """Summarize, and return the first prompt and the summary."""

    async def run(source: Any, reply: str, **options: Any) -> tuple[str, Any]:
        prompts: list[str] = []

        def reader(request: Request) -> str:
            prompts.append(request.messages[-1].content)
            return reply

        found = await summary([source], ScriptedModel.of(summary=reader, check=careful), **options)
        return prompts[0], found

    return run


@pytest.mark.parametrize(
    ("source", "form"),
    [
        (TextSource("git.txt", GIT_LOG, "text"), "work"),
        (TextSource("app.log", LOG, "text"), "log"),
        (TextSource("board.jsonl", BOARD, "jsonl"), "board"),
        (TextSource("story.txt", STORY, "text"), "story"),
    ],
    ids=["git log", "log", "board", "story"],
)
async def test_a_text_of_a_certain_kind_has_its_form(ask: Any, source: TextSource, form: str) -> None:
    title = FORMS[form].titles[0]
    prompt, found = await ask(source, f"## {title}\n- The crane lifts 20 tons, said Ann. [m1]")
    assert found.form == form
    assert all(f"`## {one}`" in prompt for one in FORMS[form].titles)
    assert "`Kind: NAME`" not in prompt
    assert f"## {title}" in found.text


@pytest.mark.parametrize("form", ["meeting", "talk", "story", "work"])
async def test_a_model_tells_kinds_of_talk_apart(ask: Any, form: str) -> None:
    title = FORMS[form].titles[1]
    prompt, found = await ask(
        TextSource("a.txt", TALK, "text"),
        f"**Kind: {form}**\n\n## {title}\n- The crane lifts 20 tons. [m1, m4]",
    )
    assert "`Kind: NAME`" in prompt
    assert found.form == form
    assert f"## {title}\n- The crane lifts 20 tons. [m1" in found.text
    assert "Kind" not in found.text


async def test_headings_tell_the_form_if_the_model_does_not(ask: Any) -> None:
    reply = "## Purpose\n- Ann and Ben talk about the crane. [m1]\n## Decisions\n- It lifts 20 tons. [m4]"
    _, found = await ask(TextSource("a.txt", TALK, "text"), reply)
    assert found.form == "meeting"


async def test_a_focus_is_told_to_the_model(ask: Any) -> None:
    prompt, _ = await ask(TextSource("a.txt", TALK, "text"), "## People\n- Ann [m1]", focus="the\n weights")
    assert "for a reader who wants this of them: the weights." in prompt


async def test_a_file_brings_its_own_headings(ask: Any, tmp_path: Path) -> None:
    path = tmp_path / "form.md"
    path.write_text("# Risks\nwhat may go wrong\nand when\n\n## **Cost**\n")
    prompt, found = await ask(
        TextSource("board.jsonl", BOARD, "jsonl"), "## Cost\n- Crane 1 is open. [m2]", form=path
    )
    assert "- `## Risks`: what may go wrong and when\n- `## Cost`\n" in prompt
    assert found.form == "own"
    assert "## Cost\n- Crane 1 is open. [m2]" in found.text
    assert "board.jsonl has 6 cards" in found.text.partition("## Cost")[0]


@pytest.mark.parametrize(
    "text", ["no heading at all", "## A\n## A\n", "\n".join(f"## H{n}" for n in range(30))]
)
def test_a_form_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "form.md"
    path.write_text(text)
    with pytest.raises(UsageError, match="heading"):
        read_form(path)
    with pytest.raises(UsageError, match="neither a form"):
        read_form(tmp_path / "missing.md")


async def test_computed_lines_of_a_board_are_counted_over_all_cards(ask: Any) -> None:
    _, found = await ask(
        TextSource("board.jsonl", BOARD, "jsonl"), "## Remaining Work\n- Crane 1 is open. [m2]"
    )
    assert "board.jsonl has 6 cards: closed 3, open 3." in found.text
    assert found.supported == found.lines


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            [
                {"number": 7, "title": "Crane", "state": "OPEN", "body": "It squeaks.",
                 "createdAt": "2026-05-01",
                 "comments": [
                     {"author": {"login": "ann"}, "body": "Oil it.", "createdAt": "2026-05-02"}]},
                {"number": 8, "title": "Shed", "state": "CLOSED", "body": "Paint.", "createdAt": "2026-05-01",
                 "closedAt": "2026-05-03", "comments": []},
            ],
            ("#7: Crane", "Comment ann 2026-05-02: Oil it.", "closed 2026-05-03"),
        ),
        (
            {"issues": [
                {"key": "PAY-1", "fields": {"summary": "Crane", "status": {"name": "In Progress",
                 "statusCategory": {"key": "indeterminate"}}, "created": "2026-05-01T10:00:00.000+0000",
                 "comment": {"comments": [{"author": {"displayName": "Ann"}, "body": "Oil it."}]},
                 "issuelinks": [{"type": {"inward": "is blocked by", "outward": "blocks"},
                                 "inwardIssue": {"key": "PAY-2"}}]}},
                {"key": "PAY-2", "fields": {"summary": "Shed", "status": {"name": "Done"},
                 "created": "2026-05-01T10:00:00.000+0000"}},
            ]},
            ("PAY-1: Crane", "In Progress", "Comment Ann: Oil it.", "Blocked by: PAY-2"),
        ),
        (
            {"data": {"issues": {"nodes": [
                {"identifier": "ENG-1", "title": "Crane", "state": {"name": "Todo", "type": "unstarted"},
                 "createdAt": "2026-05-01",
                 "comments": {"nodes": [{"body": "Oil it.", "user": {"name": "Ann"}}]}},
                {"identifier": "ENG-2", "title": "Shed", "state": {"name": "Done", "type": "completed"},
                 "createdAt": "2026-05-01", "relations": {"nodes": [
                     {"type": "blocks", "relatedIssue": {"identifier": "ENG-1"}}]}},
            ]}}},
            ("ENG-1: Crane", "Todo", "Comment Ann: Oil it.", "Blocks: ENG-1"),
        ),
    ],
    ids=["GitHub", "Jira", "Linear"],
)  # fmt: skip
async def test_exports_of_trackers_are_read_as_cards(ask: Any, value: Any, words: tuple[str, ...]) -> None:
    source = TextSource("board.json", json.dumps(value), "json")
    prompt, found = await ask(source, "## Current State\n- Crane and Shed are cards. [m1, m2]")
    assert found.form == "board"
    assert found.messages == 2
    for one in words:
        assert one in prompt


async def test_a_dated_chat_is_no_log(ask: Any) -> None:
    """`Ann: I came late` has no level of a log."""
    rows = [
        {"role": "user", "author": who, "content": f"I came late again, item {n}.", "created_at": when}
        for n in range(20)
        for who, when in [(("Ann", "Ben")[n % 2], "1:10 pm on 27 March, 2023")]
    ]
    _, found = await ask(
        TextSource("chat.jsonl", "\n".join(map(json.dumps, rows)), "jsonl"),
        "Kind: talk\n## People\n- Ann came late. [m1]",
    )
    assert found.form == "talk"
