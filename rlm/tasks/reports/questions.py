"""A research plan: a tree of questions, written as a Markdown list that people edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlm.errors import UsageError

__all__ = ["MAX_QUESTIONS", "Plan", "Question", "from_markdown", "from_task"]

MAX_QUESTIONS = 50
"""Questions of a plan that have no others under them: each is a run of its own."""

_DEEPEST = 4
_LONGEST = 1_000
_ITEM = re.compile(r"^(?P<indent>[ \t]*)(?:[-*+]|\d{1,3}(?:\.\d{1,3})*[.)]?)[ \t]+(?P<text>\S.*)$")
_TITLE = re.compile(r"^#\s+(\S.*)$")
_LISTED = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)]|\([a-z0-9]\))\s+", re.MULTILINE)
_ASKED = re.compile(r"[^?？]*[?？]")
_NAMED = re.compile(r"^(?P<subject>[^:?\n]{3,80}):\s+(?P<aspects>[^?:\n]+)$", re.DOTALL)
_COMMAS = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")
_ASPECT_WORDS = 4
_LEANING = re.compile(r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there)\b", re.I)
_PARTS = re.compile(r"\s*;\s*|,?\s+and\s+(?=(?:who|what|when|where|why|how|which|whether)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the smaller ones it is made of, if any: then only these are asked. `number` is its
    place in the tree: `2.1`."""

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
    """What is to be found out, and the questions that lead there."""

    task: str
    questions: tuple[Question, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """What `dataclasses.asdict` made of one, and JSON has been through."""
        return cls(data["task"], tuple(map(_read_back, data["questions"])))

    @property
    def leaves(self) -> tuple[Question, ...]:
        """The questions that are asked, in order."""
        return tuple(leaf for question in self.questions for leaf in question.leaves())

    def markdown(self) -> str:
        """What `from_markdown` reads back."""
        lines = [f"# {self.task}", ""]

        def put(questions: Sequence[Question], depth: int) -> None:
            for question in questions:
                lines.append(f"{'  ' * depth}- {question.text}")
                put(question.parts, depth + 1)

        put(self.questions, 0)
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Node:
    text: str
    indent: int
    parts: list[_Node] = field(default_factory=list)


def from_markdown(text: str, task: str = "") -> Plan:
    """A plan from a nested list: deeper indentation is a part of the question above. A `# title` is the task,
    unless `task` is given; other lines are passed over. Raises UsageError."""
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
        if len(above) > _DEEPEST:
            raise UsageError(
                f"the plan is nested deeper than {_DEEPEST} levels at {node.text[:60]!r}: flatten it"
            )
        if len(node.text) > _LONGEST:
            raise UsageError(
                f"a question of the plan is over {_LONGEST:,} characters long: {node.text[:60]!r}…"
            )
    plan = Plan(task.strip(), tuple(_question(node, str(n)) for n, node in enumerate(roots, 1)))
    if not plan.leaves:
        raise UsageError("the plan holds no question: write each as `- question`, on a line of its own")
    if not plan.task:
        raise UsageError("the plan has no task: begin it with a line `# what is to be found out`")
    if len(plan.leaves) > MAX_QUESTIONS:
        raise UsageError(f"the plan has {len(plan.leaves)} questions, {MAX_QUESTIONS} at most are asked")
    return plan


def from_task(task: str, most: int) -> Plan:
    """A plan without a model: the questions and list items that the task itself holds, else the task."""
    asked: list[str] = []
    for item in _items(task):
        for question in [one.strip() for one in _ASKED.findall(item)] or [item.strip()]:
            asked += _apart(question)
    unique = list(dict.fromkeys(" ".join(one.split()) for one in asked))[:most] or [" ".join(task.split())]
    return Plan(
        " ".join(task.split()), tuple(Question(str(n), one[:_LONGEST]) for n, one in enumerate(unique, 1))
    )


def _items(task: str) -> list[str]:
    """What the task lists: the points of a list without what announces them; `Compare the offers: price,
    notice` is two."""
    if _LISTED.search(task):
        announced, *items = _LISTED.split(task)
        kept = [announced] if announced.strip() and not announced.rstrip().endswith(":") else []
        return [*kept, *(item for item in items if item.strip())]
    named = _NAMED.match(task)
    if named is None:
        return [task]
    aspects = [one.strip(" .") for one in _COMMAS.split(named["aspects"]) if one.strip(" .")]
    if len(aspects) < 2 or any(len(one.split()) > _ASPECT_WORDS for one in aspects):
        return [task]
    return [f"{named['subject'].strip()}: {one}" for one in aspects]


def _apart(question: str) -> list[str]:
    """The questions that one sentence asks. A part that leans on the one before it (`and what does it cost?`,
    `and why?`) stays with it."""
    parts = [" ".join(part.split()).strip(" ,.") for part in _PARTS.split(question)]
    parts = [part for part in parts if part]
    if any(len(part.split()) < 2 or _LEANING.search(part) for part in parts[1:]):
        return [" ".join(question.split()).strip(" ,.")]
    mark = "?" if question.rstrip().endswith("?") else ""
    return [part if part.endswith(("?", "？")) else part + mark for part in parts]


def _read_back(data: Mapping[str, Any]) -> Question:
    return Question(data["number"], data["text"], tuple(map(_read_back, data["parts"])))


def _question(node: _Node, number: str) -> Question:
    parts = tuple(_question(part, f"{number}.{n}") for n, part in enumerate(node.parts, 1))
    return Question(number, node.text, parts)
