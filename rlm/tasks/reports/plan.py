"""The plan of a research: its questions, as Markdown and as a model writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.templates import table
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job

__all__ = ["MAX_QUESTIONS", "Plan", "Question", "from_markdown", "from_task", "is_the_task", "make_plan"]

MAX_QUESTIONS = 50
"""The maximum number of questions without parts. Each of them gets its own run."""

_MAX_LEVELS = 4
_MAX_CHARS = 1_000
_ITEM = re.compile(r"^(?P<indent>[ \t]*)(?:[-*+]|\d{1,3}(?:\.\d{1,3})*[.)]?)[ \t]+(?P<text>\S.*)$")
_TITLE = re.compile(r"^#\s+(\S.*)$")
_LISTED = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)]|\([a-z0-9]\))\s+", re.MULTILINE)
_MARK = re.compile(r"(?:^|(?<=\s))(?:[-*+•]|\d{1,2}[.)]|\([a-z0-9]\))(?=\s)")
_ASKED = re.compile(r"[^?？]*[?？]")
_TAG = re.compile(r"\s*\[(?:fact|needs)\b[^\]\n]{0,60}\]\s*$", re.IGNORECASE)
"""`[fact]`, `[needs 2]` or `[fact, needs 1, 2]` behind a question."""
_NUMBER = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its parts. If it has parts, only these are asked. `number` is its place in the tree,
    such as `2.1`. It is asked after the questions `needs`, with their answers. `is_fact`: one or two passages
    can hold its answer."""

    number: str
    text: str
    parts: tuple[Question, ...] = ()
    needs: tuple[str, ...] = ()
    is_fact: bool = False

    @property
    def tagged(self) -> str:
        """Return the text with its tag, as in a plan."""
        needs = f"needs {', '.join(self.needs)}" if self.needs else ""
        tags = ", ".join(filter(None, ("fact" if self.is_fact else "", needs)))
        return f"{self.text} [{tags}]" if tags else self.text

    def leaves(self) -> Iterator[Question]:
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True, slots=True)
class Plan:
    """A task and the questions that answer it."""

    task: str
    questions: tuple[Question, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the JSON of `dataclasses.asdict`."""
        return cls(data["task"], tuple(map(_read_back, data["questions"])))

    @property
    def leaves(self) -> tuple[Question, ...]:
        """The questions that are asked, in order."""
        return tuple(leaf for question in self.questions for leaf in question.leaves())

    def needs(self, leaf: Question) -> tuple[str, ...]:
        """Return the numbers of the questions without parts whose answers `leaf` needs."""
        wanted = [question for question in self._all() if question.number in leaf.needs]
        numbers = {
            one.number for question in wanted for one in question.leaves() if one.number != leaf.number
        }
        return tuple(one.number for one in self.leaves if one.number in numbers)

    def _all(self) -> Iterator[Question]:
        waiting = list(self.questions)
        while waiting:
            question = waiting.pop()
            waiting += question.parts
            yield question

    def markdown(self) -> str:
        """Return the plan in the form that `from_markdown` reads."""
        lines = [f"# {self.task}", ""]

        def add(questions: Sequence[Question], depth: int) -> None:
            for question in questions:
                lines.append(f"{'   ' * depth}{question.number}. {question.tagged}")
                add(question.parts, depth + 1)

        add(self.questions, 0)
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Node:
    text: str
    indent: int
    parts: list[_Node] = field(default_factory=list)


def from_markdown(text: str, task: str = "") -> Plan:
    """Read a plan from a nested list. A deeper indented item is a part of the question above it. A `# title`
    is the task, unless `task` is given. Skips all other lines. Raises UsageError."""
    roots: list[_Node] = []
    above: list[_Node] = []
    for line in text.splitlines():
        title = _TITLE.match(line)
        if title is not None:
            task = task or title[1].strip()
        item = _ITEM.match(line.expandtabs(4))
        if item is None:
            continue
        node = _Node(" ".join(item["text"].split()), len(item["indent"]))
        while above and above[-1].indent >= node.indent:
            above.pop()
        (above[-1].parts if above else roots).append(node)
        above.append(node)
        if len(above) > _MAX_LEVELS:
            raise UsageError(
                f"the plan is nested deeper than {_MAX_LEVELS} levels at {node.text[:60]!r}: flatten it"
            )
        if len(node.text) > _MAX_CHARS:
            raise UsageError(
                f"a question of the plan has more than {_MAX_CHARS:,} characters; shorten it: "
                f"{node.text[:60]!r}…"
            )
    plan = Plan(task.strip(), tuple(_question(node, str(n)) for n, node in enumerate(roots, 1)))
    if not plan.leaves:
        raise UsageError("the plan has no questions: write each as `- question` on its own line")
    if not plan.task:
        raise UsageError("the plan has no task: add a first line `# the task`")
    if len(plan.leaves) > MAX_QUESTIONS:
        raise UsageError(f"the plan has {len(plan.leaves)} questions: the maximum is {MAX_QUESTIONS}")
    before: set[str] = set()
    numbers = {question.number for question in plan._all()}
    for leaf in plan.leaves:
        unknown = [number for number in leaf.needs if number not in numbers]
        if unknown:
            raise UsageError(f"question {leaf.number} needs {unknown[0]}, which is not in the plan")
        later = [number for number in plan.needs(leaf) if number not in before]
        if later:
            raise UsageError(f"question {leaf.number} needs {later[0]}, which comes after it: move it down")
        before.add(leaf.number)
    return plan


def from_task(task: str, most: int) -> Plan:
    """Make a plan without a model. Its questions are the questions and list items in the task, else the task
    itself."""
    questions = [
        " ".join(question.split())
        for item in _items(task)
        for question in [one for one in _ASKED.findall(item) if one.strip()] or [item]
    ]
    unique = list(dict.fromkeys(questions))[:most] or [" ".join(task.split())]
    return Plan(
        " ".join(task.split()), tuple(Question(str(n), one[:_MAX_CHARS]) for n, one in enumerate(unique, 1))
    )


def is_the_task(plan: Plan) -> bool:
    """Return whether the task is nothing but the questions of the plan."""
    asked = " ".join(leaf.text for leaf in plan.leaves)
    return _MARK.sub(" ", plan.task).split() == _MARK.sub(" ", asked).split()


def _items(task: str) -> list[str]:
    """Return the items of a list in the task, without its introduction; else the task."""
    if not _LISTED.search(task):
        return [task]
    introduction, *items = _LISTED.split(task)
    kept = [introduction] if introduction.strip() and not introduction.rstrip().endswith(":") else []
    return [*kept, *(item for item in items if item.strip())]


def _read_back(data: Mapping[str, Any]) -> Question:
    return Question(
        data["number"],
        data["text"],
        tuple(map(_read_back, data["parts"])),
        tuple(data["needs"]),
        data["is_fact"],
    )


def _question(node: _Node, number: str) -> Question:
    parts = tuple(_question(part, f"{number}.{n}") for n, part in enumerate(node.parts, 1))
    tag = _TAG.search(node.text)
    if tag is None:
        return Question(number, node.text, parts)
    needs = tuple(dict.fromkeys(_NUMBER.findall(tag[0])))
    return Question(number, node.text[: tag.start()], parts, needs, "fact" in tag[0].casefold())


_PLAN_TOKENS = 2_000
_MAX_DOCUMENTS = 30
_MAX_HEADINGS = 12


async def make_plan(job: Job, task: str, most: int) -> Plan:
    """Return the plan that the journal holds, or else make one and write it to the journal.

    The root model makes it from the task and a list of the documents. Without a model the task is split.
    Raises ModelError and BudgetExhausted.
    """
    stored = job.recorded("planned")
    if stored is not None:
        for note in stored["notes"]:
            job.warn(note)
        return Plan.from_json(stored)
    if is_extractive(job.config.model):
        return from_task(task, most)
    noted = len(job.warnings)
    ask = table("tasks.toml")["plan"].strip()
    prompt = ask.format(task=task, most=most, documents=_list_documents(job.body))
    reply = await job.ask(job.config.model, prompt, _PLAN_TOKENS)
    try:
        plan = from_markdown(reply, task)
    except UsageError as error:
        job.warn(f"the model's plan could not be used ({error}); the task was split without a model")
        plan = from_task(task, most)
    if len(plan.leaves) > most:
        job.warn(f"the model planned {len(plan.leaves)} questions; only the first {most} are asked")
        kept = {leaf.number for leaf in plan.leaves[:most]}
        plan = Plan(task, tuple(leaf for leaf in plan.leaves if leaf.number in kept))
    await job.record("planned", {**asdict(plan), "notes": job.warnings[noted:]})
    return plan


def _list_documents(body: Body) -> str:
    """Return the documents' names, their sizes and their first headings."""
    lines = []
    for document in body.documents[:_MAX_DOCUMENTS]:
        rows = list(body.marks.headings.between(document.start, document.end))[:_MAX_HEADINGS]
        titles = "; ".join(" ".join(body.text(*body.marks.title(row)).split()) for row in rows)
        size = f"{document.end - document.start:,} characters"
        name = " ".join(document.name.split())
        lines.append(f"- {name} ({size})" + (f": {titles}" if titles else ""))
    if len(body.documents) > _MAX_DOCUMENTS:
        lines.append(f"- … and {len(body.documents) - _MAX_DOCUMENTS:,} more")
    return "\n".join(lines)
