"""A text that fits the model's window is summarized by one call, and its prose is printed as it is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.documents import TextSource
from rlm.errors import ModelUnavailable
from rlm.events import TextDelta
from rlm.models.base import ModelWindow, Reply, Request
from rlm.tasks.summaries.summarize import summarize
from rlm.testing import ScriptedModel

SAID = (
    ("Evan", "I bought a Prius in May, for 9,000 euros."),
    ("Ann", "The refund is never paid twice, that is the rule."),
    ("Ben", "We did not move to Oslo. We stayed in Bergen, because of the school."),
    ("Ann", "The webhook answers in 2 seconds. The U.S. office asks for it, says Tryon D. Lewis."),
)
PROSE = """\
This is a talk of three friends in May. Nothing was decided, and all turned on the refund [m2].

## Evan and Ben
Evan bought a Prius for 9,000 euros [m1], on an M3. His friend Ben stayed in Bergen, because of the U.S.
school he likes. [m3, m4] It was `values[0]` that he asked for.

- Ann owes the webhook [m4]"""
REPORT = "# Method\n\nThe kiln was heated to 900 degrees.\n\n# Results\n\nThe glaze cracked at 870 degrees.\n"


def prompt_of(model: ScriptedModel) -> str:
    return model.requests[0].messages[-1].content


async def test_one_call_over_the_whole_text_is_printed_as_it_was_written(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    model = ScriptedModel.of(summary=PROSE, check=careful)
    found = await summary([chat_of(*SAID)], model)
    assert found.text == PROSE
    assert [one.role for one in model.requests] == ["summary", "check"]
    assert all(text in prompt_of(model) for _, text in SAID)
    assert "[m3] user (Ben): We did not move" in prompt_of(model)
    assert (found.kind, found.form, found.messages) == ("history", "subjects", 4)
    assert [one.marker for one in found.result.citations] == ["[m1]", "[m2]", "[m3]", "[m4]"]
    assert found.result.coverage.complete
    claims = found.result.support.claims
    assert all(found.text[one.start : one.end].startswith(one.text[:20]) for one in claims)
    ben = next(one for one in claims if one.text.startswith("His friend Ben"))
    assert ben.text.endswith("U.S.\nschool he likes.")
    assert ben.sources == (3, 4)
    assert found.result.warnings == ()


async def test_what_nothing_supports_is_marked_and_stays(summary: Any, chat_of: Any, careful: Any) -> None:
    """A remark stands behind the sentence, and behind a paragraph that cites nothing that exists."""
    text = "Evan bought a spaceship on Mars [m1]. He is glad [m1].\n\nZoe studies ice [m99]."

    def check(request: Request) -> str:
        return str(careful(request, "Mars"))

    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=text, check=check))
    assert found.text == (
        "Evan bought a spaceship on Mars [m1]. (not supported by its source) He is glad [m1].\n\n"
        "Zoe studies ice [m99]. (no source found)"
    )
    assert "the summary names sources that do not exist: m99" in found.result.warnings
    assert "1 paragraph of the summary name no source" in found.result.warnings
    assert any("spaceship" in one for one in found.result.warnings)
    statuses = [one.status for one in found.result.support.claims]
    assert statuses == ["unsupported", "supported", "unchecked"]
    assert found.text[slice(*_place(found, 1))] == "He is glad [m1]."


def _place(found: Any, at: int) -> tuple[int, int]:
    claim = found.result.support.claims[at]
    return claim.start, claim.end


async def test_a_document_is_read_by_its_paragraphs(summary: Any, careful: Any) -> None:
    text = (
        "A report on a glaze: it failed [p4].\n\nIt cracked at 870 degrees, below the kiln's heat [p2, p4]."
    )
    model = ScriptedModel.of(summary=text, check=careful)
    found = await summary([TextSource("report.md", REPORT, "markdown")], model)
    assert (found.kind, found.text) == ("document", text)
    assert "[p2] The kiln was heated" in prompt_of(model)
    assert [one.marker for one in found.result.citations] == ["[p2]", "[p4]"]
    assert found.result.citations[0].quote == "The kiln was heated to 900 degrees."
    assert found.result.citations[0].author is None


async def test_the_length_does_not_count_marks_and_a_long_one_is_shortened_once(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    marked = " ".join(["The refund is never paid twice [m1, m2, m3, m4, m1, m2, m3]."] * 15)
    model = ScriptedModel.of(summary=marked, check=careful)
    found = await summary([chat_of(*SAID)], model, tokens=120)
    assert found.text == marked
    assert "About 86 words" in prompt_of(model)
    long = " ".join(["The refund is never paid twice [m2]."] * 60)
    model = ScriptedModel.of(summary=[long, "The refund is paid once [m2]."], check=careful)
    found = await summary([chat_of(*SAID)], model, tokens=120)
    assert found.text == "The refund is paid once [m2]."


async def test_a_reply_of_as_many_words_as_were_asked_for_is_not_sent_back(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    """Names, numbers and code count as words here: an estimate of their tokens is far higher."""
    said = "On 2026-03-02 Jonathan McAllister (QA) re-ran tests/test_refunds.py: 42 passed, 3 failed [m1]."
    whole = " ".join([said] * 8)
    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=[whole], check=careful), tokens=120)
    assert found.text == whole
    assert not [one for one in found.result.warnings if "longer" in one or "failed" in one]


async def test_a_card_begins_with_its_id_and_has_the_five_headings(summary: Any, careful: Any) -> None:
    log = "".join(
        f"commit {n:07x}abc\nAuthor: dev <dev@example.org>\nDate:   Fri May {n} 10:00:00 2026 +0000\n\n"
        f"    Fix the lock in refund {n}\n\n"
        for n in (3, 2, 1)
    )
    model = ScriptedModel.of(summary="## Task Summary\nThe log of a fix [m1].", check=careful)
    found = await summary([TextSource("log.txt", log)], model)
    assert "its id or name, its purpose, and its state now" in prompt_of(model)
    assert re.search(r"## Task Summary.*## Remaining Work", prompt_of(model), re.DOTALL)
    assert found.form == "work"


async def test_a_focus_and_own_headings_are_followed(summary: Any, chat_of: Any, careful: Any) -> None:
    model = ScriptedModel.of(summary="Done [m1].", check=careful)
    await summary([chat_of(*SAID)], model, focus="what Ann owes", form="meeting")
    assert "a reader who wants this of it: what Ann owes" in prompt_of(model)
    assert "`## Who Does What`" in prompt_of(model)


async def test_of_a_history_that_grew_only_what_is_new_is_read_beside_its_earlier_summary(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    """The same history costs nothing."""
    model = ScriptedModel.of(summary=PROSE, check=careful)
    first = await summary([chat_of(*SAID)], model)
    paid = len(model.requests)
    again = await summary([chat_of(*SAID)], model, since=first.result.run_id)
    assert (again.text, again.known, len(model.requests)) == (first.text, 4, paid)
    grown = await summary([chat_of(*SAID, ("Ben", "I go."))], model, since=first.result.run_id)
    assert grown.known == 4
    asked = model.requests[paid].messages[-1].content
    assert "Keep from that summary what still holds" in asked
    assert PROSE in asked
    assert "I go." in asked
    assert SAID[0][1] not in asked


@pytest.mark.parametrize("reply", [ModelUnavailable("nothing listens"), " "])
async def test_if_the_model_fails_sentences_of_the_text_are_used(
    summary: Any, chat_of: Any, reply: Any
) -> None:
    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=reply))
    assert found.form == "extracts"
    assert "never paid twice" in found.text
    assert found.result.warnings


async def test_a_reply_that_was_cut_off_is_kept_and_told(summary: Any, chat_of: Any, careful: Any) -> None:
    reply = Reply("The refund is never paid twice [m2]. Evan bought", "length")
    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=reply, check=careful))
    assert found.text.startswith("The refund is never paid twice [m2]. Evan bought")
    assert any("did not complete its reply" in one for one in found.result.warnings)


async def test_a_text_that_does_not_fit_the_window_is_read_in_parts(summary: Any, chat_of: Any) -> None:
    said = [("Ann", f"Part {n} of the plan: " + "we build the hall. " * 30) for n in range(60)]
    model = ScriptedModel.of(summary="No change.", window=ModelWindow(9_000, 2_000))
    await summary([chat_of(*said)], model, check=False)
    assert len(model.requests) > 1
    assert said[0][1].strip() in prompt_of(model)


LONG = " ".join(["The refund is never paid twice [m2]."] * 60)


@pytest.mark.parametrize(
    "second",
    [
        ModelUnavailable("nothing listens"),
        Reply("The refund is never paid twice [m2]. And", "length"),
        "   ",
    ],
)
async def test_a_text_that_could_not_be_shortened_is_kept_whole(
    summary: Any, chat_of: Any, careful: Any, second: Any
) -> None:
    """It is paid for, and a failed second call takes nothing of it."""
    found = await summary(
        [chat_of(*SAID)], ScriptedModel.of(summary=[LONG, second], check=careful), tokens=120
    )
    assert found.text == LONG
    assert found.form == "subjects"
    assert found.result.stop_reason == "finalized"
    assert any("longer than the 120 tokens" in one for one in found.result.warnings)


async def test_a_shorter_text_withdraws_the_draft_that_was_shown(
    tmp_path: Path, chat_of: Any, careful: Any
) -> None:
    deltas: list[TextDelta] = []
    model = ScriptedModel.of(summary=[LONG, "The refund is paid once [m2]."], check=careful)
    rlm = RLM(model, settings=Settings(store=tmp_path / "rlm.db"), observe_text=deltas.append)
    found = await summarize(rlm, [chat_of(*SAID)], tokens=120)
    shown = ""
    for one in deltas:
        if isinstance(one, TextDelta) and one.is_answer:
            shown = one.text if one.restarted else shown + one.text
    assert shown.strip() in ("", found.text)


async def test_the_rows_of_a_table_are_checked_one_by_one_and_stay_rows(
    summary: Any, chat_of: Any, careful: Any
) -> None:
    """The header states nothing, and a remark stands within the last cell of its row."""
    text = (
        "These are the debts:\n\n"
        "| who | what |\n"
        "| --- | --- |\n"
        "| Evan | a spaceship [m1] |\n"
        "| Ben | the school |\n"
        "| Ann | the webhook [m4] |\n\n"
        "Done [m4]."
    )

    def check(request: Request) -> str:
        return str(careful(request, "spaceship"))

    found = await summary([chat_of(*SAID)], ScriptedModel.of(summary=text, check=check))
    assert found.text == text.replace("[m1] |", "[m1] (not supported by its source) |").replace(
        "school |", "school (no source found) |"
    )
    assert [one.text for one in found.result.support.claims] == [
        "Evan | a spaceship",
        "Ben | the school",
        "Ann | the webhook",
        "Done.",
    ]


async def test_a_reply_of_blanks_is_read_in_no_time(summary: Any, chat_of: Any, careful: Any) -> None:
    text = "Evan bought a Prius [m1].\n\n" + "\t " * 30_000 + "x" + " " * 30_000 + "y [m1]."
    began = time.monotonic()
    await summary([chat_of(*SAID)], ScriptedModel.of(summary=text, check=careful))
    assert time.monotonic() - began < 3
