"""A research plan: a tree of questions, as a Markdown list that people can edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from rlm.errors import UsageError
from rlm.lazy_dataclass import dataclass
from rlm.retrieval.words import FUNCTION_WORDS

__all__ = ["MAX_QUESTIONS", "Plan", "Question", "from_markdown", "from_task", "leans_back", "renumber"]

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
_REFERENCE = re.compile(
    r"(?P<before>\b(?:found under(?: (?:question|number|no\.?))?|(?:of|in|to|from|by|under) question) )"
    r"(?P<number>\d{1,2}(?:\.\d{1,2})*)\b",
    re.IGNORECASE,
)
"""`the city found under 2`: the question needs the answer to question 2."""
_DEMONSTRATIVE = re.compile(
    r"\b(?:of|in|at|for|by|from|to|with|on|about|under|near|did|does|was|is|were|are|has|had) "
    r"(?:that|those|these) (?!(?:the|a|an|it|he|she|they|was|is|are|were)\b)\w"
    r"|\bthe (?:same|previous|preceding|above) (?:question|answer)\b"
    r"|\b(?:mentioned|named|identified|found) (?:above|before|earlier)\b"
    r"|\bof (?:them|it)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|its|they|them|their|he|him|his|she|her)\b", re.IGNORECASE)
_PROPER_NAME = re.compile(r"(?<=\w )[^\W\d_a-z]\w+|\d")
_BACK_REFERENCE = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there)\b", re.I
)
_AMOUNTS = frozenset({"many", "much", "long", "often", "each", "far", "high", "old", "exactly", "really"})
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

    def needs(self, leaf: Question) -> tuple[str, ...]:
        """Return the numbers of the questions whose answers `leaf` needs: it says `the city found under 2`.
        A number that no other question has is not a reference."""
        numbers = {one.number: one for one in self._all()}
        wanted = [
            numbers[match["number"]] for match in _REFERENCE.finditer(leaf.text) if match["number"] in numbers
        ]
        return tuple(
            dict.fromkeys(one.number for question in wanted for one in question.leaves() if one != leaf)
        )

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
                lines.append(f"{'   ' * depth}{question.number}. {question.text}")
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
    for leaf in plan.leaves:
        later = [number for number in plan.needs(leaf) if number not in before]
        if later:
            raise UsageError(
                f"question {leaf.number} refers to {later[0]}, which comes after it: move it down"
            )
        before.add(leaf.number)
    return plan


def renumber(questions: Sequence[Question], numbers: Mapping[str, str]) -> tuple[Question, ...]:
    """Return the questions without parts under new numbers. `numbers` maps the old numbers to the new ones,
    also those of questions that were merged into others."""

    def reference(match: re.Match[str]) -> str:
        return match["before"] + numbers.get(match["number"], match["number"])

    return tuple(Question(numbers[one.number], _REFERENCE.sub(reference, one.text)) for one in questions)


def leans_back(text: str) -> bool:
    """Return whether a question cannot be understood without the one before it: `And how high is that
    bridge?`, `When did he die?`. A reference by number is understood."""
    if _REFERENCE.search(text):
        return False
    return bool(_DEMONSTRATIVE.search(text)) or bool(_PRONOUN.search(text) and not _PROPER_NAME.search(text))


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
    if any(_names_nothing(part) or _BACK_REFERENCE.search(part) for part in parts[1:]):
        return [" ".join(question.split()).strip(" ,.")]
    mark = "?" if question.rstrip().endswith("?") else ""
    return [part if part.endswith(("?", "？")) else part + mark for part in parts]


def _names_nothing(part: str) -> bool:
    """Return whether a part of a sentence has at most one telling word: `how was each resolved`. What it asks
    about is in the part before it."""
    telling = [word for word in re.findall(r"\w+", part.casefold()) if word not in FUNCTION_WORDS | _AMOUNTS]
    return len(telling) < 2


def _read_back(data: Mapping[str, Any]) -> Question:
    return Question(data["number"], data["text"], tuple(map(_read_back, data["parts"])))


def _question(node: _Node, number: str) -> Question:
    parts = tuple(_question(part, f"{number}.{n}") for n, part in enumerate(node.parts, 1))
    return Question(number, node.text, parts)
