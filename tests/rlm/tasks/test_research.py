"""Research: a run for each question, conflicts, duplicates, gaps, sources."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.citation_markers import marker
from rlm.documents import StreamSource, TextSource
from rlm.errors import JournalError, ModelUnavailable, UsageError
from rlm.events import Event, PartRun
from rlm.journal import Journal
from rlm.models.base import EXTRACTIVE, Request
from rlm.models.offline.extractive import EXTRACTS
from rlm.results import Citation, Coverage, RunResult, Usage
from rlm.tasks.comparison import resume_comparison
from rlm.tasks.reports.evidence import Conflict, EvidenceTable, Finding
from rlm.tasks.reports.plan import Plan, Question, from_markdown
from rlm.tasks.reports.report import report
from rlm.tasks.reports.research import Research, plan_research, research, resume_research
from rlm.testing import ScriptedModel

OFFERS = [
    TextSource("a.txt", "Zeppelin Works offers the crane for 90,000 euros.\nThe notice is three months.\n"),
    TextSource("b.txt", "Zeppelin Works offers the crane for 95,000 euros.\nPaid on delivery.\n"),
    TextSource("c.txt", "The notice is three months.\nThe crane lifts 12 tons.\n"),
]
TASK = "What does the crane of Zeppelin Works cost? What is the notice? Which insurance covers lightning?"


Run = Callable[..., Any]


@pytest.fixture
def researched(sandbox_level: int, tmp_path: Path) -> Run:
    async def run(task: str = TASK, model: Any = "extractive", **options: Any) -> Research:
        settings = Settings(
            store=tmp_path / "rlm.db", sandbox=sandbox_level, strategy=options.pop("strategy", "auto")
        )
        rlm = RLM(model, settings=settings, limits=options.pop("limits", None))
        return await research(rlm, task, options.pop("context", OFFERS), **options)

    return run


async def test_without_a_model_a_report_has_passages_and_gaps_and_no_conflicts(researched: Run) -> None:
    found = await researched()
    assert re.findall(r"^## (\D.*)$", found.report, re.MULTILINE) == ["Not found", "Sources"]
    assert found.report.startswith("## 1 What does the crane of Zeppelin Works cost?\n\n- Zeppelin Works")
    assert found.sources
    assert all(source.citation.verified for source in found.sources)
    assert found.conflicts == ()
    ((question, why),) = found.gaps
    assert question.text == "Which insurance covers lightning?"
    assert why.startswith("no passage with these words")
    assert f"Which insurance covers lightning? ({why})" in found.report
    for number in {int(n) for n in re.findall(r"\[(\d+)\]", found.report)}:
        assert f"- [{number}] " in found.report.partition("## Sources")[2]


async def test_the_same_words_in_two_documents_are_one_source_with_two_places(
    researched: Run, block: Callable[[str], str]
) -> None:
    twice = [TextSource(name, "The notice of the lease is three months.\n") for name in ("a.txt", "copy.txt")]
    code = "hits = search('The notice.*', context=0)\nfinalize('Three months [1][2].', evidence=hits)"
    model = ScriptedModel.of(root=[block(code)], summary=summaries)
    plan = from_markdown("# T\n- What is the notice?\n")
    found = await researched("T", model, plan=plan, strategy="rlm", context=twice)
    (source,) = found.sources
    assert [one.document for one in (source.citation, *source.also)] == ["a.txt", "copy.txt"]
    assert "the same in copy.txt" in found.report
    assert [one.sources for one in found.findings] == [(1,)]


async def test_passages_that_are_mostly_the_same_stretch_are_one_source(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = block("finalize('It costs 90,000 euros [1][2].', evidence=[(0, 49), (30, 49), (50, 70)])")
    model = ScriptedModel.of(root=[block("print(peek(0, 90))"), code], summary=summaries)
    found = await researched("T", model, plan=from_markdown("# T\n- Cost?\n"), strategy="rlm")
    assert [(one.citation.start, one.citation.end) for one in found.sources] == [(0, 49), (50, 70)]
    assert found.findings[0].sources == (1,)


async def test_two_answers_from_one_passage_have_one_source(researched: Run) -> None:
    model = ScriptedModel.of(direct=scripted, summary=summaries)
    plan = from_markdown("# T\n- What is the notice?\n- How long is the notice?\n")
    found = await researched("T", model, plan=plan)
    assert [one.sources for one in found.findings] == [(1,), (1,)]


def scripted(request: Request) -> str:
    return {
        "cost": 'The crane costs 90,000 euros.\nEvidence:\n"offers the crane for 90,000 euros."',
        "notice": 'The notice is three months.\nEvidence:\n"The notice is three months."',
    }["cost" if "cost" in request.task.partition("(This")[0] else "notice"]


def summaries(request: Request) -> str:
    prompt = request.messages[-1].content
    if prompt.startswith("Plan research"):
        return "- What does the crane cost?\n- What is the notice?\n"
    if prompt.startswith("Below are numbered passages"):
        return json.dumps([{"sources": [1, 2], "about": "price"}, {"sources": [1, 99], "about": "made up"}])
    return "It costs 90,000 euros [1]. Nobody said this. And this is false [77]."


async def test_models_plan_answer_compare_and_sum_up(researched: Run) -> None:
    model = ScriptedModel.of(direct=scripted, summary=summaries)
    found = await researched("Compare the offers", model)
    assert [leaf.text for leaf in found.plan.leaves] == ["What does the crane cost?", "What is the notice?"]
    assert [one.text for one in found.findings] == [
        "The crane costs 90,000 euros.",
        "The notice is three months.",
    ]
    # The second conflict names one source that exists, and is dropped.
    assert [one.sources for one in found.conflicts] == [(1, 2)]
    assert found.report.startswith(
        "It costs 90,000 euros [1]. Nobody said this. And this is false [77].\n\n##"
    )
    assert "the report names sources that do not exist: [77]" in found.result.warnings
    assert found.result.usage[0].calls == sum(request.role != "check" for request in model.requests)
    assert found.result.coverage.complete


async def test_a_given_plan_is_used(researched: Run) -> None:
    model = ScriptedModel.of(direct=scripted, summary=summaries)
    plan = from_markdown("# Costs\n- What does the crane cost?\n")
    found = await researched("Costs", model, plan=plan)
    assert not [one for one in model.requests if "Plan research" in one.messages[-1].content]
    assert [one.question.text for one in found.findings] == ["What does the crane cost?"]


async def test_planning_makes_one_call_and_no_research(tmp_path: Path) -> None:
    model = ScriptedModel.of(summary=summaries)
    plan = await plan_research(RLM(model, settings=Settings(store=tmp_path / "r.db")), "Compare", OFFERS)
    assert len(model.requests) == 1
    assert "a.txt (78 characters)" in model.requests[0].messages[-1].content
    assert len(plan.leaves) == 2


async def test_a_question_that_fails_is_a_gap_and_the_others_are_kept(researched: Run) -> None:
    def fails(request: Request) -> str:
        if "notice" in request.task.partition("(This")[0]:
            raise ModelUnavailable("gone for good")
        return scripted(request)

    model = ScriptedModel.of(direct=fails, summary=summaries)
    found = await researched("Compare the offers", model)
    assert [question.text for question, _ in found.gaps] == ["What is the notice?"]
    assert "gone for good" in found.gaps[0][1]
    assert "90,000" in found.report


async def test_a_finding_without_a_source_is_marked_unverified(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = block("peek(0, 9)\nfinalize('The crane is blue.', evidence=['a blue crane stands here'])")
    model = ScriptedModel.of(root=[code, code], summary=ModelUnavailable("gone"))
    plan = from_markdown("# T\n- Which colour is the crane?\n")
    found = await researched("T", model, plan=plan, strategy="rlm")
    assert not found.sources
    assert "*Unverified:* The crane is blue." in found.report
    assert found.gaps[0][1] == "no verified passage stands behind the answer"


async def test_limits_are_shared_among_the_questions(researched: Run, tmp_path: Path) -> None:
    found = await researched(limits=Limits(max_cost=1.0, max_calls=30))
    async with Journal.open(tmp_path / "rlm.db") as journal:
        events = await journal.events(found.result.run_id)
    seen = [Limits(**event.data["limits"]) for event in events if event.kind == "part"]
    assert len(seen) == 3
    assert sum(one.max_cost for one in seen) <= 1.0
    assert sum(one.max_calls for one in seen) <= 30


async def test_a_document_can_put_neither_heading_nor_link_into_the_report(researched: Run) -> None:
    text = (
        "The crane costs 5 euros [click](http://x.example) <b>now</b>\n# Owned heading of the crane costs\n"
        "\n1. The crane costs more.\n\n- The crane costs less.\n"
    )
    found = await researched("What does the crane cost?", context=[TextSource("x.txt", text)])
    assert "[click](" not in found.report
    assert "<b>" not in found.report
    assert "\n# Owned" not in found.report
    shown = re.findall(r"^- (.*)$", found.report, re.MULTILINE)
    assert any("The crane costs more" in line for line in shown)
    assert not [line for line in shown if line.startswith(("1.", "- "))]


@pytest.mark.parametrize("text", ["1. Buy it", "- Buy it", "+ Buy it", "# Buy it", "[x](http://y) |"])
def test_text_in_a_report_is_escaped(text: str) -> None:
    question = Question("1", text)
    table = EvidenceTable(findings=[Finding(question, text, (1,))])
    shown = report(Plan(text, (question,)), "", table, [Conflict((1, 2), text)], [(question, text)])
    assert "- 1." not in shown
    assert not re.search(r"^- (?:[-+#]|\[x)|^#+ #|(?<!\\)\]\(", shown, re.MULTILINE)


async def test_nothing_to_research_is_refused(researched: Run) -> None:
    with pytest.raises(UsageError, match="no text"):
        await researched(context=["  \n"])
    with pytest.raises(UsageError, match="empty"):
        await researched("  ")


def findings_of(
    answer: str, *quotes: str, question: str = "What is it?", model: str = "m"
) -> list[tuple[str, tuple[int, ...]]]:
    """The claims of `answer` to a question, whose evidence are `quotes`, with their sources."""
    places = [0]
    for quote in quotes:
        places.append(places[-1] + len(quote) + 1)
    result = RunResult(
        run_id="r",
        answer=answer,
        confidence=None,
        stop_reason="finalized",
        forced=False,
        strategy="rlm",
        citations=tuple(
            Citation(marker(number), quote, start, start + len(quote), "a.txt", None, number, True)
            for number, (quote, start) in enumerate(zip(quotes, places, strict=False), 1)
        ),
        coverage=Coverage(input_chars=places[-1]),
        usage=(Usage(model, calls=1),),
        rounds=1,
        sub_calls=0,
        seconds=0.0,
    )
    table = EvidenceTable()
    table.add(Question("1", question), result)
    return [(one.text, one.sources) for one in table.findings]


def test_claims_have_the_sources_that_their_marks_name() -> None:
    quotes = ("Toby is his", "It begins with the letter.")
    found = findings_of("Three dogs. He names Toby [1]. It begins [2]. Nobody knows more.", *quotes)
    assert [sources for _, sources in found] == [(), (1,), (2,), ()]


def test_without_a_model_each_passage_is_a_finding() -> None:
    quotes = [f"The red crane of the northern yard costs {n}00 euros in week {n}." for n in range(5)]
    found = findings_of(f"{EXTRACTS}\n…", *quotes, question="What does the red crane cost?", model=EXTRACTIVE)
    assert found == [(quote, (number,)) for number, quote in enumerate(quotes, 1)]


@pytest.mark.parametrize(
    ("said", "warning", "questions"),
    [
        (
            "- Who sold the crane?\n- What does the crane cost?\n- Why was the crane sold?\n",
            "the model planned 3 questions; only the first 2 are asked",
            2,
        ),
        ("I can't.", "the model's plan could not be used (the plan has no questions", 1),
    ],
)
async def test_a_plan_with_too_many_or_no_questions_is_corrected_with_a_warning(
    researched: Run, said: str, warning: str, questions: int
) -> None:
    def planning(request: Request) -> str:
        planned = request.messages[-1].content.startswith("Plan research")
        return said if planned else summaries(request)

    model = ScriptedModel.of(direct=scripted, summary=planning)
    found = await researched("What does the crane cost", model, most=2)
    assert len(found.plan.leaves) == questions
    assert any(one.startswith(warning) for one in found.result.warnings)


async def test_a_warning_of_several_questions_is_given_once(
    researched: Run, block: Callable[[str], str]
) -> None:
    code = block("peek(0, 9)\nfinalize('NOT_FOUND')")
    model = ScriptedModel.of(direct="NOT_FOUND", root=lambda _: code, summary=summaries)
    found = await researched("Compare the offers", model)
    assert len(found.gaps) == 2
    assert sum("continued as an RLM" in one for one in found.result.warnings) == 1


async def test_unverified_evidence_is_counted_and_left_out(
    researched: Run, block: Callable[[str], str]
) -> None:
    evidence = "['The notice is three months.', 'a blue crane stands here']"
    code = block(f"peek(0, 9)\nfinalize('Three months [1]. It is blue [2].', evidence={evidence})")
    plan = from_markdown("# T\n- What is the notice?\n")
    found = await researched(
        "T", ScriptedModel.of(root=[code, code], summary=summaries), plan=plan, strategy="rlm"
    )
    assert [one.sources for one in found.findings] == [(1,), ()]
    warning = "1 citations are not in the input; the report marks them [?]"
    assert warning in found.result.warnings


async def test_if_the_summary_model_fails_the_findings_are_kept_and_no_conflict_is_made_up(
    researched: Run,
) -> None:
    offers = "Zeppelin Works offers the crane for {} euros."
    quotes = "\n".join(f'"{offers.format(price)}"' for price in ("90,000", "95,000"))

    def fails(request: Request) -> str:
        if "numbered passages" in request.messages[-1].content:
            return "I see none."
        raise ModelUnavailable("gone for good")

    model = ScriptedModel.of(direct=f"It costs 90,000 or 95,000 [1][2].\nEvidence:\n{quotes}", summary=fails)
    plan = from_markdown("# T\n- What does the crane cost?\n")
    found = await researched("T", model, plan=plan)
    assert found.conflicts == ()
    assert found.report.startswith("It costs 90,000 or 95,000 [1][2].")
    for warning in (
        "contradictions were not searched: the reply has no JSON array",
        "the report has no summary: gone for good",
    ):
        assert warning in found.result.warnings


async def test_if_the_provider_failed_every_question_that_is_the_stop_reason(researched: Run) -> None:
    model = ScriptedModel.of(direct=ModelUnavailable("gone for good"), summary=summaries)
    found = await researched("Compare the offers", model)
    assert found.result.stop_reason == "model"
    assert len(found.gaps) == 2


async def test_a_question_whose_provider_failed_is_asked_again_and_the_answered_ones_are_not(
    researched: Run, tmp_path: Path, sandbox_level: int
) -> None:
    """Killed after that: an answer stays, a failure is none."""
    gone = True

    def fails(request: Request) -> str:
        if gone and "notice" in request.task.partition("(This")[0]:
            raise ModelUnavailable("gone for a while")
        return scripted(request)

    def dies(request: Request) -> str:
        if gone and not request.messages[-1].content.startswith("Plan research"):
            raise RuntimeError("the process dies here")
        return summaries(request)

    model = ScriptedModel.of(direct=fails, summary=dies)
    with pytest.raises(RuntimeError):
        await researched("Compare the offers", model)
    async with Journal.open(tmp_path / "rlm.db") as journal:
        (left,) = await journal.runs()
    assert left.state == "interrupted"
    gone = False
    paid = len(model.requests)
    rlm = RLM(model, settings=Settings(store=tmp_path / "rlm.db", sandbox=sandbox_level))
    found = await resume_research(rlm, left.run_id)
    asked = [
        request.task.partition("(This")[0] for request in model.requests[paid:] if request.role == "direct"
    ]
    assert ["notice" in one for one in asked] == [True]
    assert not found.gaps
    assert [one.text for one in found.findings] == [
        "The crane costs 90,000 euros.",
        "The notice is three months.",
    ]
    # It has ended: the same comes out, nothing is asked and nothing written.
    paid = len(model.requests)
    again = await resume_research(rlm, left.run_id)
    assert (again.report, again.result) == (found.report, found.result)
    assert len(model.requests) == paid


async def test_a_job_of_another_kind_or_with_other_models_is_not_resumed(
    researched: Run, tmp_path: Path
) -> None:
    found = await researched()
    settings = Settings(store=tmp_path / "rlm.db")
    with pytest.raises(JournalError, match="is a research job, not a run of one question"):
        await RLM("extractive", settings=settings).resume(found.result.run_id)
    with pytest.raises(JournalError, match="is a research job"):
        await resume_comparison(RLM("extractive", settings=settings), found.result.run_id)
    with pytest.raises(UsageError, match="was started with"):
        await resume_research(RLM(ScriptedModel.of(root=[]), settings=settings), found.result.run_id)


async def test_the_input_is_loaded_once_for_all_questions(tmp_path: Path, sandbox_level: int) -> None:
    """A stream can be read only once, and all questions are asked over its text. Observers see one run."""
    told: list[Event] = []
    text = b"Zeppelin Works offers the crane for 90,000 euros.\nThe notice is three months.\n"
    settings = Settings(store=tmp_path / "rlm.db", sandbox=sandbox_level, strategy="rlm")
    rlm = RLM("extractive", settings=settings, observe=told.append)
    found = await research(rlm, TASK, [StreamSource("stdin", io.BytesIO(text))])
    assert {one.question.number for one in found.findings} == {"1", "2"}
    names = [type(event).__name__ for event in told]
    assert [names.count(name) for name in ("ContextLoaded", "RunStarted", "KernelOpened", "RunEnded")] == [
        1
    ] * 4
    parts = [event for event in told if isinstance(event, PartRun)]
    assert [event.name for event in parts if event.status == "running"] == ["q1", "q2", "q3"]
    assert [event.done for event in parts if event.status == "finished"] == [1, 2, 3]
    async with Journal.open(tmp_path / "rlm.db") as journal:
        (run,) = await journal.runs()
    assert (run.run_id, run.state) == (found.result.run_id, "finished")


LETTERS = """\
The crane costs 90,000 euros [1].

