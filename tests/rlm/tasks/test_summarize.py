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
from rlm.models.base import ModelWindow, Request
from rlm.prompts.history import HEADINGS
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.summaries.summarize import Summary, summarize
from rlm.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("in_parts")

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


async def test_facts_are_checked_and_the_check_is_in_the_json(summary: Summarize) -> None:
    found = await summary([chat(60)], tokens=600)
    rows = {fact.text: fact.status for fact in found.facts}
    for _, text in TALK:
        assert rows[text] == "kept"
        assert text in found.text
    small = await summary([chat(60)], tokens=100)
    assert COUNT(small.text) <= 100
    assert any(fact.status == "lost" for fact in small.facts)


@pytest.mark.parametrize("tokens", [100, 157, 400, 3_000])
async def test_a_model_that_writes_too_much_still_ends_within_the_tokens(
    summary: Summarize, tokens: int
) -> None:
    model = ScriptedModel.of(summary="## Task Summary\n" + "- Let me look at part 7 again [m8]\n" * 300)
    found = await summary([chat(60)], model, tokens=tokens)
    assert COUNT(found.text) <= tokens
    assert headings(found.text) == list(HEADINGS)


async def test_without_a_model_all_lines_are_supported(summary: Summarize) -> None:
    found = await summary([chat(50)], tokens=500)
    assert found.lines == found.supported == len(lines(found.text))


async def test_if_the_model_fails_sentences_of_the_messages_are_used(summary: Summarize) -> None:
    model = ScriptedModel.of(summary=ModelUnavailable("nothing listens"))
    found = await summary([chat(50)], model, tokens=500)
    assert found.result.stop_reason == "model"
    assert "refund_events" in found.text
    assert any("nothing listens" in warning for warning in found.result.warnings)


def counting(request: Request) -> str:
    return "## Task Summary\n- The refund must never be paid twice [m1]\n"


async def test_a_history_that_grew_costs_only_its_new_chunk(summary: Summarize) -> None:
    """With --since nothing is paid twice, over a chain of runs."""
    window = ModelWindow(context=3_000, output=400)
    first_model = ScriptedModel.of(summary=counting, window=window)
    first = await summary([chat(400)], first_model, tokens=400)
    assert len(first_model.requests) >= 4
    again = ScriptedModel.of(summary=counting, window=window)
    second = await summary([chat(410)], again, tokens=400, since=first.result.run_id)
    assert len(again.requests) == 1
    assert (second.messages, second.known) == (410, 400)
    third_model = ScriptedModel.of(summary=counting, window=window)
    third = await summary([chat(410)], third_model, tokens=400, since=second.result.run_id)
    assert third_model.requests == []
    assert third.text == second.text


def folds(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if request.role == "summary"]


async def test_an_interrupted_summary_continues_and_pays_nothing_twice(summary: Summarize) -> None:
    window = ModelWindow(context=3_000, output=400)
    answers = iter([counting, counting])

    def dies(request: Request) -> str:
        answer = next(answers, None)
        if answer is None:
            raise ModelUnavailable("the network is gone")
        return answer(request)

    first = await summary([chat(400)], ScriptedModel.of(summary=dies, window=window), tokens=400)
    assert first.result.stop_reason == "model"
    whole = ScriptedModel.of(summary=counting, window=window)
    await summary([chat(400)], whole, tokens=400)
    rest = ScriptedModel.of(summary=counting, window=window)
    await summary([chat(400)], rest, tokens=400, since=first.result.run_id)
    assert len(folds(rest)) == len(folds(whole)) - 2


async def test_a_changed_history_is_reported(summary: Summarize) -> None:
    first = await summary([chat(30)], tokens=300)
    other = await summary(
        ["Anna: no\nBen: yes\nAnna: no\nBen: yes\n" * 3], tokens=300, since=first.result.run_id
    )
    assert other.known == 0
    assert any("have changed since run" in warning for warning in other.result.warnings)


async def test_a_summary_of_documents_has_no_known_messages(summary: Summarize) -> None:
    first = await summary([REPORT], gone(), tokens=300)
    assert first.kind == "document"
    found = await summary([chat(30)], tokens=300, since=first.result.run_id)
    assert found.known == 0
    assert any(f"run {first.result.run_id} summarized documents" in one for one in found.result.warnings)


