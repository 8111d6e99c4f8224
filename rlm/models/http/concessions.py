"""Learns from a server's refusals what it does not take, so that it is asked once more without that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from rlm.lazy_dataclass import dataclass
from rlm.models.catalog.families import EFFORTS, nearest_effort
from rlm.models.http.wire_messages import field

__all__ = ["CARRY_FIELDS", "LIMIT_FIELDS", "Concession", "Concessions"]

_Edit: TypeAlias = Callable[[dict[str, Any]], object]
LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
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


@dataclass(frozen=True, slots=True)
class Concession:
    """What is given up, in words. `edit` changes a body to what the server takes. `limit` is an output limit
    for this one call, where its prompt was so long that the window left no room for more."""

    what: str
    edit: _Edit | None = None
    limit: int | None = None


class Concessions:
    """What one model's server does not take. `kept` are the fields that the user asked for in so many words:
    they are never given up."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self._kept = frozenset(kept)
        self._edits: list[_Edit] = []

    def apply(self, body: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
        """Change `body` to what the server takes, as far as known, and return it. `limit` is that of a
        Concession."""
        for edit in self._edits:
            edit(body)
        if limit is not None:
            _lower_limit(body, limit)
        return body

    def learn(self, body: dict[str, Any], refusal: str) -> Concession | None:
        """Return what is given up after a refusal of `body`; None if nothing can be."""
        if len(self._edits) == _MOST_EDITS:
            return None
        rules = (_other_limit_name, _smaller_limit, _nearest_effort, _no_carry, _other_thinking, _no_field)
        for rule in rules:
            conceded = rule(body, refusal, self._kept)
            if conceded is not None:
                self._edits += [conceded.edit] if conceded.edit else []
                return conceded
        return None


def _limit_name(body: Mapping[str, Any]) -> str:
    return next((name for name in LIMIT_FIELDS if name in body), "")


def _lower_limit(body: dict[str, Any], limit: int) -> None:
    name = _limit_name(body)
    if name:
        body[name] = min(body[name], limit)


def _other_limit_name(body: dict[str, Any], refusal: str, _: frozenset[str]) -> Concession | None:
    name = _limit_name(body)
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(name)
    unsupported = re.search(r"(?i)unsupported|not supported|unrecognized|extra inputs|unknown", refusal)
    if other is None or not unsupported or not re.search(rf"\b{name}\b", refusal):
        return None

    def rename(body: dict[str, Any]) -> None:
        if name in body:
            body[other] = body.pop(name)

    return Concession(name, rename)


def _smaller_limit(body: dict[str, Any], refusal: str, _: frozenset[str]) -> Concession | None:
    asked = body.get(_limit_name(body), 0)
    what = f"replies of {asked:,} tokens"
    context, prompt = _CONTEXT.search(refusal), _PROMPT.search(refusal)
    if context is not None and prompt is not None:
        room = _number(context[1]) - _number(prompt[1] or prompt[2]) - _SPARE
        if _LEAST_REPLY <= room < asked:
            return Concession(what, limit=room)
    if _TOO_MANY.search(refusal):
        numbers = [_number(one) for one in re.findall(r"\d[\d,_]*", refusal)]
        most = max((one for one in numbers if _LEAST_REPLY <= one < asked), default=None)
        if most is not None:
            return Concession(what, lambda body: _lower_limit(body, most))
    return None


def _nearest_effort(body: dict[str, Any], refusal: str, _: frozenset[str]) -> Concession | None:
    for asked in {holder[key] for holder, key in _efforts_in(body)}:
        named = [one for one in EFFORTS if one != asked and re.search(rf"\b{one}\b", refusal)]
        instead = nearest_effort(asked, tuple(named))
        if instead is not None and re.search(rf"\b{asked}\b", refusal):

            def replace(body: dict[str, Any], asked: str = asked, instead: str = instead) -> None:
                for holder, key in _efforts_in(body):
                    holder[key] = instead if holder[key] == asked else holder[key]

            return Concession(f"the effort {asked}", replace)
    return None


def _no_carry(body: dict[str, Any], refusal: str, _: frozenset[str]) -> Concession | None:
    if not _CARRY_WORDS.search(refusal):
        return None
    bare = dict(body)
    _drop_carry(bare)
    return None if bare == body else Concession("the thinking of earlier rounds", _drop_carry)


def _other_thinking(body: dict[str, Any], refusal: str, kept: frozenset[str]) -> Concession | None:
    """Return another way to ask for thinking, or to turn it off: Claude models differ."""
    kind = field(body.get("thinking"), "type")
    if "thinking" not in refusal or "thinking" in kept:
        return None
    if kind == "adaptive" and not re.search(r"(?i)adaptive.{0,40}not (?:supported|permitted)", refusal):
        return None
    budget = max(1_024, body.get("max_tokens", 0) // 2)
    others: dict[object, dict[str, Any]] = {
        "disabled": {"thinking": {"type": "between_tools"}},
        "between_tools": {"output_config": {"effort": "low"}},
        "enabled": {"thinking": {"type": "adaptive"}},
        "adaptive": {"thinking": {"type": "enabled", "budget_tokens": budget}},
    }
    if kind not in others:
        return None

    def ask_otherwise(body: dict[str, Any]) -> None:
        if field(body.get("thinking"), "type") == kind:
            del body["thinking"]
            body.update({name: {**body.get(name, {}), **value} for name, value in others[kind].items()})

    return Concession(f"thinking of the type {kind}", ask_otherwise)


def _no_field(body: dict[str, Any], refusal: str, kept: frozenset[str]) -> Concession | None:
    names = (name for name in _DROPPABLE if name in body and name not in kept)
    what = next((name for name in names if re.search(rf"\b{name}\b", refusal)), None)
    return None if what is None else Concession(what, lambda body: body.pop(what, None))


CARRY_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")
"""Fields of an assistant's message that hold its thinking, in Chat Completions."""
_CARRY_BLOCKS = ("thinking", "redacted_thinking")


def _drop_carry(body: dict[str, Any]) -> None:
    """Remove the thinking of earlier rounds from a body."""
    for name in ("messages", "input"):
        if isinstance(body.get(name), list):
            body[name] = [_bare(one) for one in body[name] if one.get("type") != "reasoning"]


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    bare = {name: value for name, value in item.items() if name not in CARRY_FIELDS}
    if isinstance(bare.get("content"), list):
        bare["content"] = [one for one in bare["content"] if field(one, "type") not in _CARRY_BLOCKS]
    return bare


def _efforts_in(body: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield each place of `body` that holds an effort."""
    places = (
        (body, "reasoning_effort"),
        (body.get("reasoning"), "effort"),
        (body.get("output_config"), "effort"),
    )
    return ((holder, key) for holder, key in places if isinstance(field(holder, key), str))


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)
