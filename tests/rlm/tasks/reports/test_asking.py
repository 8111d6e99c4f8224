"""The questions of a research: from passages or in rounds, after the answers that they need, at what cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlm.journal import Journal
from rlm.models.base import Request
from rlm.tasks.reports.plan import Plan, from_markdown
from rlm.testing import ScriptedModel

Run = Callable[..., Any]
ONE = "In which town was the ferry Halcyon built?"
TWO = f"{ONE} In which town was the ferry Orlop built?"


def facts(task: str) -> Plan:
    """Plan the questions of a task, each for one fact."""
    questions = re.findall(r"[^?]+[?]", task)
    return from_markdown("\n".join([f"# {task}", *(f"- {one} [fact]" for one in questions)]))


def prompt_of(request: Request) -> str:
    return request.messages[-1].content


def reader(request: Request) -> str:
    """Answer a look-up as a reader does who sees only passages: a step at a time."""
    text = prompt_of(request)
    ferry, yard, town = (
        ("Halcyon", "Brann", "Ostrey") if "Halcyon" in request.task else ("Orlop", "Tarn", "Quill")
    )
    built = f"The ferry {ferry} was built by the {yard} yard."
    lies = f"The {yard} yard lies in the town of {town}."
    if lies in text and built in text:
        return f'In {town}. [1][2]\n\nEvidence:\n"{built}"\n"{lies}"'
    return f"NOT_FOUND\nNEXT: {yard} yard lies in town"


async def test_a_chain_is_looked_up_step_by_step_without_a_run(researched: Run) -> None:
    model = ScriptedModel.of(direct=reader, summary="[]")
    found = await researched(TWO, model, plan=facts(TWO))
    assert [one.text for one in found.findings] == ["In Ostrey.", "In Quill."]
    assert [(one.how, one.found, one.rounds) for one in found.questions] == [("passages", True, 0)] * 2
    assert all(1 <= one.calls <= 2 for one in found.questions)
    assert not found.gaps
    assert [request.role for request in model.requests].count("root") == 0
    assert found.result.rounds == 0
    assert found.report.startswith("## 1 In which town was the ferry Halcyon built?\n\nIn Ostrey. [1][2]")


async def test_a_question_that_passages_do_not_answer_is_searched_in_rounds(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = "hits = search('Brann yard lies.*', context=0)\nfinalize('In Ostrey [1].', evidence=hits)"
    model = ScriptedModel.of(direct="NOT_FOUND", root=[block(code)], summary="[]")
    found = await researched(ONE, model, plan=facts(ONE))
    assert found.report.startswith("In Ostrey [1].")
    (took,) = found.questions
    assert (took.how, took.rounds, took.calls) == ("rounds", 1, 2)
    assert (found.result.rounds, found.result.sub_calls) == (1, 1)


async def test_an_answer_from_passages_needs_verified_quotes(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = block("search('Halcyon')\nfinalize('Not in the documents: no letter names an owner.')")
    model = ScriptedModel.of(direct='Jo.\nEvidence:\n"Jo owns the ferry."', root=[code], summary="[]")
    owner = "Who owns the ferry Halcyon?"
    found = await researched(owner, model, plan=facts(owner))
    assert not found.findings
    assert found.report.startswith("*Not found: not in the documents: no letter names an owner;")


PLAN = """# Report on the Halcyon
1. Which yard built the ferry Halcyon? [fact]
2. In which town does the yard found under 1 lie? [fact, needs 1]
3. When was the town found under 2 founded? [needs 2, fact]
"""


def chain(request: Request) -> str:
    text = prompt_of(request)
    if "town found under 2" in request.task:
        assert '"Ostrey' in text.partition("Known from earlier questions:")[2]
        return 'In 1412. [1]\nEvidence:\n"The town of Ostrey was founded in 1412."'
    if "yard found under 1" in request.task:
        known = text.partition("Known from earlier questions:")[2].partition("<")[0]
        assert '"The Brann yard [¹]."' in known
        assert "ferries.txt" in known
        return 'Ostrey. [1]\nEvidence:\n"The Brann yard lies in the town of Ostrey."'
    return 'The Brann yard [1].\nEvidence:\n"The ferry Halcyon was built by the Brann yard."'


async def test_a_question_runs_after_the_one_that_it_names_with_its_answer_put_in(researched: Run) -> None:
    model = ScriptedModel.of(direct=chain, summary="It was founded in 1412 [3].")
    found = await researched("Report on the Halcyon", model, plan=from_markdown(PLAN))
    assert [one.text for one in found.findings] == ["The Brann yard.", "Ostrey.", "In 1412."]
    assert found.report.startswith("It was founded in 1412 [3].\n")
    assert [one.calls for one in found.questions] == [1, 1, 1]


async def test_if_the_earlier_answer_was_not_found_the_later_is_not_paid_for(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = block("search('Halcyon')\nfinalize('Not in the documents: no yard is named.')")
    model = ScriptedModel.of(direct="NOT_FOUND", root=[code], summary="[]")
    found = await researched("Report on the Halcyon", model, plan=from_markdown(PLAN))
    assert [why for _, why in found.gaps][1:] == [
        "not asked: it needs the answer to 1, which was not found in the documents",
        "not asked: it needs the answer to 2, which was not asked",
    ]
    assert [one.how for one in found.questions] == ["rounds", "not asked", "not asked"]
    assert [one.calls for one in found.questions][1:] == [0, 0]
    assert len(model.requests) == 2


async def test_what_was_not_read_is_named_with_the_gap(researched: Run, block: Callable[[str], str]) -> None:
    code = block(
        "d = documents()[0]\npeek(d.start, d.end)\nfinalize('Not in the documents: nobody owns it.')"
    )
    found = await researched("Why did it sink?", ScriptedModel.of(root=[code], summary="- Why did it sink?"))
    ((_, why),) = found.gaps
    assert why.startswith("not in the documents: nobody owns it; 4 of 5 files were not read: ")
    assert "ferries.txt" not in why
    assert "yards.txt" in why


async def test_a_model_plans_a_task_and_its_tags_are_followed(researched: Run, tmp_path: Path) -> None:
    planned = PLAN.partition("\n")[2]

    def summary(request: Request) -> str:
        return planned if prompt_of(request).startswith("Plan research") else "It was 1412 [3]."

    found = await researched("Report on the Halcyon", ScriptedModel.of(direct=chain, summary=summary))
    assert found.plan == from_markdown(PLAN)
    assert [one.text for one in found.findings] == ["The Brann yard.", "Ostrey.", "In 1412."]
    async with Journal.open(tmp_path / "rlm.db") as journal:
        events = await journal.events(found.result.run_id)
    (stored,) = [event.data for event in events if event.kind == "planned"]
    assert Plan.from_json(stored) == found.plan


def passengers(request: Request) -> str:
    if request.role == "summary" and "numbered passages" in prompt_of(request):
        numbers = re.findall(r"^\[(\d+)\] .*carries", prompt_of(request), re.MULTILINE)
        about = "240 or 310 passengers"
        return json.dumps([{"sources": [int(one) for one in numbers], "about": about}])
    return 'Either 240 [1] or 310 [2].\nEvidence:\n"carries 240 passengers"\n"carries 310 passengers"'


async def test_a_contradiction_is_judged_on_whole_sentences_and_shown_with_both_places(
    researched: Run,
) -> None:
    model = ScriptedModel.of(direct=passengers, summary=passengers)
    load = "Which load of passengers does the ferry Halcyon carry?"
    found = await researched(load, model, plan=facts(load))
    asked = next(prompt_of(one) for one in model.requests if "numbered passages" in prompt_of(one))
    letter = "A letter of the master in May says that the ferry Halcyon carries 240 passengers."
    press = "The harbour newspaper of June says that the ferry Halcyon carries 310 passengers."
    assert f"[1] letters.txt: {letter}" in asked
    assert f"[2] press.txt: {press}" in asked
    conflicts = found.report.partition("## Conflicts between sources")[2]
    assert f"letters.txt:2: “{letter}”" in conflicts
    assert f"press.txt:2: “{press}”" in conflicts
