"""Summaries of histories and documents: token limits, a source for each line, and no call paid twice."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.documents import PathSource, TextSource
from rlm.errors import JournalError, ModelUnavailable, UsageError
from rlm.journal import Journal
from rlm.models.base import Request
from rlm.prompts.history import HEADINGS
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.summaries.summarize import Summary, summarize
from rlm.testing import ScriptedModel

COUNT = get_counter().count
Summarize = Callable[..., Any]

TALK = (
    ("Ann", "The refund must never be paid twice, and the webhook has to answer within 2 seconds."),
    ("Ben", "We decided to store the event id in refund_events, because the provider keeps it."),
    ("Ann", "It failed with sqlite3.OperationalError: database is locked, caused by two writers."),
    ("Ben", "The endpoint is merged and behind the flag refunds_v2."),
    ("Ann", "Still to do: rate limiting at 50 requests per minute."),
)


def chat(count: int) -> TextSource:
    """A chat of that many messages: facts, and small talk between them."""
    said = [
        TALK[place // 10 % len(TALK)] if place % 10 == 0 else ("Ben", f"Let me look at part {place} again.")
        for place in range(count)
    ]
    lines = [json.dumps({"role": "user", "author": who, "content": text}) for who, text in said]
    return TextSource("chat.jsonl", "\n".join(lines), "jsonl")


@pytest.fixture
def summary(tmp_path: Path) -> Summarize:
    async def run(
        sources: Sequence[Any],
        model: ScriptedModel | str = "extractive",
        *,
        limits: Limits | None = None,
        **options: Any,
    ) -> Summary:
        rlm = RLM(model, settings=Settings(store=tmp_path / "rlm.db"), limits=limits)
        return await summarize(rlm, sources, **options)

    return run


def gone() -> ScriptedModel:
    """Return a model that never answers: the summary consists of sentences of the text."""
    return ScriptedModel.of(child=ModelUnavailable("gone"), summary=ModelUnavailable("gone"))


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


async def test_a_chat_becomes_five_headings_within_its_tokens_every_line_traceable(
    summary: Summarize,
) -> None:
    found = await summary([chat(200)], tokens=400)
    assert headings(found.text) == list(HEADINGS)
    assert 0 < COUNT(found.text) <= 400
    assert lines(found.text)
    assert all(re.search(r"\[m\d+(, m\d+)*\]$", line) for line in lines(found.text))
    assert found.result.citations
    assert all(one.verified for one in found.result.citations)
    quoted = {one.marker: one.quote for one in found.result.citations}
    assert quoted["[m1]"] == TALK[0][1]


async def test_without_a_model_all_lines_are_supported(summary: Summarize) -> None:
    found = await summary([chat(50)], tokens=500)
    assert found.lines == found.supported == len(lines(found.text))


async def test_if_the_model_fails_sentences_of_the_messages_are_used(summary: Summarize) -> None:
    model = ScriptedModel.of(summary=ModelUnavailable("nothing listens"))
    found = await summary([chat(50)], model, tokens=500)
    assert found.result.stop_reason == "model"
    assert "refund_events" in found.text
    assert any("nothing listens" in warning for warning in found.result.warnings)


async def test_a_changed_history_is_reported(summary: Summarize) -> None:
    first = await summary([chat(30)], tokens=300)
    other = await summary(
        ["Anna: no\nBen: yes\nAnna: no\nBen: yes\n" * 3], tokens=300, since=first.result.run_id
    )
    assert other.known == 0
    assert any("have changed since run" in warning for warning in other.result.warnings)


async def test_a_history_that_is_too_long_is_refused_with_the_remedy(
    summary: Summarize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.tasks.summaries.summarize._MAX_CHARS", 1_000)
    with pytest.raises(UsageError, match="summarize it in parts"):
        await summary([chat(100)])


async def test_since_names_a_summary(summary: Summarize, tmp_path: Path) -> None:
    asked = await RLM("extractive", settings=Settings(store=tmp_path / "rlm.db")).run(
        "What?", "The end is red."
    )
    with pytest.raises(JournalError, match="is not a summarize run"):
        await summary([chat(30)], since=asked.run_id)


async def test_the_summary_of_a_card_has_its_state(summary: Summarize) -> None:
    card = {
        "id": "17",
        "title": "Refunds",
        "state": "error_fixing",
        "messages": [{"role": "user", "content": text} for _, text in TALK],
        "notes": ["Do not add a queue: operations can't run one yet."],
    }
    found = await summary([TextSource("card.json", json.dumps(card), "json")], tokens=800)
    assert found.kind == "history"
    assert "- The card is in the state error_fixing. [m" in found.text
    assert "Do not add a queue" in found.text


REPORT = "\n\n".join(
    f"# {title}\n\n" + "\n".join(f"The {title.lower()} of sample {n} was {n * 7} units." for n in range(40))
    for title in ("Method", "Results", "Limits")
)


async def test_empty_input_is_refused_before_anything_is_spent(summary: Summarize) -> None:
    model = ScriptedModel.of()
    with pytest.raises(UsageError, match="100 or more"):
        await summary([chat(5)], model, tokens=99)
    with pytest.raises(UsageError, match="no text"):
        await summary(["   \n\n "], model)
    with pytest.raises(UsageError, match="no text"):
        await summary([TextSource("empty.json", "[{}]", "json")], model)
    assert model.requests == []


async def test_a_card_without_messages_still_says_its_state(summary: Summarize) -> None:
    card = {"title": "Refunds", "state": "planning", "messages": []}
    found = await summary([TextSource("card.json", json.dumps(card), "json")])
    assert found.kind == "history"
    assert "- The card is in the state planning. [m1]" in found.text


async def test_messages_without_words_and_broken_lines_do_not_hide_a_chat(summary: Summarize) -> None:
    """The log of an agent has messages that are only tool calls, and its last line may be cut off."""
    lines = [
        {"role": "assistant", "content": None},
        {"role": "user", "content": "We must ship by 4 May."},
        {"role": "assistant", "content": "Decision: lmdb."},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"role": "user", "cont'
    found = await summary([TextSource("chat.jsonl", text, "jsonl")])
    assert found.kind == "history"
    assert "- We must ship by 4 May. [m" in found.text
    assert "- Decision: lmdb. [m" in found.text


async def test_a_task_names_its_sources_and_their_folders(
    summary: Summarize, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The limit is 40 seconds.")
    monkeypatch.chdir(folder)
    found = await summary(
        [Path(), PathSource(folder / "a.txt"), "The text.", chat(3)], gone(), kind="document"
    )
    async with Journal.open(tmp_path / "rlm.db") as journal:
        run = await journal.get(found.result.run_id)
    assert run.task == "Summarize notes, a.txt, text, chat.jsonl"


async def test_the_kind_can_be_given(summary: Summarize) -> None:
    prose = "We met in May. The limit must stay under 40 seconds.\n\nIt was decided to use Redis.\n"
    assert (await summary([prose], gone())).kind == "document"
    assert (await summary([prose], kind="chat")).kind == "history"
    assert (await summary([chat(10)], gone(), kind="document")).kind == "document"


@pytest.mark.parametrize("text", ["We met in May.\n", "commit 1234567\n\n    Fix it\n"])
async def test_anything_but_a_chat_needs_a_model(summary: Summarize, tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="a summary of anything but a chat needs a language model"):
        await summary([text])
    async with Journal.open(tmp_path / "rlm.db") as journal:
        assert not await journal.runs()


async def test_text_of_a_message_that_looks_like_a_mark_is_unchanged(summary: Summarize) -> None:
    said = "The hall must have at least 400 (m2), as agreed in [m7]."
    more = TextSource("more.json", json.dumps([{"role": "user", "content": said}]), "json")
    found = await summary([chat(30), more])
    assert f"- {said} [m31]" in found.text


async def never(request: Request) -> str:
    return await asyncio.Event().wait() and ""
