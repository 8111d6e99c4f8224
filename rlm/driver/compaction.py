"""Folds older rounds of a root into notes when its messages near its window. The kernel is not touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlm.accounting.budget import seconds_left
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import RunContext
from rlm.answers.thinking import without_reasoning
from rlm.driver.root_state import HEAD, RootState, Round
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import RoundsFolded
from rlm.models.base import Message, Model, ModelWindow, Request, is_extractive
from rlm.playback.border import call_digest
from rlm.prompts.recipes.notices import folded_rounds
from rlm.prompts.tokens.counters import get_counter

if TYPE_CHECKING:
    from rlm.prompts.history import Message as Said

__all__ = ["Compactor"]

KEPT_ROUNDS = 4
"""The latest rounds, which stay word for word."""

_NOTES_SHARE = 4  # of the room there is, one in so many tokens may be notes
_MIN_GAIN = 0.1
_MIN_NOTES = 200
"""The least tokens of notes that are worth a call."""
_PROMPT_TOKENS = 100_000
_COUNTER = get_counter()


class Compactor:
    """Folds the rounds of one run. `model` writes the notes. If it fails or is `extractive`, salient lines
    of the rounds are picked instead.

    `compact_at` is the share of the root's `window` that its messages may take. They leave room for a reply
    of `output_tokens`.
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
        run_context: RunContext,
    ) -> None:
        self._model = model
        self._task = task
        self._root = root
        self._window = window.context - output_tokens
        self._limit = min(int(window.context * compact_at), self._window)
        self._run_context = run_context

    async def fold(self, state: RootState) -> dict[str, Any] | None:
        """Return the data of the event that folds all rounds but the last four. Return None if there is room,
        or folding would gain too little.

        The system prompt and the task stay as they are. If the window does not hold four rounds, as many stay
        as it holds, but at least one.
        """
        messages, rounds, variables = state.messages, state.positions, tuple(state.variables.values())
        before = state.tokens
        counted = self._run_context.metered.calibrated(self._root, before)
        if counted <= self._limit:
            return None
        if len(rounds) < 2 or (len(rounds) <= KEPT_ROUNDS and counted <= self._window):
            return None
        # As estimates, like all that follows.
        limit, window = self._limit * before // counted, self._window * before // counted
        for count in range(min(KEPT_ROUNDS, len(rounds) - 1), 0, -1):
            old, kept = rounds[:-count], rounds[-count:]
            tail = _tokens((*messages[:HEAD], *messages[kept[0].start :]))
            around = estimate(folded_rounds(old[-1].number, "", variables))
            room = max(0, min(limit - tail - around, limit // _NOTES_SHARE))
            if room >= _MIN_NOTES or tail + around <= window:
                break
        if before - tail - estimate(state.notes) < before * _MIN_GAIN:
            return None
        last = old[-1].number
        said, names = _said(messages[old[0].start : kept[0].start], old)
        notes, fault = await self._note(said, names, room, last, state.notes, (*state.folded, *old))
        message = folded_rounds(last, notes, variables)
        after = tail + estimate(message)
        self._run_context.observe(RoundsFolded(last, before, after, fault))
        return {
            "last_round": last,
            "tokens_before": before,
            "tokens_after": after,
            "message": message,
            "notes": notes,
            "room": room,
            "fault": fault,
        }

    async def _note(
        self,
        said: Sequence[Said],
        names: Sequence[str],
        room: int,
        last: int,
        notes: str,
        folded: Sequence[Round],
    ) -> tuple[str, str]:
        """Return new notes, which continue `notes`, and why the model's are not used: "" when they are or no
        model was asked. `folded` are all rounds that were ever folded."""
        # Most runs end before they fold.
        from rlm.prompts.history import Folding, extract, summarize_messages
        from rlm.prompts.history import Message as Said

        fault = ""
        if not is_extractive(self._model) and room >= _MIN_NOTES:
            window = self._model.window
            folding = Folding(_COUNTER, room, min(window.context - self._output_tokens(room), _PROMPT_TOKENS))
            summary = await summarize_messages(
                said,
                names,
                folding,
                lambda prompt: self._ask(prompt, room, last),
                so_far=notes,
                failures=(ModelError, BudgetExhausted),
            )
            if summary.text is not None:
                return summary.text, ""
            fault = summary.fault
        # Pick from all rounds that were ever folded, not from earlier picks: other lines may be salient now.
        # The code is left out, since its variables are in the kernel.
        outputs = [Said("assistant", one.output) for one in folded]
        return extract(outputs, [_name(one) for one in folded], room, _COUNTER), fault

    async def _ask(self, prompt: str, room: int, last: int) -> str:
        request = Request(
            role="summary",
            messages=(Message("user", prompt),),
            max_output_tokens=self._output_tokens(room),
            task=self._task,
        )
        async with seconds_left(self._run_context.budget):
            call = await self._run_context.metered.ask(
                self._model,
                request,
                prompt_tokens=estimate(prompt),
                asked=call_digest("notes", self._model.name, last, room),
                event_fields={"last_round": last, "room": room},
            )
        if call.reply.finish_reason != "stop":
            raise ModelError(f"the summary ended early ({call.reply.finish_reason})")
        return without_reasoning(call.reply.text)

    def _output_tokens(self, room: int) -> int:
        """Return twice the room: a summary that is too long can be shortened, one that is cut is lost."""
        return max(1, min(self._model.window.output, 2 * room))


def _tokens(messages: Sequence[Message]) -> int:
    return sum(estimate(message.content) for message in messages)


def _said(messages: Sequence[Message], rounds: Sequence[Round]) -> tuple[list[Said], list[str]]:
    """Return the messages as a history, and the name of the round of each (`r3`)."""
    from rlm.prompts.history import Message as Said

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
