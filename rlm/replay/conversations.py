"""The conversations of a run: one for each window of a root, one for each other call.

The journal holds the replies and the run is replayed offline, so the prompts are those that were sent. The
calls that folded rounds into notes are left out: their notes stand in the next window. Values of secret
environment variables are blanked, as in the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlm.errors import UsageError
from rlm.journal.redaction import Redaction, secrets_of
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Message, Role
from rlm.playback.exchanges import Exchange
from rlm.replay.replay import replay
from rlm.settings import Settings

__all__ = ["Conversation", "read_conversations"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation with one model: `messages` end with its last reply.

    A root gets a new window when its rounds are folded into notes; `rounds` are the first and the last of
    the window, (0, 0) for every other role. `id` is unique in an export. `parent` is the id of the window
    before, or of the root's window that asked for this call; None for the first window of a run.
    """

    run_id: str
    id: str
    parent: str | None
    role: Role
    model: str
    within: str
    rounds: tuple[int, int]
    messages: tuple[Message, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return {
            "run_id": self.run_id,
            "id": self.id,
            "parent": self.parent,
            "role": self.role,
            "model": self.model,
            "within": self.within,
            "rounds": list(self.rounds),
            "messages": [_plain(one) for one in self.messages],
        }


async def read_conversations(
    run: str, *, store: str | Path, settings: Settings | None = None
) -> list[Conversation]:
    """Replay the run whose name is or starts with `run`, and return its conversations in order.

    No model is called, and nothing is written. Raises UsageError when the replay gives another answer,
    because its prompts would not be those of the run, and what `rlm.replay.replay` raises.
    """
    replayed = await replay(run, store=store, settings=settings)
    name = replayed.stored.run_id
    if not replayed.equal:
        raise UsageError(
            f"the replay of {name} diverged, so its prompts are unknown. "
            f"Look at it with rlm replay {name}, or export the events"
        )
    return _Reader(name).read(replayed.exchanges)


@dataclass(slots=True)
class _Window:
    """The calls of one conversation, in order."""

    id: str
    parent: str | None
    exchanges: list[Exchange]


class _Reader:
    """Reads the exchanges of one run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._redaction = Redaction()
        self._redaction.add(secrets_of(os.environ))

    def read(self, exchanges: Iterable[Exchange]) -> list[Conversation]:
        """Return the conversations in the order in which they began."""
        return [self._conversation(window) for window in self._windows(exchanges)]

    def _windows(self, exchanges: Iterable[Exchange]) -> list[_Window]:
        windows: list[_Window] = []
        open_windows: dict[str, _Window] = {}
        for one in exchanges:
            window = open_windows.get(one.within) if one.role == "root" else None
            if window is not None and _continues(window.exchanges[-1].messages, one.messages):
                window.exchanges.append(one)
                continue
            window = _Window(f"{self._run_id}/{len(windows) + 1}", _parent(one.within, open_windows), [one])
            windows.append(window)
            if one.role == "root":
                open_windows[one.within] = window
        return windows

    def _conversation(self, window: _Window) -> Conversation:
        first, last = window.exchanges[0], window.exchanges[-1]
        reply = Message("assistant", last.reply.text)
        blank = self._redaction.blank
        return Conversation(
            run_id=self._run_id,
            id=window.id,
            parent=window.parent,
            role=last.role,
            model=last.model,
            within=last.within,
            rounds=(first.round, last.round),
            messages=tuple(replace(one, content=blank(one.content)) for one in (*last.messages, reply)),
        )


def _parent(within: str, open_windows: Mapping[str, _Window]) -> str | None:
    """Return the id of the window before, or of the nearest window around a sub-RLM."""
    while True:
        if within in open_windows:
            return open_windows[within].id
        if not within:
            return None
        within = within.rpartition("/")[0]


def _continues(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether a request begins with the messages of another one."""
    return [one.content for one in after[: len(before)]] == [one.content for one in before]


def _plain(message: Message) -> dict[str, str]:
    pictures = f"[{len(message.images)} pictures]\n" if message.images else ""
    return {"role": message.role, "content": pictures + message.content}
