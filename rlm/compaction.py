"""A root's messages when they near its window: older rounds become notes, the kernel stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prompts.history import Folding, Summary, drive_async, extract, summarizing
from prompts.history import Message as Said
from prompts.recipes.folded import folded_rounds
from prompts.tokens import get_counter
from rlm.accounts import Accounts
from rlm.calls import estimate
from rlm.deadline import seconds_left
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import RoundsFolded
from rlm.models.base import Message, Model, ModelWindow, Request
from rlm.reasoning import without_reasoning

__all__ = ["Compactor", "Folded", "Round"]

KEPT_ROUNDS = 4
"""The latest rounds stay word for word."""

_HEAD = 2  # the system prompt and the task
_NOTES_SHARE = 4  # of the room there is, one in so many tokens may be notes
_LEAST_GAIN = 0.1
_LEAST_NOTES = 200
"""Tokens of notes that are worth asking a model for."""
_PROMPT_TOKENS = 100_000
_COUNTER = get_counter()


@dataclass(frozen=True, slots=True)
class Round:
    """A round's number, the place of its first message among the root's, and what its block said."""

    number: int
    start: int
    output: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """The messages and the rounds after folding."""

    messages: tuple[Message, ...]
    rounds: tuple[Round, ...]


class Compactor:
    """Folds the rounds of one run. `model` writes the notes; an `extractive` one is not asked: then, and
    when it fails, the rounds' telling lines are picked.

    `compact_at` is the share of the root's window (`window`) that its messages may take; they never take
    what its reply needs (`output_tokens`).
    """

    def __init__(
        self,
        model: Model,
        task: str,
        *,
        root: Model,
        window: ModelWindow,
        output_tokens: int,
        compact_at: float,
        accounts: Accounts,
    ) -> None:
        self._model = model
        self._task = task
        self._root = root
        self._window = window.context - output_tokens
        self._limit = min(int(window.context * compact_at), self._window)
        self._accounts = accounts
        self._folded: list[Round] = []
        self._notes = ""

    async def fold(
        self, messages: Sequence[Message], rounds: Sequence[Round], variables: Sequence[str]
    ) -> Folded | None:
        """The messages with all rounds but the last four folded; None while there is room, or nothing to be
        gained. The first two messages, system prompt and task, and the last rounds stay as they are. Where
        the window does not hold four rounds, as many stay as it holds, the last one at least."""
        before = sum(estimate(message.content) for message in messages)
        if self._calibrated(before) <= self._limit:
            return None
        if len(rounds) < 2 or (len(rounds) <= KEPT_ROUNDS and self._calibrated(before) <= self._window):
            return None
        for count in range(min(KEPT_ROUNDS, len(rounds) - 1), 0, -1):
            old, kept = rounds[:-count], rounds[-count:]
            rest = messages[kept[0].start :]
            tail = sum(estimate(message.content) for message in (*messages[:_HEAD], *rest))
            around = estimate(folded_rounds(old[-1].number, "", variables))
            room = max(0, min(self._limit - tail - around, self._limit // _NOTES_SHARE))
            if room >= _LEAST_NOTES or self._calibrated(tail + around) <= self._window:
                break
        if before - tail - estimate(self._notes) < before * _LEAST_GAIN:
            return None
        said, names = _said(messages[old[0].start : kept[0].start], old)
        self._folded += old
        notes, fault = await self._note(said, names, room)
        note = Message("user", folded_rounds(old[-1].number, notes, variables), stable=True)
        folded = (*messages[:_HEAD], note, *rest)
        after = sum(estimate(message.content) for message in folded)
        self._accounts.observe(RoundsFolded(old[-1].number, before, after, fault))
        await self._accounts.log.append(
            "compaction",
            {
                "last_round": old[-1].number,
                "tokens_before": before,
                "tokens_after": after,
                "message": note.content,
                "fault": fault,
            },
        )
        moved = _HEAD + 1 - kept[0].start
        return Folded(folded, tuple(replace(one, start=one.start + moved) for one in kept))

    def _calibrated(self, tokens: int) -> int:
        return self._accounts.caller.calibrated(self._root, tokens)

    async def _note(self, said: Sequence[Said], names: Sequence[str], room: int) -> tuple[str, str]:
        """The notes, and why the model's are not used ("" when they are, or none was asked)."""
        fault = ""
        if self._model.name != "extractive" and room >= _LEAST_NOTES:
            window = self._model.window
            folding = Folding(_COUNTER, room, min(window.context - self._output_tokens(room), _PROMPT_TOKENS))
            summary: Summary = await drive_async(
                summarizing(said, names, folding, so_far=self._notes),
                lambda prompt: self._ask(prompt, room),
                failures=(ModelError, BudgetExhausted),
            )
            if summary.text is not None:
                self._notes = summary.text
                return summary.text, ""
            fault = summary.fault
        # From all that was ever folded, not from what was picked of it before: what tells most may have
        # changed. The code is left out: what it made is in the kernel.
        outputs = [Said("assistant", one.output) for one in self._folded]
        self._notes = extract(outputs, [_name(one) for one in self._folded], room, _COUNTER)
        return self._notes, fault

    async def _ask(self, prompt: str, room: int) -> str:
        request = Request(
            role="summary",
            messages=(Message("user", prompt),),
            max_output_tokens=self._output_tokens(room),
            task=self._task,
        )
        tokens = estimate(prompt)
        async with seconds_left(self._accounts.budget):
            call = await self._accounts.caller.ask(
                self._model,
                request,
                prompt_tokens=tokens,
                facts={"prompt": prompt, "prompt_tokens": tokens},
            )
        if call.reply.finish_reason != "stop":
            raise ModelError(f"the summary ended early ({call.reply.finish_reason})")
        return without_reasoning(call.reply.text)

    def _output_tokens(self, room: int) -> int:
        """Twice the room: a summary that is too long is told by how much, one that is cut is lost."""
        return max(1, min(self._model.window.output, 2 * room))


def _said(messages: Sequence[Message], rounds: Sequence[Round]) -> tuple[list[Said], list[str]]:
    """The messages as a history, and the round of each as its name (`r3`)."""
    said: list[Said] = []
    names: list[str] = []
    at = -1
    for place, message in enumerate(messages, rounds[0].start):
        while at + 1 < len(rounds) and rounds[at + 1].start <= place:
            at += 1
        said.append(Said(message.role, message.content))
        names.append(_name(rounds[at]))
    return said, names


def _name(one: Round) -> str:
    return f"r{one.number}"
