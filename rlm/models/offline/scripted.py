"""A model that plays prepared replies, for tests, demonstrations and teaching."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rlm.errors import ConfigurationError, ModelRejected
from rlm.models.base import FinishReason, ModelWindow, Reply, Request, Role, TokenUsage
from rlm.prompts.json_input import parse_json

__all__ = ["DEFAULT_SIZES", "Answer", "ScriptedModel", "ScriptedReply"]

_Value = str | Reply | Exception
Answer = _Value | Callable[[Request], _Value | Awaitable[_Value]]
"""An entry of a script: a text, a Reply, an exception to raise, or a function that returns one of these."""

_FIELDS = {"role", "reply", "match", "finish_reason", "usage", "delay"}
_USAGE_FIELDS = {"input_tokens", "output_tokens", "cached_tokens"}
DEFAULT_SIZES = ModelWindow(context=128_000, output=8_000)


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One line of a script. With `match`, it answers every request of `role` whose last user message contains
    that text. Without, it answers once, in its turn. `delay` is the seconds before the answer."""

    role: Role
    answer: Answer
    match: str | None = None
    delay: float = 0.0


class ScriptedModel:
    """Implements Model by playing a script. `requests` holds all requests in order of arrival.

    The first line of the request's role whose `match` it contains answers it, else the next line of that role
    without `match`. If there is none, `generate` raises ModelRejected.
    """

    def __init__(
        self,
        replies: Sequence[ScriptedReply],
        *,
        name: str = "scripted:memory",
        window: ModelWindow | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._name = name
        self._window = window or DEFAULT_SIZES
        self._matching = [reply for reply in replies if reply.match is not None]
        self._turns: dict[Role, list[ScriptedReply]] = {role: [] for role in get_args(Role)}
        for reply in replies:
            if reply.match is None:
                self._turns[reply.role].append(reply)
        self._played: dict[Role, int] = dict.fromkeys(self._turns, 0)
        self._always: dict[Role, Answer] = {}

    @classmethod
    def of(
        cls,
        *,
        root: Sequence[Answer] | Answer = (),
        child: Sequence[Answer] | Answer = (),
        summary: Sequence[Answer] | Answer = (),
        direct: Sequence[Answer] | Answer = (),
        check: Sequence[Answer] | Answer = (),
        window: ModelWindow | None = None,
    ) -> ScriptedModel:
        """Make a model from Python. A sequence is played in order, each entry once. A single answer (a text,
        a function) answers every request of its role."""
        given: dict[Role, Sequence[Answer] | Answer] = {
            "root": root,
            "child": child,
            "summary": summary,
            "direct": direct,
            "check": check,
        }
        turns: list[ScriptedReply] = []
        always: dict[Role, Answer] = {}
        for role, answers in given.items():
            if isinstance(answers, str | Reply | Exception) or callable(answers):
                always[role] = answers
            else:
                turns.extend(ScriptedReply(role, answer) for answer in answers)
        model = cls(turns, window=window)
        model._always = always
        return model

    @classmethod
    def from_file(cls, path: str | Path, *, window: ModelWindow | None = None) -> ScriptedModel:
        """Read a model from a JSONL file of `{role, reply, match?, finish_reason?, usage?, delay?}`. Skips
        blank lines. Raises ConfigurationError, which names the line."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"the script {path} can't be read: {error.strerror}; check the path"
            ) from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"the script {path} is not UTF-8 text: convert it") from None
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        replies = [_parse(line, f"{path}, line {number}") for number, line in lines]
        return cls(replies, name=f"scripted:{path}", window=window)

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._window

    async def generate(self, request: Request) -> Reply:
        """Return the next reply for the request's role. Raises ModelRejected when none is left, or the
        exception that the script holds."""
        self.requests.append(request)
        scripted = self._find_reply(request)
        if scripted.delay:
            await asyncio.sleep(scripted.delay)
        answer = scripted.answer
        if callable(answer):
            result = answer(request)
            answer = await result if isinstance(result, Awaitable) else result
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer) if isinstance(answer, str) else answer

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _find_reply(self, request: Request) -> ScriptedReply:
        prompt = next(
            (message.content for message in reversed(request.messages) if message.role == "user"), ""
        )
        for reply in self._matching:
            if reply.role == request.role and reply.match is not None and reply.match in prompt:
                return reply
        if request.role in self._always:
            return ScriptedReply(request.role, self._always[request.role])
        turn = self._played[request.role]
        if turn >= len(self._turns[request.role]):
            raise ModelRejected(
                f"{self._name} has no reply left for the role {request.role} "
                f"(request {turn + 1} of it without a match); add a line for it"
            )
        self._played[request.role] += 1
        return self._turns[request.role][turn]


def _parse(line: str, where: str) -> ScriptedReply:
    try:
        entry: Any = parse_json(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: not JSON ({error}); write one object a line") from None
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where}: not a JSON object; write {{role, reply, ...}}")
    role: Any = entry.get("role")
    reply: Any = entry.get("reply")
    match = entry.get("match")
    finish, delay, usage = entry.get("finish_reason", "stop"), entry.get("delay", 0), entry.get("usage", {})
    roles, reasons = get_args(Role), get_args(FinishReason)
    unknown = ", ".join(sorted(entry.keys() - _FIELDS))
    is_usage = isinstance(usage, dict) and usage.keys() <= _USAGE_FIELDS
    checks = {
        f"unknown field {unknown}; there are {', '.join(sorted(_FIELDS))}": not unknown,
        f"role must be one of {', '.join(roles)}": role in roles,
        "reply must be a text": isinstance(reply, str),
        "match must be a text that is not empty": match is None or (isinstance(match, str) and match != ""),
        f"finish_reason must be one of {', '.join(reasons)}": finish in reasons,
        "delay must be seconds, 0 or more": type(delay) in (int, float) and 0 <= delay < float("inf"),
        f"usage must hold whole numbers, 0 or more, under {', '.join(sorted(_USAGE_FIELDS))}": is_usage
        and all(type(count) is int and count >= 0 for count in usage.values()),
    }
    for complaint, is_valid in checks.items():
        if not is_valid:
            raise ConfigurationError(f"{where}: {complaint}")
    return ScriptedReply(role, Reply(reply, finish, TokenUsage(**usage)), match, float(delay))
