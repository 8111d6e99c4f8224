"""Learns from a server's refusals what it does not take, so that it is asked once more without that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from rlm.models.catalog.families import EFFORTS, nearest_effort
from rlm.models.http.wire_messages import field

__all__ = ["CARRY_FIELDS", "LIMIT_FIELDS", "Concession", "Concessions"]

_Body: TypeAlias = dict[str, Any]
LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
CARRY_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")
"""Fields of an assistant's message that hold its thinking, in Chat Completions."""
_CARRY_BLOCKS = ("thinking", "redacted_thinking")
_DROPPABLE = (
    "temperature",
    "seed",
    "reasoning_effort",
    "chat_template_kwargs",
    "reasoning",
    "thinking",
    "include",
    "stream_options",
)
"""Fields that a request can do without. The first that a refusal names is dropped."""
_CARRY_WORDS = re.compile(
    r"(?i)signature|thinking.?block|reasoning_content|reasoning_details|encrypted_content|reasoning.{0,12}item"
    r"|item.{0,60}type.{0,4}reasoning|extra.{0,60}\breasoning\b|bound to a different"
)
_TOO_MANY = re.compile(
    r"(?i)(?:max_\w*tokens|output tokens|completion tokens)\D{0,60}"
    r"(?:too large|exceed|greater|above|at most|max|>)"
    r"|supports? at most|> ?\d+, which is the maximum"
)
_CONTEXT = re.compile(
    r"(?i)(?:maximum context length|max_model_len|context (?:window|length))\D{0,40}(\d[\d,_]*)"
)
_PROMPT = re.compile(
    r"(?i)(\d[\d,_]*)(?: tokens)? (?:in the messages|in your prompt|input tokens|in the prompt)"
    r"|(?:prompt contains|request has) (?:at least )?(\d[\d,_]*)"
)
_LEAST_REPLY = 256
_SPARE = 64
"""Tokens that are left free where a server counts the prompt a little differently."""
_MOST_EDITS = 20
"""A server that refuses more takes no request at all."""


class Concession(NamedTuple):
    """What is given up, in words. `edit` changes a body to what the server takes. `limit` is an output limit
    for this one call, where its prompt was so long that the window left no room for more."""

    what: str
    edit: Callable[[_Body], object] | None = None
    limit: int | None = None


