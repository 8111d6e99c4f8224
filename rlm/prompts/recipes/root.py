"""Build the root model's prompt: the system text, and a first message with the task and facts of the handle.

Of the context body, only two short previews are included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from rlm.escaping import json_text
from rlm.prompts.fitting import Part, Section, assemble
from rlm.prompts.prompt import JOINER, AssembledPrompt
from rlm.prompts.recipes.notices import EarlierQuestion, earlier_lines
from rlm.prompts.templates import fill, table, words
from rlm.prompts.tokens.counters import get_counter

__all__ = [
    "HEAD_CHARS",
    "TAIL_CHARS",
    "Contract",
    "HandleFacts",
    "HelperDoc",
    "RootInput",
    "RootPrompt",
    "root_prompt",
    "root_system",
]

HEAD_CHARS = 200
"""Characters of the preview of the text's begin: its title, or the shape of its rows."""
TAIL_CHARS = 100
_KEEP_PAGES, _KEEP_PREVIEWS, _KEEP_NAMES = 3_000_000, 2_000_000, 1_000_000  # longer than any question
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
    The prompt takes at most `max_tokens` of the default counter.
    """

    task: str
    helpers: tuple[HelperDoc, ...]
    handle: HandleFacts
    limits: tuple[tuple[str, str], ...] = ()
    output_limit: int = 8000
    contract: Contract = "one-block"
    answer_schema: str | None = None
    model: str = ""
    max_tokens: int = 16_000
    tools: tuple[HelperDoc, ...] = ()
    earlier: tuple[EarlierQuestion, ...] = ()
    variables: tuple[str, ...] = ()


class RootPrompt:
    """Builds the root's prompt: a system and a user message, both stable for the whole run."""

    def assemble(self, given: RootInput) -> AssembledPrompt:
        """Return `root_prompt` of an input. Raises BudgetExceeded."""
        return root_prompt(given)


def root_prompt(given: RootInput) -> AssembledPrompt:
    """Return sections system, task, earlier, handle and limits.

    If space is short, the oldest questions, the document names and the previews are dropped, in this order.
    If the rest does not fit, BudgetExceeded is raised.
    """
    first = table("root.toml")["first"]
    task = [Part("task", given.task)]
    if given.answer_schema is not None:
        task.append(Part("answer", first["answer"].format(schema=given.answer_schema)))
    return assemble(
        (
            _system(given),
            _section("task", task, f"{first['task']}\n", JOINER),
            *_earlier_section(given),
            _section("handle", _handle_parts(given.handle), f"{first['handle']}\n"),
            _section("limits", [Part("limits", _limits(given))], f"{first['limits']}\n"),
        ),
        given.max_tokens,
        get_counter(),
        remedy="give long material as context and keep the task to what is asked",
    )


def root_system(given: RootInput) -> AssembledPrompt:
    """Return the section system alone, which is the same for every task."""
    return assemble((_system(given),), given.max_tokens, get_counter())


def _system(given: RootInput) -> Section:
    return Section("system", "system", [Part("instructions", _instructions(given))], stable=True)


def _section(name: str, parts: Sequence[Part], prefix: str, separator: str = "\n") -> Section:
    return Section(name, "user", parts, prefix, separator=separator, stable=True)


def _earlier_section(given: RootInput) -> list[Section]:
    """Return the previous questions. Later ones stay longer, and the variables longest."""
    if not given.earlier:
        return []
    data = table("root.toml")["earlier"]
    parts = [Part(f"question {number}", line, number) for number, line in earlier_lines(given.earlier)]
    if given.variables:
        names = "; ".join(map(_variable, given.variables[-_MAX_VARIABLES:]))
        text = data["variables"].format(variables=names)
        parts.append(Part("variables", text, len(given.earlier) + 1))
    return [_section("earlier", parts, f"{data['title']}\n{data['intro']}\n")]


def _variable(described: str) -> str:
    # A cell, and so a document, can choose names of variables and types that read like a message of ours.
    return described if _PLAIN_VARIABLE.fullmatch(described) else json_text(described)


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


def _handle_parts(handle: HandleFacts) -> list[Part]:
    first = table("root.toml")["first"]
    shape = first["shape"].format(
        chars=f"{handle.chars:,}",
        lines=_count_noun(handle.lines, "line"),
        documents=_count_noun(handle.documents, "document"),
    )
    parts = [Part("shape", shape if handle.chars else first["no_text"])]
    if handle.blank_pages:
        pages = first["blank_pages"].format(pages=_count_noun(handle.blank_pages, "page"))
        parts.append(Part("blank_pages", pages, _KEEP_PAGES))
    head, tail = handle.preview[:HEAD_CHARS], handle.tail_preview[-TAIL_CHARS:]
    previews = [
        first[name].format(shown=f"{len(text):,}", text=json_text(text))
        for name, text in (("head", head), ("tail", tail))
        if text
    ]
    if previews:
        parts.append(Part("previews", "\n".join([first["previews"], *previews]), _KEEP_PREVIEWS))
    if handle.document_names:
        shown = [f"- {json_text(name[:_MAX_NAME_CHARS])}" for name in handle.document_names[:_MAX_NAMES]]
        more = max(handle.documents, len(handle.document_names)) - len(shown)
        if more > 0:
            shown.append(first["more"].format(more=f"{more:,}"))
        parts.append(Part("documents", "\n".join([first["names"], *shown]), _KEEP_NAMES))
    return parts


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _limits(given: RootInput) -> str:
    output = table("root.toml")["first"]["output"].format(limit=f"{given.output_limit:,}")
    return "\n".join([f"- {name}: {text}" for name, text in given.limits] + [f"- {output}"])
