"""Questions: cited answers, choices, typed answers, and questions that the documents do not answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.models.base import Request
from rlm.models.offline.extractive import NEAREST
from rlm.tasks.question import Answered, ask
from rlm.testing import ScriptedModel

LEASE = (
    "This lease between Mira Holt and the Zeppelin Works begins on 1 May 2021.\n"
    "The tenant may end it early, with a notice of three months, under clause 9.\n"
    "The rent is 900 euros a month and is due on the first working day.\n"
)
Ask = Callable[..., Any]


@pytest.fixture
def asked(sandbox_level: int, tmp_path: Path) -> Ask:
    async def run(question: str, model: ScriptedModel | str = "extractive", **options: Any) -> Answered:
        strategy = options.pop("strategy", "auto")
        context = options.pop("context", [LEASE])
        settings = Settings(store=tmp_path / "rlm.db", sandbox=sandbox_level, strategy=strategy)
        return await ask(RLM(model, settings=settings), question, context, **options)

    return run


async def test_an_answer_is_cited(asked: Ask) -> None:
    found = await asked("Under which clause may the tenant end the lease early?")
    assert found.found
    assert "clause 9" in found.result.answer
    assert found.result.citations
    assert all(citation.verified for citation in found.result.citations)


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of Mongolia?",
        "Which insurance does Bartholomew Finch pay for?",
        "What does the warranty of the dishwasher cover after delivery?",
    ],
)
async def test_without_a_model_what_is_not_found_is_not_denied(asked: Ask, question: str) -> None:
    found = await asked(question)
    assert not found.found
    assert found.result.stop_reason == "nearest"
    assert found.result.answer.startswith("No passage with these words.")
    assert found.to_json()["found"] is False


@pytest.mark.parametrize(
    "question",
    [
        "Who leases from the Zeppelin Works?",
        "How much is the rent of Mira Holt a month?",
        "When does the lease begin?",
        "What notice does the tenant have to give?",
    ],
)
async def test_an_answer_that_exists_is_not_denied(asked: Ask, question: str) -> None:
    assert (await asked(question)).found


@pytest.mark.parametrize("said", ["NOT_FOUND", "Not in the documents: no notary is named."])
async def test_a_models_not_found_is_recognized(asked: Ask, block: Callable[[str], str], said: str) -> None:
    """The root's prompt says how to report it, and the answer is recognized."""
    model = ScriptedModel.of(direct="NOT_FOUND", root=[block(f"peek(0, 10)\nfinalize({said!r})")])
    found = await asked("Who is the notary?", model)
    assert not found.found
    assert found.result.answer.startswith("Not in the documents:")
    system = next(one for one in model.requests if one.role == "root").messages[0].content
    assert "finalize `Not in the documents:`" in system


CHOICES = ("one month", "three months", "a year")


async def test_the_json_has_the_text_with_the_marks_of_its_citations(
    asked: Ask, block: Callable[[str], str]
) -> None:
    """`answer` is what was finalized; a mark in `text` is the marker of a citation."""
    code = block("finalize('Three months [1].', evidence=search('notice of three months'))")
    found = await asked("How long is the notice?", ScriptedModel.of(root=[code]), strategy="rlm")
    data = found.to_json()
    assert (data["answer"], data["text"]) == ("Three months [1].", "Three months [¹].")
    assert data["citations"][0]["marker"] == "[¹]"


async def test_a_choice_is_one_of_those_given(asked: Ask, block: Callable[[str], str]) -> None:
    code = block("hits = search('notice')\nfinalize('B', evidence=[hits[0]])")
    model = ScriptedModel.of(root=[code])
    found = await asked("How long is the notice?", model, choices=CHOICES, strategy="rlm")
    assert (found.choice, found.result.answer) == ("B", "B: three months")
    assert "B. three months" in model.requests[0].task
    assert found.result.citations[0].verified


async def test_an_answer_that_is_not_a_choice_is_requested_again(
    asked: Ask, block: Callable[[str], str]
) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 9)\nfinalize('three months')"), block("finalize('B')")])
    found = await asked("How long is the notice?", model, choices=CHOICES, strategy="rlm")
    assert found.choice == "B"


async def test_a_model_may_find_no_choice_decided(asked: Ask, block: Callable[[str], str]) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 9)\nfinalize('NOT_FOUND')")])
    found = await asked("Who pays the gas?", model, choices=CHOICES, strategy="rlm")
    assert (found.found, found.choice) == (False, None)


async def test_a_choice_without_a_model_is_refused_before_any_work(asked: Ask) -> None:
    with pytest.raises(UsageError, match=r"a choice needs a language model: .*--model"):
        await asked("How long is the notice?", choices=CHOICES)


class Rent(BaseModel):
    amount: int
    currency: str


async def test_a_typed_answer_is_parsed(asked: Ask) -> None:
    def direct(request: Request) -> str:
        return json.dumps({"amount": 900, "currency": "EUR"}) + '\nEvidence:\n"The rent is 900 euros a month"'

    found = await asked("What is the rent?", ScriptedModel.of(direct=direct), schema=Rent)
    assert found.result.parsed == Rent(amount=900, currency="EUR")
    assert found.found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"choices": ("one",)}, "2 to 26"),
        ({"choices": ("one", "two"), "schema": Rent}, "cannot be combined"),
    ],
)
async def test_invalid_questions_are_refused(asked: Ask, options: dict[str, Any], message: str) -> None:
    model = ScriptedModel.of()
    with pytest.raises(UsageError, match=message):
        await asked("What?", model, **options)
    with pytest.raises(UsageError, match="empty"):
        await asked("  ", model)
    assert model.requests == []


CHAT = (
    "Mira: I lost my job at the harbour in January, and the tattoo on my arm still hurts.\n"
    "Zeno: My neighbour's dogs play in the park. I love animals.\n"
    "Zeno: The workshop about cars begins on Friday.\n"
)


@pytest.mark.parametrize(
    "question",
    [
        "What did Bartholomew say about his job at the harbour?",
        "Which dogs does Bartholomew's neighbour take to the park?",
        "What is the thesis about?",
        "Why did the committee of the parliament break for the job?",
        "What does HX-4711 do at the harbour?",
        "How is the theme of duty explored?",
    ],
)
async def test_a_missing_name_or_most_words_missing_is_not_found(asked: Ask, question: str) -> None:
    """One or two words of a question occur nearly everywhere, so they are not an answer."""
    assert not (await asked(question, context=[CHAT])).found


@pytest.mark.parametrize(
    "question",
    [
        "When did Mira lose her job?",
        "What do Mira and Zeno have in common?",
        "What does Mira's tattoo symbolize?",
        "How many dogs does Zeno have, as of December?",
        "What Is Said About The Workshop?",
        "What is a career that Zeno could pursue with his love of animals?",
    ],
)
async def test_other_words_for_what_is_there_do_not_make_it_absent(asked: Ask, question: str) -> None:
    """Names in the text, months and capitalized titles do not count against a question."""
    assert (await asked(question, context=[CHAT])).found


async def test_the_nearest_passages_are_shown_with_their_citations(asked: Ask) -> None:
    found = await asked("What did Bartholomew say about his job at the harbour?", context=[CHAT])
    assert found.result.answer.startswith(f"{NEAREST}\n")
    assert "I lost my job at the harbour" in found.result.answer
    assert all(citation.verified for citation in found.result.citations)
    assert found.result.citations
