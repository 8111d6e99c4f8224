"""Test `completion` as users of rlms call it, questions without a text, and how objects print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.results import Citation, Note
from rlm.testing import ScriptedModel


def asking(model: ScriptedModel | str, folder: Path) -> RLM:
    return RLM(model, settings=Settings(store=folder / "rlm.db"))


def test_completion_takes_the_text_first_and_the_question_second(tmp_path: Path) -> None:
    rlm = asking("extractive", tmp_path)
    result = rlm.completion(
        "The code word is Zebra-99.\nThen we left.\n", root_prompt="What is the code word?"
    )
    assert "Zebra-99" in result.response
    assert result.response == result.text
    assert result.citations[0].verified


async def test_acompletion_is_for_event_loops(tmp_path: Path) -> None:
    rlm = asking("extractive", tmp_path)
    with pytest.raises(UsageError, match=r"await rlm.acompletion"):
        rlm.completion("What?")
    result = await rlm.acompletion({"code word": "Zebra-99"}, "What is the code word?")
    assert "Zebra-99" in result.response


def test_a_short_prompt_alone_is_the_question(tmp_path: Path, block) -> None:
    model = ScriptedModel.of(root=block("finalize(2 ** 10)"))
    result = asking(model, tmp_path).completion("What is 2 to the power of 10?")
    assert result.answer == 1024
    assert "What is 2 to the power of 10?" in model.requests[0].messages[1].content


def test_a_context_need_not_be_given(tmp_path: Path, block) -> None:
    rlm = asking(ScriptedModel.of(root=block("finalize(6 * 7)")), tmp_path)
    assert rlm.run_sync("What is six times seven?").answer == 42


def test_a_long_prompt_alone_holds_its_question(tmp_path: Path) -> None:
    text = "Nothing happens here.\n" * 400 + "The code is K-7.\n\nQuestion: what is the code?"
    model = ScriptedModel.of(direct='K-7\n\nEvidence:\n"The code is K-7."')
    result = asking(model, tmp_path).completion(text)
    assert result.answer == "K-7"
    asked = model.requests[0].messages[-1].content
    assert "The text itself holds the request" in asked
    assert "Question: what is the code?" in asked


def test_the_last_of_several_messages_is_the_question(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "My cat is called Tabby."},
        {"role": "assistant", "content": "A fine name."},
        {"role": "user", "content": "What is my cat called?"},
    ]
    result = asking("extractive", tmp_path).completion(messages)
    assert "Tabby" in result.response
    assert result.citations[0].message is not None


def test_a_prompt_that_is_a_path_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    for arguments in (["notes.txt"], ["notes.txt", "What is it about?"]):
        with pytest.raises(UsageError, match=r"Path\('notes.txt'\)"):
            asking("extractive", tmp_path).completion(*arguments)


def test_objects_print_in_a_line(tmp_path: Path) -> None:
    rlm = RLM("extractive", sub_model=ScriptedModel.of(), settings=Settings(store=tmp_path / "rlm.db"))
    assert repr(rlm).startswith("RLM('extractive', sub_model='")
    result = asking("extractive", tmp_path).run_sync("What was ordered?", "Acme ordered forty cranes.\n" * 50)
    assert repr(result).startswith(f"RunResult('{result.run_id}', answer='")
    assert len(repr(result)) < 400
    assert "\n" not in repr(result)
    assert result.cost_usd == 0
    assert repr(rlm.session("text")) == "Session(not open)"


def test_a_citation_prints_its_place_and_quote() -> None:
    citation = Citation("[¹]", "so it is", 0, 8, "a.txt", None, 3, verified=True)
    assert repr(citation) == "Citation('[¹]', 'a.txt:3', 'so it is', verified=True)"


async def test_an_open_session_tells_its_size(tmp_path: Path) -> None:
    async with asking("extractive", tmp_path).session("some text") as session:
        await session.run("Which text?")
        assert repr(session) == "Session(1 document, 9 characters, 1 question)"


def test_html_tells_what_was_read_and_spent_and_nothing_is_live(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> Acme ordered <img src=x onerror=alert(2)> forty cranes.\n"
    (tmp_path / "<b>a.txt").write_text(hostile)
    result = asking("extractive", tmp_path).run_sync("What was ordered?", tmp_path / "<b>a.txt")
    html = replace(result, notes=tuple(map(Note, ("<i>one</i>", "two", "three", "four"))))._repr_html_()
    assert "of the input read" in html
    assert "$0;" in html
    assert "Further notes: 1" in html
    for live in ("<script", "<img", "<b>a", "<i>one"):
        assert live not in html
    assert "&lt;script&gt;" in html
