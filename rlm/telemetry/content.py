"""Texts of prompts, replies, cells and tools for spans, where the environment asks for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from rlm.models.base import Message, Reply

if TYPE_CHECKING:
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.types import InputMessage, OutputMessage, SystemInstructionPart

__all__ = ["Content"]


class Content:
    """Makes the parts of messages as OpenTelemetry's package takes them. Everything is empty unless
    `captured`. Values of environment variables that look like secrets are blanked."""

    def __init__(self, *, captured: bool) -> None:
        self._captured = captured

    @classmethod
    def of(cls, handler: TelemetryHandler) -> Content:
        """Return what may be captured by the environment of `handler`."""
        return cls(captured=handler.should_capture_content())

    def shown(self, value: Any) -> Any:
        """Return a JSON-like value without secrets, or None."""
        return _blank(value) if self._captured else None

    def question(self, task: str) -> list[InputMessage]:
        return self._inputs([("user", task)])

    def messages(self, messages: Iterable[Message]) -> list[InputMessage]:
        return self._inputs((one.role, one.content) for one in messages if one.role != "system")

    def system(self, messages: Iterable[Message]) -> list[SystemInstructionPart]:
        if not self._captured:
            return []
        from opentelemetry.util.genai.types import TextPart

        return [TextPart(_blank(one.content)) for one in messages if one.role == "system"]

    def reply(self, reply: Reply) -> list[OutputMessage]:
        return self._outputs(reply.text, reply.thinking)

    def answer(self, answer: Any) -> list[OutputMessage]:
        if answer is None:
            return []
        return self._outputs(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))

    def _inputs(self, messages: Iterable[tuple[str, str]]) -> list[InputMessage]:
        if not self._captured:
            return []
        from opentelemetry.util.genai.types import InputMessage, TextPart

        return [InputMessage(role, [TextPart(_blank(text))]) for role, text in messages]

    def _outputs(self, text: str, thinking: str = "") -> list[OutputMessage]:
        if not self._captured:
            return []
        from opentelemetry.util.genai.types import OutputMessage, ReasoningPart, TextPart

        thought = [ReasoningPart(_blank(thinking))] if thinking else []
        return [OutputMessage("assistant", [*thought, TextPart(_blank(text))])]


def _blank(value: Any) -> Any:
    return _redaction().blank(value)


@cache
def _redaction() -> Any:
    # Import it late: with it comes the database library, which takes a third of a second.
    from rlm.journal.redaction import Redaction, secrets_of

    redaction = Redaction()
    redaction.add(secrets_of(os.environ))
    return redaction