class Concessions:
    """What one model's server does not take. `kept` are the fields that the user asked for in so many words:
    they are never given up."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self._kept = frozenset(kept)
        self._edits: list[Callable[[_Body], object]] = []

    def apply(self, body: _Body, limit: int | None = None) -> _Body:
        """Change `body` to what the server takes, as far as known, and return it. `limit` is that of a
        Concession."""
        for edit in self._edits:
            edit(body)
        if limit is not None:
            _lower_limit(body, limit)
        return body

    def learn(self, body: _Body, refusal: str) -> Concession | None:
        """Return what is given up after a refusal of `body`; None if nothing can be."""
        if len(self._edits) == _MOST_EDITS:
            return None
        conceded = next(_find(body, refusal, self._kept), None)
        if conceded is not None and conceded.edit is not None:
            self._edits.append(conceded.edit)
        return conceded


def _find(body: _Body, refusal: str, kept: frozenset[str]) -> Iterator[Concession]:
    """Yield what a refusal asks to give up, the likeliest first."""

    def names(word: str) -> bool:
        return re.search(rf"\b{word}\b", refusal) is not None

    limit_field = next((name for name in LIMIT_FIELDS if name in body), "")
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(limit_field)
    unsupported = re.search(r"(?i)unsupported|not supported|unrecognized|extra inputs|unknown", refusal)
    if other is not None and unsupported and names(limit_field):
        yield Concession(limit_field, partial(_rename, name=limit_field, other=other))
    yield from _smaller_limits(refusal, body.get(limit_field, 0))
    for asked in {holder[key] for holder, key in _efforts_in(body)}:
        known = [one for one in EFFORTS if one != asked and names(one)]
        instead = nearest_effort(asked, tuple(known))
        if instead is not None and names(asked):
            yield Concession(f"the effort {asked}", partial(_set_effort, asked=asked, instead=instead))
    if _CARRY_WORDS.search(refusal) and _drop_carry(dict(body)) != body:
        yield Concession("the thinking of earlier rounds", _drop_carry)
    kind = field(body.get("thinking"), "type")
    if "thinking" in refusal and "thinking" not in kept:
        yield from _other_thinking(body, refusal, kind)
    for name in _DROPPABLE:
        if name in body and name not in kept and names(name):
            yield Concession(name, partial(_drop, name=name))


def _smaller_limits(refusal: str, asked: int) -> Iterator[Concession]:
    what = f"replies of {asked:,} tokens"
    context, prompt = _CONTEXT.search(refusal), _PROMPT.search(refusal)
    if context is not None and prompt is not None:
        room = _number(context[1]) - _number(prompt[1] or prompt[2]) - _SPARE
        if _LEAST_REPLY <= room < asked:
            yield Concession(what, limit=room)
    if _TOO_MANY.search(refusal):
        numbers = [_number(one) for one in re.findall(r"\d[\d,_]*", refusal)]
        most = max((one for one in numbers if _LEAST_REPLY <= one < asked), default=None)
        if most is not None:
            yield Concession(what, lambda body: _lower_limit(body, most))


def _other_thinking(body: _Body, refusal: str, kind: object) -> Iterator[Concession]:
    """Yield another way to ask for thinking, or to turn it off: Claude models differ."""
    if kind == "adaptive" and not re.search(r"(?i)adaptive.{0,40}not (?:supported|permitted)", refusal):
        return
    budget = max(1_024, body.get("max_tokens", 0) // 2)
    others: dict[object, _Body] = {
        "disabled": {"thinking": {"type": "between_tools"}},
        "between_tools": {"output_config": {"effort": "low"}},
        "enabled": {"thinking": {"type": "adaptive"}},
        "adaptive": {"thinking": {"type": "enabled", "budget_tokens": budget}},
    }

    def ask_otherwise(body: _Body) -> None:
        if field(body.get("thinking"), "type") == kind:
            del body["thinking"]
            body.update({name: {**body.get(name, {}), **value} for name, value in others[kind].items()})

    if kind in others:
        yield Concession(f"thinking of the type {kind}", ask_otherwise)


def _drop(body: _Body, name: str) -> None:
    body.pop(name, None)


def _rename(body: _Body, name: str, other: str) -> None:
    if name in body:
        body[other] = body.pop(name)


def _lower_limit(body: _Body, limit: int) -> None:
    for name in LIMIT_FIELDS:
        if name in body:
            body[name] = min(body[name], limit)


def _set_effort(body: _Body, asked: str, instead: str) -> None:
    for holder, key in _efforts_in(body):
        holder[key] = instead if holder[key] == asked else holder[key]


def _efforts_in(body: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield each place of `body` that holds an effort."""
    places = (
        (body, "reasoning_effort"),
        (body.get("reasoning"), "effort"),
        (body.get("output_config"), "effort"),
    )
    return ((holder, key) for holder, key in places if isinstance(field(holder, key), str))


def _drop_carry(body: _Body) -> _Body:
    """Remove the thinking of earlier rounds from a body, and return it."""
    for name in ("messages", "input"):
        if isinstance(body.get(name), list):
            body[name] = [_bare(one) for one in body[name] if one.get("type") != "reasoning"]
    return body


def _bare(item: Mapping[str, Any]) -> _Body:
    bare = {name: value for name, value in item.items() if name not in CARRY_FIELDS}
    if isinstance(bare.get("content"), list):
        bare["content"] = [one for one in bare["content"] if field(one, "type") not in _CARRY_BLOCKS]
    return bare


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)
