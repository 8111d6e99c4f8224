"""Build the root model's prompt: the system text, and a first message with the task and facts of the handle.

Of the context body, only two short previews are included.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Literal

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.assembler import assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import Skip
from rlm.prompts.assembly.section import Item, Section
from rlm.prompts.prompt import AssembledPrompt
from rlm.prompts.quoting import quote
from rlm.prompts.recipes.earlier import EarlierQuestion, earlier_items
from rlm.prompts.templates import fill, table, words

__all__ = [
    "HEAD_CHARS",
    "TAIL_CHARS",
    "Contract",
    "HandleFacts",
    "HelperDoc",
    "RootInput",
    "RootPrompt",
]

HEAD_CHARS = 200
"""Characters of the preview of the text's begin: its title, or the shape of its rows."""
TAIL_CHARS = 100
_MAX_NAMES = 40
_MAX_VARIABLES = 100
_MAX_NAME_CHARS = 120
_PLAIN_VARIABLE = re.compile(r"\w{1,60}: [\w.]{1,60}(?:, [\w., ]{1,40})?")

Contract = Literal["one-block", "strict"]
_MAX_SUMMARY = 200
"""Characters of a tool's description. `help` has all of it."""


@dataclass(frozen=True, slots=True)
class HelperDoc:
    """A helper as shown to the root: `search(pattern, max_hits=100)`, and its purpose."""

    signature: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class HandleFacts:
    """Facts about the context body. `documents` is their number; `document_names` may hold any number.
    `blank_pages` hold no text, and children can look at them.

    Of the previews, the prompt has `HEAD_CHARS` and `TAIL_CHARS` characters.
    """

    chars: int
    lines: int
    documents: int = 0
    document_names: tuple[str, ...] = ()
    preview: str = ""
    tail_preview: str = ""
    sha256: str = ""
    blank_pages: int = 0

    @classmethod
    def of(
        cls,
        read: Callable[[int, int], str],
        *,
        chars: int,
        lines: int,
        documents: int,
        document_names: tuple[str, ...],
        blank_pages: int = 0,
    ) -> HandleFacts:
        """Return the facts of a body. `read` gives its text between two offsets, for the previews."""
        tail = max(0, chars - TAIL_CHARS)
        return cls(
            chars=chars,
            lines=lines,
            documents=documents,
            document_names=document_names,
            preview=read(0, min(chars, HEAD_CHARS)),
            tail_preview=read(tail, chars),
            blank_pages=blank_pages,
        )


@dataclass(frozen=True, slots=True)
class RootInput:
    """The input of a run's first two messages.

    `limits` are (name, text for a reader). `output_limit` is the number of characters of a cell's stdout
    that the root sees. `answer_schema` is the text of a JSON Schema that the answer must match. `model` is
    the name given by the user; it selects text for the model family. `tools` are host functions besides the
    helpers. `earlier` are the previous questions in the same kernel, and `variables` what they left there.
    """

    task: str
    helpers: tuple[HelperDoc, ...]
    handle: HandleFacts
    limits: tuple[tuple[str, str], ...] = ()
    output_limit: int = 8000
    contract: Contract = "one-block"
    answer_schema: str | None = None
    model: str = ""
    budget: Budget = field(default_factory=lambda: Budget(total=16_000))
    tools: tuple[HelperDoc, ...] = ()
    earlier: tuple[EarlierQuestion, ...] = ()
    variables: tuple[str, ...] = ()


class RootPrompt:
    """Builds the root's prompt: a system and a user message, both stable for the whole run."""

    def assemble(self, given: RootInput) -> AssembledPrompt:
        """Return sections system, task, earlier, handle and limits.

        If space is short, the oldest questions, the document names and the previews are dropped, in this
        order. If the rest does not fit, BudgetExceeded is raised.
        """
        first = table("root.toml")["first"]
        return assemble(
            (
                _system(given),
                Section(
                    "task",
                    role="user",
                    order=1,
                    priority=90,
                    required=True,
                    items=tuple(_task_items(given)),
                    prefix=f"{first['task']}\n",
                ),
                *_earlier_section(given),
                Section(
                    "handle",
                    role="user",
                    order=3,
                    priority=80,
                    required=True,
                    policy=Skip(),
                    items=tuple(_handle_items(given.handle)),
                    prefix=f"{first['handle']}\n",
                    separator="\n",
                ),
                Section(
                    "limits",
                    role="user",
                    order=4,
                    priority=85,
                    required=True,
                    items=(Item("limits", _limits(given)),),
                    prefix=f"{first['limits']}\n",
                ),
            ),
            given.budget,
            remedy="give long material as context and keep the task to what is asked",
        )

    def system(self, given: RootInput) -> AssembledPrompt:
        """Return the section system alone, which is the same for every task."""
        return assemble((_system(given),), given.budget)


