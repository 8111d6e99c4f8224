"""Learns from a server's refusals what it does not take, so that it is asked once more without that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.models.catalog.families import EFFORTS, nearest_effort
from rlm.models.http.wire_messages import field

__all__ = ["CARRY_FIELDS", "LIMIT_FIELDS", "Concession", "Concessions", "describe_refusal"]

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
_STRINGS = frozenset(
    {"message", "msg", "param", "loc", "code", "type", "detail", "details", "error", "errors"}
)
_CHARS = 4_000


def describe_refusal(answer: object) -> str:
    """Return the words of an error's body that tell what was refused, and nothing that it quotes of the
    request."""
    return " ".join(_words(answer))[:_CHARS]


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str | int):
        yield str(value)[:_CHARS]
    elif isinstance(value, list):
        for one in value[:20]:
            yield from _words(one)
    elif isinstance(value, Mapping):
        for key in value:
            if key in _STRINGS:
                yield from _words(value[key])


@dataclass(frozen=True, slots=True)
class Concession:
    """What is given up, in words. `limit` is an output limit for this one call, where its prompt was so long
    that the window left no room for more."""

    what: str
    limit: int | None = None


class Concessions:
    """What one model's server does not take. `kept` are the fields that the user asked for in so many words:
    they are never given up."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self._kept = frozenset(kept)
        self._dropped: dict[str, None] = {}
        self._limit_field: str | None = None
        self._limit: int | None = None
        self._efforts: dict[str, str] = {}
        self._thinking: dict[str, Mapping[str, Any] | None] = {}
        self._carries = True

    def apply(self, body: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
        """Change `body` to what the server takes, as far as known, and return it. `limit` is that of a
        Concession."""
        most = min((one for one in (limit, self._limit) if one is not None), default=None)
        for name in self._dropped:
            body.pop(name, None)
        for name in LIMIT_FIELDS:
            if name in body:
                value = body.pop(name)
                body[self._limit_field or name] = value if most is None else min(value, most)
                break
        for holder, key in _efforts_in(body):
            holder[key] = self._efforts.get(holder[key], holder[key])
        kind = field(body.get("thinking"), "type")
        if kind in self._thinking:
            instead = self._thinking[kind]
            body.pop("thinking")
            if instead is not None:
                body["thinking"] = dict(instead)
            else:
                body.setdefault("output_config", {})["effort"] = "low"
        if not self._carries:
            drop_carry(body)
        return body

    def learn(self, body: Mapping[str, Any], refusal: str) -> Concession | None:
        """Return what is given up after a refusal of `body`; None if nothing can be."""
        limit = next((name for name in LIMIT_FIELDS if name in body), "")
        if limit and (conceded := self._learn_limit(body, limit, refusal)) is not None:
            return conceded
        what = self._learn_effort(body, refusal)
        if what is None and self._carries and _CARRY_WORDS.search(refusal) and has_carry(body):
            self._carries, what = False, "the thinking of earlier rounds"
        what = what or self._learn_thinking(body, refusal)
        if what is None:
            names = [name for name in _DROPPABLE if name in body and name not in self._kept]
            what = next((name for name in names if re.search(rf"\b{name}\b", refusal)), None)
            if what is not None:
                self._dropped[what] = None
        return None if what is None else Concession(what)

    def _learn_limit(self, body: Mapping[str, Any], name: str, refusal: str) -> Concession | None:
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(name)
        unsupported = re.search(r"(?i)unsupported|not supported|unrecognized|extra inputs|unknown", refusal)
        if other and unsupported and re.search(rf"\b{name}\b", refusal) and self._limit_field is None:
            self._limit_field = other
            return Concession(name)
        asked = body[name]
        context, prompt = _CONTEXT.search(refusal), _PROMPT.search(refusal)
        if context is not None and prompt is not None:
            room = _number(context[1]) - _number(prompt[1] or prompt[2]) - _SPARE
            if _LEAST_REPLY <= room < asked:
                return Concession(f"replies of {asked:,} tokens", room)
        if _TOO_MANY.search(refusal):
            numbers = [_number(one) for one in re.findall(r"\d[\d,_]*", refusal)]
            fitting = [one for one in numbers if _LEAST_REPLY <= one < asked]
            if fitting:
                self._limit = max(fitting)
                return Concession(f"replies of {asked:,} tokens")
        return None

    def _learn_effort(self, body: Mapping[str, Any], refusal: str) -> str | None:
        for holder, key in _efforts_in(body):
            asked = holder[key]
            if not re.search(rf"['\"`]?\b{asked}\b", refusal) or asked in self._efforts.values():
                continue
            named = [one for one in EFFORTS if one != asked and re.search(rf"\b{one}\b", refusal)]
            instead = nearest_effort(asked, tuple(named))
            if instead is not None:
                self._efforts[asked] = instead
                return f"the effort {asked}"
        return None

    def _learn_thinking(self, body: Mapping[str, Any], refusal: str) -> str | None:
        """Learn another way to ask for thinking, or to turn it off: Claude models differ."""
        thinking = body.get("thinking")
        kind = field(thinking, "type")
        if not isinstance(kind, str) or "thinking" not in refusal or "thinking" in self._kept:
            return None
        instead: Mapping[str, Any] | None
        if kind == "disabled":
            instead = {"type": "between_tools"}
        elif kind == "between_tools":
            self._thinking["disabled"] = instead = None
        elif kind == "enabled":
            instead = {"type": "adaptive"}
        elif kind == "adaptive" and re.search(r"(?i)adaptive.{0,40}not (?:supported|permitted)", refusal):
            instead = {"type": "enabled", "budget_tokens": max(1_024, body.get("max_tokens", 0) // 2)}
        else:
            return None
        self._thinking[kind] = instead
        return f"thinking of the type {kind}"


def has_carry(body: Mapping[str, Any]) -> bool:
    """Return whether a body sends thinking of earlier rounds back."""
    items = [*body.get("messages", ()), *(body.get("input") or ())]
    return any(map(_carried_in, items))


def drop_carry(body: dict[str, Any]) -> None:
    """Remove the thinking of earlier rounds from a body."""
    for name in ("messages", "input"):
        if isinstance(body.get(name), list):
            body[name] = [_bare(one) for one in body[name] if one.get("type") != "reasoning"]


CARRY_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")
"""Fields of an assistant's message that hold its thinking, in Chat Completions."""
_CARRY_BLOCKS = ("thinking", "redacted_thinking")


def _carried_in(item: Mapping[str, Any]) -> bool:
    content = item.get("content")
    blocks = content if isinstance(content, list) else ()
    return (
        item.get("type") == "reasoning"
        or any(name in item for name in CARRY_FIELDS)
        or any(field(block, "type") in _CARRY_BLOCKS for block in blocks)
    )


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    bare = {name: value for name, value in item.items() if name not in CARRY_FIELDS}
    if isinstance(bare.get("content"), list):
        bare["content"] = [one for one in bare["content"] if field(one, "type") not in _CARRY_BLOCKS]
    return bare


def _efforts_in(body: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield each place of `body` that holds an effort."""
    for holder, key in ((body, "reasoning_effort"), (body.get("reasoning"), "effort")):
        if isinstance(field(holder, key), str):
            yield holder, key
    if isinstance(field(body.get("output_config"), "effort"), str):
        yield body["output_config"], "effort"


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)