Sheridan County is in the U.S. state of Montana [1], says Tryon D. Lewis [1].
Its code is `values[0]`, its year [2024].

- one item
"""


async def test_a_report_prints_the_paragraphs_of_the_model_unchanged(researched: Run) -> None:
    """No splitter ends a sentence at "U.S." and drops a piece of it."""
    ask = "Below are the questions"

    def letters(request: Request) -> str:
        return LETTERS if request.messages[-1].content.startswith(ask) else summaries(request)

    found = await researched("Compare the offers", ScriptedModel.of(direct=scripted, summary=letters))
    assert found.report.startswith(LETTERS)
    assert not any("do not exist" in one for one in found.result.warnings)


async def test_an_answer_is_printed_unchanged_but_for_the_numbers_of_its_sources(
    researched: Run, block: Callable[[str], str]
) -> None:
    """Its second quote is not in the input: its mark says so."""
    text = "It costs 90,000 euros [1].\n\nIn the U.S. it costs more [2], see `a[1]`."
    evidence = ["offers the crane for 90,000 euros.", "in the U.S. it costs more than that"]
    code = block(f"print(peek(0, 9))\nfinalize({text!r}, evidence={evidence})")
    model = ScriptedModel.of(root=[code, code], summary=ModelUnavailable("gone"))
    found = await researched(
        "T", model, plan=from_markdown("# T\n- What does the crane cost?\n"), strategy="rlm"
    )
    assert found.report.startswith(text.replace("[2]", "[?]"))


CHOICES = "Compare the offers. Which costs more: A) the crane, B) the notice? Answer with the letter only."


@pytest.mark.parametrize("reply", ["A", "**A**\n\nIt costs 90,000 euros [1]."])
async def test_an_answer_has_the_form_that_the_task_asks_for(researched: Run, reply: str) -> None:
    def letter(request: Request) -> str:
        prompt = request.messages[-1].content
        return reply if prompt.startswith("Below are the questions") else summaries(request)

    found = await researched(CHOICES, ScriptedModel.of(direct=scripted, summary=letter))
    assert found.report.startswith(reply)


async def test_what_the_summary_tells_is_not_told_again(researched: Run) -> None:
    def telling(request: Request) -> str:
        prompt = request.messages[-1].content
        if prompt.startswith("Below are the questions"):
            return "The crane costs 90,000 euros [1]."
        return summaries(request)

    found = await researched("Compare the offers", ScriptedModel.of(direct=scripted, summary=telling))
    assert found.report.count("The crane costs 90,000 euros") == 1
    findings = found.report.partition("## Findings")[2].partition("## Conflicts")[0]
    assert "The notice is three months." in findings
    assert "90,000" not in findings
    assert len(found.findings) == 2


async def test_a_resumed_research_does_not_take_the_summary_of_other_findings(
    researched: Run, tmp_path: Path, sandbox_level: int
) -> None:
    """The summary was paid before one question failed for a while; now that question has an answer."""
    gone = True

    def fails(request: Request) -> str:
        if gone and "notice" in request.task.partition("(This")[0]:
            raise ModelUnavailable("gone for a while")
        return scripted(request)

    def tells(request: Request) -> str:
        prompt = request.messages[-1].content
        if prompt.startswith("Below are the questions"):
            return (
                "The notice is three months [2]." if "three months" in prompt else "Nothing of a notice [1]."
            )
        return summaries(request)

    def dies(request: Request) -> str:
        if gone:
            raise RuntimeError("the process dies here")
        return '{"unsupported": []}'

    model = ScriptedModel.of(direct=fails, summary=tells, check=dies)
    with pytest.raises(RuntimeError):
        await researched("Compare the offers", model)
    async with Journal.open(tmp_path / "rlm.db") as journal:
        (left,) = await journal.runs()
    gone = False
    rlm = RLM(model, settings=Settings(store=tmp_path / "rlm.db", sandbox=sandbox_level))
    found = await resume_research(rlm, left.run_id)
    assert found.report.startswith("The notice is three months [2].")


def test_an_answer_without_a_source_is_shown_next_to_the_summary() -> None:
    question = Question("1", "Cost?")
    table = EvidenceTable(findings=[Finding(question, "It costs 5.", ())], answers={"1": "It costs 5."})
    plan = Plan("T", (question, Question("2", "Notice?")))
    assert "*Unverified:* It costs 5." in report(plan, "The whole.", table, [], [])


def test_passages_that_differ_in_one_word_are_two_sources() -> None:
    """One of them says that it is not so."""
    words = "The crane of the northern yard that was bought in May is insured against fire and theft."
    table = EvidenceTable()
    for place, quote in enumerate((words, words.replace("is insured", "is not insured"), words)):
        start = place * 500
        end = start + len(quote)
        cited = Citation("[¹]", quote, start, end, f"{place}.txt", None, 1, verified=True)
        table._add_source(cited)
    assert [len(one.also) for one in table.sources] == [1, 0]