def _system(given: RootInput) -> Section:
    return Section(
        "system",
        role="system",
        order=0,
        priority=100,
        required=True,
        stability="static",
        items=(Item("instructions", _instructions(given)),),
    )


def _earlier_section(given: RootInput) -> list[Section]:
    if not given.earlier:
        return []
    data = table("root.toml")["earlier"]
    items = earlier_items(given.earlier)
    if given.variables:
        names = "; ".join(map(_variable, given.variables[-_MAX_VARIABLES:]))
        text = data["variables"].format(variables=names)
        items.append(Item("variables", text, priority=len(given.earlier) + 1, order=len(given.earlier) + 1))
    return [
        Section(
            "earlier",
            role="user",
            order=2,
            priority=70,
            policy=Skip(),
            items=tuple(items),
            prefix=f"{data['title']}\n{data['intro']}\n",
            separator="\n",
        )
    ]


def _variable(described: str) -> str:
    # A cell, and so a document, can choose names of variables and types that read like a message of ours.
    return described if _PLAIN_VARIABLE.fullmatch(described) else quote(described)


def _task_items(given: RootInput) -> list[Item]:
    items = [Item("task", given.task)]
    if given.answer_schema is not None:
        form = table("root.toml")["first"]["answer"].format(schema=given.answer_schema)
        items.append(Item("answer", form, order=1))
    return items


def _instructions(given: RootInput) -> str:
    data = table("root.toml")
    tools = "\n".join([data["tools"]["intro"], *_helper_lines(given.tools)]) if given.tools else ""
    return fill(
        words("root.md"),
        {
            "contract": data["contract"][given.contract],
            "family": _family_words(given.model),
            "helpers": "\n".join(_helper_lines(given.helpers)),
            "tools": tools,
        },
    )


def _family_words(model: str) -> str:
    name = model.lower()
    for family in table("root.toml")["family"]:
        if any(fnmatchcase(name, pattern) for pattern in family["models"]):
            return str(family["words"])
    return ""


def _helper_lines(helpers: tuple[HelperDoc, ...]) -> list[str]:
    return [
        f"- `{helper.signature}`" + (f": {_cut(helper.summary)}" if helper.summary else "")
        for helper in helpers
    ]


def _cut(summary: str) -> str:
    return summary if len(summary) <= _MAX_SUMMARY else f"{summary[:_MAX_SUMMARY].rstrip()} …"


def _handle_items(handle: HandleFacts) -> list[Item]:
    first = table("root.toml")["first"]
    shape = first["shape"].format(
        chars=f"{handle.chars:,}",
        lines=_count_noun(handle.lines, "line"),
        documents=_count_noun(handle.documents, "document"),
    )
    items = [Item("shape", shape if handle.chars else first["no_text"], priority=3)]
    if handle.blank_pages:
        pages = first["blank_pages"].format(pages=_count_noun(handle.blank_pages, "page"))
        items.append(Item("blank_pages", pages, priority=3, order=0))
    head, tail = handle.preview[:HEAD_CHARS], handle.tail_preview[-TAIL_CHARS:]
    previews = [
        first[name].format(shown=f"{len(text):,}", text=quote(text))
        for name, text in (("head", head), ("tail", tail))
        if text
    ]
    if previews:
        items.append(Item("previews", "\n".join([first["previews"], *previews]), priority=2, order=1))
    if handle.document_names:
        shown = [f"- {quote(name[:_MAX_NAME_CHARS])}" for name in handle.document_names[:_MAX_NAMES]]
        more = max(handle.documents, len(handle.document_names)) - len(shown)
        if more > 0:
            shown.append(first["more"].format(more=f"{more:,}"))
        items.append(Item("documents", "\n".join([first["names"], *shown]), priority=1, order=2))
    return items


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _limits(given: RootInput) -> str:
    output = table("root.toml")["first"]["output"].format(limit=f"{given.output_limit:,}")
    return "\n".join([f"- {name}: {text}" for name, text in given.limits] + [f"- {output}"])
