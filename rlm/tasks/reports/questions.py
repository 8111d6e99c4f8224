"""A research plan: a tree of questions, as a Markdown list that people can edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlm.errors import UsageError

__all__ = ["MAX_QUESTIONS", "Plan", "Question", "from_markdown", "from_task"]

MAX_QUESTIONS = 50
"""The maximum number of questions without parts. Each of them gets its own run."""

_MAX_LEVELS = 4
_MAX_CHARS = 1_000
_ITEM = re.compile(r"^(?P<indent>[ \t]*)(?:[-*+]|\d{1,3}(?:\.\d{1,3})*[.)]?)[ \t]+(?P<text>\S.*)$")
_TITLE = re.compile(r"^#\s+(\S.*)$")
_LISTED = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)]|\([a-z0-9]\))\s+", re.MULTILINE)
_ASKED = re.compile(r"[^?？]*[?？]")
_NAMED = re.compile(r"^(?P<subject>[^:?\n]{3,80}):\s+(?P<aspects>[^?:\n]+)$", re.DOTALL)
_COMMAS = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")
_ASPECT_WORDS = 4
_BACK_REFERENCE = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there)\b", re.I
)
_PARTS = re.compile(r"\s*;\s*|,?\s+and\s+(?=(?:who|what|when|where|why|how|which|whether)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its parts. If it has parts, only these are asked. `number` is its place in the tree,
    such as `2.1`."""

    number: str
    text: str
    parts: tuple[Question, ...] = ()

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

    def markdown(self) -> str:
        """Return the plan in the form that `from_markdown` reads."""
        lines = [f"# {self.task}", ""]

        def add(questions: Sequence[Question], depth: int) -> None:
            for question in questions:
                lines.append(f"{'  ' * depth}- {question.text}")
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
    return plan


def from_task(task: str, most: int) -> Plan:
    """Make a plan without a model. Its questions are the questions and list items in the task, else the task
    itself."""
    questions: list[str] = []
    for item in _items(task):
        for question in [one.strip() for one in _ASKED.findall(item)] or [item.strip()]:
            questions += _split_question(question)
    unique = list(dict.fromkeys(" ".join(one.split()) for one in questions))[:most] or [
        " ".join(task.split())
    ]
    return Plan(
        " ".join(task.split()), tuple(Question(str(n), one[:_MAX_CHARS]) for n, one in enumerate(unique, 1))
    )


def _items(task: str) -> list[str]:
    """Return the items of a list in the task, without its introduction; else the task. `Compare the offers:
    price, notice` has two items."""
    if _LISTED.search(task):
        introduction, *items = _LISTED.split(task)
        kept = [introduction] if introduction.strip() and not introduction.rstrip().endswith(":") else []
        return [*kept, *(item for item in items if item.strip())]
    named = _NAMED.match(task)
    if named is None:
        return [task]
    aspects = [one.strip(" .") for one in _COMMAS.split(named["aspects"]) if one.strip(" .")]
    if len(aspects) < 2 or any(len(one.split()) > _ASPECT_WORDS for one in aspects):
        return [task]
    return [f"{named['subject'].strip()}: {one}" for one in aspects]


def _split_question(question: str) -> list[str]:
    """Split a sentence that asks several questions. If a part refers back to the one before it (`and what
    does it cost?`, `and why?`), the sentence stays whole."""
    parts = [" ".join(part.split()).strip(" ,.") for part in _PARTS.split(question)]
    parts = [part for part in parts if part]
    if any(len(part.split()) < 2 or _BACK_REFERENCE.search(part) for part in parts[1:]):
        return [" ".join(question.split()).strip(" ,.")]
    mark = "?" if question.rstrip().endswith("?") else ""
    return [part if part.endswith(("?", "？")) else part + mark for part in parts]


def _read_back(data: Mapping[str, Any]) -> Question:
    return Question(data["number"], data["text"], tuple(map(_read_back, data["parts"])))


def _question(node: _Node, number: str) -> Question:
    parts = tuple(_question(part, f"{number}.{n}") for n, part in enumerate(node.parts, 1))
    return Question(number, node.text, parts)
