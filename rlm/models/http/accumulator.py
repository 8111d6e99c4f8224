"""Collects the events of one reply. What the protocols have in common is here; each adds how it is read."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rlm.models.base import Carry, FinishReason, Reply, TokenUsage, ToolCall
from rlm.models.http.reply_limits import BoundedText
from rlm.models.http.think_tags import ThinkSplitter, split_bare_close
from rlm.models.http.wire_messages import field, text_in

__all__ = ["StreamAccumulator", "ToolCallCollector"]

_NAME_CHARS = 200
_MAX_CALLS = 32


class StreamAccumulator(ABC):
    """Collects the events of one stream into a reply, and keeps no more text than `max_output_tokens` can
    hold. With `body`, estimates the tokens of it and of the reply where the server counts none.

    A protocol adds to `text`, `_thinking`, `_tools` and `_usage`, and sets `_finish` with the last event that
    it waits for. It never raises, whatever a server sends.
    """

    has_tags: ClassVar[bool] = False
    """Whether a model's thinking may stand in its text, between tags."""

    def __init__(self, max_output_tokens: int, body: dict[str, Any] | None = None) -> None:
        self.text = BoundedText(max_output_tokens)
        self._thinking = BoundedText(max_output_tokens)
        self._tools = ToolCallCollector(max_output_tokens)
        self._splitter = ThinkSplitter()
        self._body = body or {}
        self._usage: TokenUsage | None = None if body else TokenUsage()
        self._has_begun = not body
        """Whether the provider charges for the prompt."""
        self._finish: FinishReason | None = None
        self._refused = False
        self._response_id = self._model = ""

    @abstractmethod
    def add(self, event: object) -> bool:
        """Take in one event; return whether it was the last."""

    @abstractmethod
    def accept_json(self, answer: object) -> bool:
        """Take in a whole reply that came as JSON: that of a batch, or of a server that ignores `stream`.
        Return False if it is something else."""

    def _carry(self) -> Carry:
        """Return what the provider wants back: nothing, if the protocol does not say."""
        return ()

    def reply(self) -> Reply | None:
        """Return the reply, or None while it is incomplete."""
        reason = "length" if self._is_full else self._finish
        if reason is None:
            return None
        text, thinking = self._texts()
        return Reply(
            text,
            "refusal" if self._refused and reason == "stop" else reason,
            self.spent,
            thinking=thinking,
            carry=self._carry(),
            response_id=self._response_id,
            model=self._model,
            tool_calls=self._tools.calls,
        )

    @property
    def spent(self) -> TokenUsage:
        """Return the tokens that the provider will charge for so far, as far as known. A usage without any
        token counts nothing."""
        usage, body = self._usage, self._body
        if not self._has_begun:
            return TokenUsage()
        if usage is not None and body and not usage.input_tokens and not usage.output_tokens:
            usage = None
        text, thinking = self._texts()
        if usage is not None and (usage.reasoning_tokens or not thinking):
            return usage
        from rlm.prompts.tokens.counters import get_counter

        count = get_counter("estimate").count
        thought = count(thinking)
        if usage is not None:
            return replace(usage, reasoning_tokens=min(thought, usage.output_tokens))
        sent = [field(item, "content") for item in body.get("messages", body.get("input", ()))]
        sent.append(body.get("system"))
        called = "".join(f"{call.name}{call.arguments}" for call in self._tools.calls)
        prompt = sum(count(_read_content(content)) for content in sent)
        return TokenUsage(prompt, count(f"{text}{called}") + thought, reasoning_tokens=thought)

    @property
    def _is_full(self) -> bool:
        return self.text.is_full or self._thinking.is_full or self._tools.is_full

    def _add_tagged(self, piece: str) -> None:
        """Add a piece of the text of a protocol that `has_tags`."""
        text, thinking = self._splitter.feed(piece)
        self.text.add(text)
        self._thinking.add(thinking)

    def _texts(self) -> tuple[str, str]:
        """Return the text and the thinking so far."""
        if not self.has_tags:
            return str(self.text), str(self._thinking)
        rest, thinking = self._splitter.close()
        self.text.add(rest)
        self._thinking.add(thinking)
        text, thinking = split_bare_close(str(self.text))
        return text, f"{self._thinking}{thinking}"

    def _read_names(self, record: object) -> None:
        """Take the id of the response and the name of the model, once a server tells them."""
        self._response_id = self._response_id or text_in(record, "id")[:_NAME_CHARS]
        self._model = self._model or text_in(record, "model")[:_NAME_CHARS]


def _read_content(content: object) -> str:
    parts = content if isinstance(content, list) else ()
    return content if isinstance(content, str) else "".join(text_in(part, "text") for part in parts)


class ToolCallCollector:
    """Puts the tool calls of a stream together. No tool is ever offered, but some models call one all
    the same. Keeps no more text than `max_output_tokens` can hold."""

    def __init__(self, max_output_tokens: int) -> None:
        self._limit = max_output_tokens
        self._calls: list[_Call] = []

    def add(
        self, key: Hashable, *, id_: object = None, name: object = None, arguments: object = None
    ) -> None:
        """Take in one piece. `key` is the call's place in the reply, or None where the server names none.
        Arguments that are no text (some servers send the object) are kept as JSON."""
        name = name[:_NAME_CHARS] if isinstance(name, str) else ""
        id_ = id_[:_NAME_CHARS] if isinstance(id_, str) else ""
        begun = [call for call in self._calls if key is None or call.key == key]
        call = begun[-1] if begun else None
        # Some servers give all calls of a reply the same place.
        if call is None or (id_ != call.id_ if id_ and call.id_ else key is None and name and call.name):
            if len(self._calls) == _MAX_CALLS:
                return
            call = _Call(key, BoundedText(self._limit))
            self._calls.append(call)
        call.name, call.id_ = call.name or name, call.id_ or id_
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments) if arguments else ""
        if isinstance(arguments, str):
            call.arguments.add(arguments)

    @property
    def is_full(self) -> bool:
        """Return whether a piece was cut or dropped."""
        return any(call.arguments.is_full for call in self._calls)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(call.name, str(call.arguments)) for call in self._calls)


@dataclass
class _Call:
    key: Hashable
    arguments: BoundedText
    id_: str = ""
    name: str = ""
