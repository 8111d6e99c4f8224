"""The conversations of a run, as training data: one for each window of a root, one for each other call.

The journal holds the replies and the run is replayed offline, so the prompts are those that were sent. The
calls that folded rounds into notes are left out: their notes stand in the next window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.driver.reply_contract import Cell, fenced, parse
from rlm.errors import UsageError
from rlm.models.base import Message, Role
from rlm.playback.exchanges import Exchange
from rlm.replay.replay import replay
from rlm.results import RunResult
from rlm.settings import Settings

__all__ = ["Conversation", "read_conversations"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation with one model: `messages` end with its last reply.

    A root gets a new window when its rounds are folded into notes; `rounds` are the first and the last of
    the window, (0, 0) for every other role. `is_valid` is False if the last reply of a root was not exactly
    one block. `reward` says how the run ended: `answered`, `finalized`, `supported_share` of the claims that
    were checked (None if none was), `coverage` (the share of the input that was read or answered for),
    `cost_usd` (None if a price is unknown) and `tokens` of the whole run.
    """

    run_id: str
    role: Role
    model: str
    within: str
    rounds: tuple[int, int]
    messages: tuple[Message, ...]
    is_valid: bool
    reward: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return {
            "run_id": self.run_id,
            "role": self.role,
            "model": self.model,
            "within": self.within,
            "rounds": list(self.rounds),
            "is_valid": self.is_valid,
            "messages": [_plain(one) for one in self.messages],
            "reward": self.reward,
        }

    def to_example(self) -> dict[str, Any] | None:
        """Return an example for supervised fine-tuning, in the form of Chat Completions.

        None if the run has no answer, if the last reply broke the contract, or if a message holds a picture.
        A root's reply is its block alone, as later prompts of the run repeat it.
        """
        if not (self.reward["answered"] and self.is_valid) or any(one.images for one in self.messages):
            return None
        messages = [_plain(one) for one in self.messages]
        if self.role == "root":
            cell = parse(self.messages[-1].content, finish_reason="stop", contract="one-block")
            if not isinstance(cell, Cell):
                return None
            messages[-1]["content"] = fenced(cell.code)
        return {"messages": messages}


async def read_conversations(
    run: str, *, store: str | Path, settings: Settings | None = None
) -> list[Conversation]:
    """Replay the run whose name is or starts with `run`, and return its conversations in order.

    No model is called, and nothing is written. Raises UsageError when the replay gives another answer,
    because its prompts would not be those of the run, and what `rlm.replay.replay` raises.
    """
    replayed = await replay(run, store=store, settings=settings)
    recorded = replayed.recorded
    if not replayed.equal:
        raise UsageError(
            f"the replay of {recorded.run_id} diverged, so its prompts can't be told. "
            f"Look at it with rlm replay {recorded.run_id}, or export the events"
        )
    reward = _reward(recorded)
    return [_conversation(recorded.run_id, one, reward) for one in _windows(replayed.exchanges)]


def _windows(exchanges: Iterable[Exchange]) -> list[list[Exchange]]:
    """Return the calls of each conversation, in order. Those of one window of a root belong together."""
    windows: list[list[Exchange]] = []
    open_windows: dict[str, list[Exchange]] = {}
    for one in exchanges:
        window = open_windows.get(one.within) if one.role == "root" else None
        if window is not None and _continues(window[-1].messages, one.messages):
            window.append(one)
            continue
        window = [one]
        windows.append(window)
        if one.role == "root":
            open_windows[one.within] = window
    return windows


def _continues(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether a request begins with the messages of another one."""
    return [one.content for one in after[: len(before)]] == [one.content for one in before]


def _conversation(run_id: str, window: Sequence[Exchange], reward: dict[str, Any]) -> Conversation:
    first, last = window[0], window[-1]
    reply = Message("assistant", last.reply.text)
    is_valid = last.role != "root" or isinstance(
        parse(last.reply.text, finish_reason=last.reply.finish_reason, contract="one-block"), Cell
    )
    return Conversation(
        run_id,
        last.role,
        last.model,
        last.within,
        (first.round, last.round),
        (*last.messages, reply),
        is_valid,
        reward,
    )


def _reward(result: RunResult) -> dict[str, Any]:
    support = result.support
    checked = 0 if support is None else support.supported + support.unsupported
    coverage = result.coverage
    costs = [one.cost_usd for one in result.usage]
    return {
        "answered": result.answer is not None,
        "finalized": result.stop_reason == "finalized",
        "supported_share": None if support is None or not checked else round(support.supported / checked, 4),
        "coverage": round(1 - coverage.uncovered_chars / coverage.input_chars, 4)
        if coverage.input_chars
        else None,
        "cost_usd": None if any(cost is None for cost in costs) else round(sum(filter(None, costs)), 6),
        "tokens": sum(one.input_tokens + one.output_tokens for one in result.usage),
    }


def _plain(message: Message) -> dict[str, str]:
    pictures = f"[{len(message.images)} pictures]\n" if message.images else ""
    return {"role": message.role, "content": pictures + message.content}