async def test_a_history_that_is_too_long_is_refused_with_the_remedy(
    summary: Summarize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.tasks.summaries.summarize._MAX_HISTORY_CHARS", 1_000)
    with pytest.raises(UsageError, match="in parts, or use --kind document"):
        await summary([chat(100)])
    assert (await summary([chat(100)], gone(), kind="document")).kind == "document"


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


async def test_a_state_that_the_model_wrote_is_not_repeated(summary: Summarize) -> None:
    card = {"id": "17", "state": "error_fixing", "messages": [{"role": "user", "content": TALK[0][1]}]}
    model = ScriptedModel.of(summary="## Current State\n- Errors are being fixed: error_fixing. [m1]\n")
    found = await summary([TextSource("card.json", json.dumps(card), "json")], model, tokens=800)
    assert found.text.count("error_fixing") == 1


async def test_a_state_that_the_model_left_out_is_added(summary: Summarize) -> None:
    card = {"id": "17", "state": "error_fixing", "messages": [{"role": "user", "content": TALK[0][1]}]}
    model = ScriptedModel.of(summary="## Task Summary\n- The refund must never be paid twice. [m2]\n")
    found = await summary([TextSource("card.json", json.dumps(card), "json")], model, tokens=800)
    assert re.search(r"## Current State\n- The card is in the state error_fixing\. \[m\d\]", found.text)


async def test_a_short_chat_is_summarized_though_that_saves_nothing(summary: Summarize) -> None:
    line = "- Refunds are never paid twice, and the webhook has to answer within 2 seconds, Ann says. [m1]"
    more = "- Ben wants to look at part 1 again. [m2]\n" * 5
    model = ScriptedModel.of(summary=f"## Task Summary\n{line}\n## Remaining Work\n{more}")
    found = await summary([chat(2)], model, tokens=800)
    assert line in found.text
    assert found.result.stop_reason == "finalized"
    assert (found.lines, found.supported) == (len(lines(found.text)), found.lines)


async def test_the_prompt_limits_the_length_of_the_summary(summary: Summarize) -> None:
    asked: list[str] = []

    def model(request: Request) -> str:
        asked.append(request.messages[-1].content)
        return counting(request)

    await summary([chat(50)], ScriptedModel.of(summary=model), tokens=1_111)
    assert "At most 15 lines of facts" in asked[0]


REPORT = "\n\n".join(
    f"# {title}\n\n" + "\n".join(f"The {title.lower()} of sample {n} was {n * 7} units." for n in range(40))
    for title in ("Method", "Results", "Limits")
)


async def test_documents_become_sections_each_line_with_a_verified_passage(summary: Summarize) -> None:
    found = await summary([TextSource("report.md", REPORT, "markdown")], gone(), tokens=600)
    assert found.kind == "document"
    assert headings(found.text) == ["Method", "Results", "Limits"]
    assert COUNT(found.text) <= 600
    cited = found.result.citations
    assert len(cited) == len(lines(found.text)) > 2
    assert all(one.verified and one.quote in REPORT for one in cited)


def points(request: Request) -> str:
    (piece,) = request.slices
    first = next(line for line in piece.text.splitlines() if line.startswith("The "))
    return json.dumps(
        {
            "points": [
                {"point": f"It says: {first}", "quote": first},
                {"point": "Invented.", "quote": "this passage stands nowhere in it"},
            ]
        }
    )


async def test_children_read_sections_and_points_without_a_true_quote_are_left_out(
    summary: Summarize,
) -> None:
    model = ScriptedModel.of(
        child=points, summary="It has three parts [1][2]. Nobody said this [9]. Nor this."
    )
    found = await summary([TextSource("report.md", REPORT, "markdown")], model, tokens=600)
    assert headings(found.text) == ["Overview", "Method", "Results", "Limits"]
    assert "It has three parts [¹][²]." in found.text
    assert "It has three parts [¹][²]. Nobody said this [9]. Nor this." in found.text
    assert any("points that do not exist: [9]" in warning for warning in found.result.warnings)
    assert "Invented" not in found.text
    assert len(lines(found.text)) == 3
    assert found.result.coverage.complete
    assert any("3 points were left out" in warning for warning in found.result.warnings)


async def test_sections_without_room_are_counted(summary: Summarize) -> None:
    model = ScriptedModel.of(child=points, summary="All [1].")
    found = await summary([TextSource("report.md", REPORT, "markdown")], model, tokens=110)
    assert COUNT(found.text) <= 110
    assert any(warning.startswith("2 of 3 sections have no line") for warning in found.result.warnings)


async def test_a_section_whose_child_failed_is_extracted(summary: Summarize) -> None:
    def fails_once(request: Request) -> str:
        if "results of sample" in request.slices[0].text:
            raise ModelUnavailable("gone")
        return points(request)

    model = ScriptedModel.of(child=fails_once, summary="All [1].")
    found = await summary([TextSource("report.md", REPORT, "markdown")], model, tokens=900)
    assert found.result.stop_reason == "model"
    assert "The results of sample" in found.text
    assert all(one.verified for one in found.result.citations)


async def test_more_children_than_allowed_are_refused_before_anything_is_spent(summary: Summarize) -> None:
    model = ScriptedModel.of(child=points, summary="All [1].")
    with pytest.raises(UsageError, match="only 2 child calls are left"):
        await summary(
            [TextSource("report.md", REPORT, "markdown")], model, tokens=900, limits=Limits(max_calls=2)
        )
    assert model.requests == []


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


@pytest.mark.parametrize(
    "text",
    ["We met in May.\n", "".join(f"2026-05-04 11:32:{n} ERROR disk {n} is full\n" for n in range(10, 60))],
)
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
    assert [one.status for one in found.facts if one.text == said] == ["kept"]


async def never(request: Request) -> str:
    return await asyncio.Event().wait() and ""


@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(max_seconds=0.3), "time"), (Limits(max_total_tokens=1_000), "tokens")]
)
async def test_a_limit_that_ends_the_reading_is_the_stop_reason(
    summary: Summarize, limits: Limits, reason: str
) -> None:
    # One sentence that so short a summary has no room for: there is nothing for an overview to be asked of.
    text = f"It rained on {' and '.join(f'sample {number}' for number in range(60))}."
    report = TextSource("report.md", f"# Method\n\n{text}", "markdown")
    found = await summary([report], ScriptedModel.of(child=never), limits=limits, tokens=100)
    assert found.result.stop_reason == reason
    assert any("the child failed" in warning for warning in found.result.warnings)
