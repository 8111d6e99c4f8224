"""The input of the root's first prompt, gathered from the run's question, body, model and limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rlm.answers.answer_type import AnswerType
from rlm.children.sub_models import SubModels
from rlm.models.base import Model
from rlm.models.catalog.info import Prices
from rlm.prompts import EarlierQuestion, HandleFacts, HelperDoc, RootInput
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.sandbox.in_kernel.registry import HELPERS, Helper
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.parts import blank_pages
from rlm.settings import Limits, Settings

__all__ = ["root_helpers", "root_input"]

_MAX_NAMES = 20
_SAMPLE_CHARS = 20_000
_CHILD_FRAME = 600
"""Tokens of a child's prompt besides its slice."""


def root_input(
    task: str,
    body: Body,
    model: Model,
    limits: Limits,
    settings: Settings,
    children: SubModels,
    prices: Prices,
    *,
    answer_type: AnswerType | None = None,
    earlier: Sequence[EarlierQuestion] = (),
    variables: Sequence[str] = (),
    tools: Sequence[Helper] = (),
    looks: bool = False,
) -> RootInput:
    """Return the input of the root's first prompt. `earlier` and `variables` come from the questions before
    it in the same kernel; `tools` are the host's functions. `looks`: children can look at pages of the
    body."""
    several = children.described(prices)
    named = {tool.name for tool in tools}
    root, window = settings.root, model.window
    return RootInput(
        task=task,
        helpers=root_helpers(looks=looks, taken=named),
        earlier=tuple(earlier),
        variables=tuple(variables),
        tools=tuple(HelperDoc(tool.call, tool.summary) for tool in tools),
        handle=HandleFacts.of(
            body.text,
            chars=body.chars,
            lines=body.lines,
            documents=len(body.documents),
            document_names=tuple(document.name for document in body.documents[:_MAX_NAMES]),
            blank_pages=blank_pages(body) if looks else 0,
        ),
        limits=_limit_lines(limits, children.default.prompt_tokens, body, several),
        output_limit=root.output_limit,
        contract=root.contract,
        answer_schema=None if answer_type is None else answer_type.text,
        model=model.name,
        max_tokens=window.context - min(root.output_tokens, window.output),
    )


def _limit_lines(
    limits: Limits, child_tokens: int, body: Body, sub_models: str
) -> tuple[tuple[str, str], ...]:
    """Return the name of each limit that the root is told, and its words."""
    told = dict(table("root.toml")["limits"])
    if not limits.max_calls:
        told["children"] = table("root.toml")["no_children"]["limit"]
    return tuple(
        (
            name,
            words.format(
                rounds=limits.max_rounds,
                sub_calls=f"{limits.max_calls:,}",
                child_tokens=f"{child_tokens:,}",
                child_chars=_in_characters(child_tokens, body),
                sub_models=sub_models,
                cell_seconds=f"{limits.cell_seconds:g}",
                seconds=f"{limits.max_seconds:g}",
            ),
        )
        for name, words in told.items()
        if sub_models or name != "sub_models"
    )


def _in_characters(tokens: int, body: Body) -> str:
    """Return how many characters of this text a child reads in so many tokens, as words; "" for a short text.
    A transcript may have 2.7 characters a token, and prose 4."""
    sample = body.text(0, min(body.chars, _SAMPLE_CHARS))
    room = tokens - _CHILD_FRAME
    if not sample.strip() or room <= 0 or body.chars < room:
        return ""
    chars = int(room * len(sample) / max(1, get_counter().count(sample)))
    return f" (about {chars // 1_000 * 1_000:,} characters of this text)" if chars >= 1_000 else ""


def root_helpers(*, looks: bool = False, taken: Collection[str] = ()) -> tuple[HelperDoc, ...]:
    """Return the helpers of a prompt. `looks`: children can look at pages. `taken` are names that tools
    have."""
    return tuple(
        HelperDoc(one.call, one.summary)
        for one in HELPERS
        if (looks or not one.needs_pages) and one.name not in taken
    )
