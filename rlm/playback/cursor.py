"""Answers the calls of cells that are re-run from the journal of their first run.

A run is re-run in a new kernel when it is resumed or replayed, and after its kernel died. Otherwise the
cursor is empty and every call is a new one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from rlm.playback.asked import Asked
from rlm.playback.recording import RecordedFailure, RecordedReply, RecordedRound, Recording
from rlm.sandbox.types import CellResult

__all__ = ["NOTHING", "ReplayCursor"]

NOTHING = Asked()
"""Of a call that is found by its exact key alone."""


class ReplayCursor:
    """A position in a recording.

    Each recorded reply is given once, whichever round asks: a reply that is left over stays valid after the
    run has diverged. `diverged` says that the cell being repeated made a call that it had not made the
    first time.

    A call is found by its exact key. If there is none, because words of the prompt have changed since, it is
    found by what it asked.
    """

    def __init__(self, recording: Recording | None = None) -> None:
        self.round = 0
        self.diverged = False
        self.load(recording or Recording())

    def load(self, recording: Recording) -> None:
        """Start from the beginning of another recording."""
        self.recording = recording
        self._replies = {key: deque(replies) for key, replies in recording.replies.items()}
        self._failures = {key: deque(failures) for key, failures in recording.failures.items()}
        self._unserved = sum(map(len, self._replies.values()))
        self.begin(0, None)

    @property
    def rounds(self) -> tuple[RecordedRound, ...]:
        """Return the recorded rounds, in order."""
        return self.recording.rounds

    @property
    def unserved(self) -> int:
        """Return how many recorded replies were not given yet."""
        return self._unserved

    @property
    def repeating(self) -> bool:
        """Return whether the running cell has a recorded result and has not diverged."""
        return self._past is not None and not self.diverged

    def begin(self, round_: int, past: CellResult | None) -> None:
        """Start the cell of `round_`. `past` is its recorded result, if it ended."""
        self.round = round_
        self._past = past
        self.diverged = False
        self._calls: Counter[str] = Counter()

    def reply(self, key: str, asked: Asked = NOTHING) -> RecordedReply | None:
        """Return the reply to a call, or None when the model must be asked."""
        found = self._key_of_reply(key, asked)
        if found is None:
            self.miss()
            return None
        self._unserved -= 1
        return self._replies[found].popleft()

    def has_reply(self, key: str, asked: Asked = NOTHING) -> bool:
        """Return whether a recorded reply to this call was not given yet."""
        return self._key_of_reply(key, asked) is not None

    def _key_of_reply(self, key: str, asked: Asked) -> str | None:
        """Find the recorded key of a call: its own, else that of the first reply to the same question.

        Replies with a digest are found by it alone. An outline says less, and finds only replies without one,
        which older releases wrote.
        """
        if self._replies.get(key):
            return key
        recorded = self.recording.asked
        keys = (*recorded.get(asked.digest, ()), *recorded.get(asked.outline, ()))
        return next((one for one in keys if self._replies[one]), None)

    def failure(self, key: str, asked: Asked = NOTHING) -> RecordedFailure | None:
        """Return how a call failed in this round, if it did.

        A failure that an older release wrote shows only the spans of the call. It counts for a call without a
        recorded reply, in a cell that repeats what it did: then no other call of the cell can be meant.
        """
        failures = self._failures_of(key) or self._failures_asked(asked.digest)
        if not failures and self.repeating and not self.has_reply(key, asked):
            failures = self._failures_asked(asked.failure_outline)
        if failures:
            return failures.popleft()
        interrupted = self._past is not None and self._past.status == "timeout"
        if interrupted and not self.has_reply(key, asked):
            return RecordedFailure("cancelled", "the block was interrupted before this was answered")
        return None

    def _failures_of(self, key: str) -> deque[RecordedFailure] | None:
        return self._failures.get((self.round, key))

    def _failures_asked(self, asked: Hashable) -> deque[RecordedFailure] | None:
        keys = self.recording.failed_asked.get((self.round, asked), ())
        return next((failures for key in keys if (failures := self._failures_of(key))), None)

    def part(self, name: str) -> Recording:
        """Return the recording of the sub-RLM of that name."""
        return replace(self.recording.part(name), over=self.end(name) is not None)

    def end(self, name: str) -> RecordedFailure | None:
        """Return why the sub-RLM of that name gave the repeated cell no answer. Return None if it gave one,
        or must be run."""
        if not self.repeating:
            return None
        if name in self.recording.ended:
            return self.recording.ended[name]
        if self._past is not None and self._past.status == "timeout":
            return RecordedFailure("cancelled", "the block was interrupted before this was answered")
        return None

    def order(self, helper: str) -> int:
        """Count the calls of a helper in this round, from 0."""
        self._calls[helper] += 1
        return self._calls[helper] - 1

    def helper(self, helper: str, order: int) -> Mapping[str, Any] | None:
        """Return the recorded result of that call of a helper, if any."""
        return self.recording.helpers.get((self.round, helper, order))

    def miss(self) -> None:
        """Note a call that the recording does not hold."""
        self.diverged = self.diverged or self._past is not None
