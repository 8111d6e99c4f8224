"""Answers what cells ask for when they are run again, from what the journal has of the first time.

Used where a run goes on in a new kernel: after the death of the one it had, and when it is resumed or
replayed. While nothing is being repeated it knows nothing, and every question is a new one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlm.playback.recording import RecordedFailure, RecordedReply, RecordedRound, Recording
from rlm.sandbox.types import CellResult

__all__ = ["ReplayCursor"]


class ReplayCursor:
    """The place in a recording at which a run is.

    A reply is given once for every time it was paid for, whichever round asks: what was left over is still
    good when the run has gone another way. `diverged` says that the cell being repeated asked for something
    that it had not asked for the first time.
    """

    def __init__(self, recording: Recording | None = None) -> None:
        self.round = 0
        self.diverged = False
        self.load(recording or Recording())

    def load(self, recording: Recording) -> None:
        """Begin anew with another recording."""
        self.recording = recording
        self._replies = {key: deque(replies) for key, replies in recording.replies.items()}
        self._failures = {key: deque(failures) for key, failures in recording.failures.items()}
        self._unserved = sum(map(len, self._replies.values()))
        self.begin(0, None)

    @property
    def rounds(self) -> tuple[RecordedRound, ...]:
        """The rounds there are, in order."""
        return self.recording.rounds

    @property
    def unserved(self) -> int:
        """Replies that were paid for and not given yet."""
        return self._unserved

    @property
    def repeating(self) -> bool:
        """Whether the cell that runs is one whose end is known, and does what it did."""
        return self._past is not None and not self.diverged

    def begin(self, round_: int, past: CellResult | None) -> None:
        """The next cell is that of `round_`; `past` is its result, when it came to its end before."""
        self.round = round_
        self._past = past
        self.diverged = False
        self._calls: Counter[str] = Counter()

    def reply(self, key: str) -> RecordedReply | None:
        """A reply to the call `key`; None when it is to be asked."""
        replies = self._replies.get(key)
        if replies:
            self._unserved -= 1
            return replies.popleft()
        self.miss()
        return None

    def has_reply(self, key: str) -> bool:
        """Whether there is a reply to the call `key` that was not given yet."""
        return bool(self._replies.get(key))

    def failure(self, key: str) -> RecordedFailure | None:
        """How the call `key` failed in this round, if it did."""
        failures = self._failures.get((self.round, key))
        if failures:
            return failures.popleft()
        if self._past is not None and self._past.status == "timeout" and not self._replies.get(key):
            return RecordedFailure("cancelled", "the block was interrupted before this was answered")
        return None

    def part(self, name: str) -> Recording:
        """What there is of the sub-RLM of that name."""
        return replace(self.recording.part(name), over=self.end(name) is not None)

    def end(self, name: str) -> RecordedFailure | None:
        """Why the sub-RLM of that name gave the cell that is repeated no answer; None when it gave one, or is
        to be run."""
        if not self.repeating:
            return None
        if name in self.recording.ended:
            return self.recording.ended[name]
        if self._past is not None and self._past.status == "timeout":
            return RecordedFailure("cancelled", "the block was interrupted before this was answered")
        return None

    def order(self, helper: str) -> int:
        """Counts the calls of a helper in this round, from 0."""
        self._calls[helper] += 1
        return self._calls[helper] - 1

    def helper(self, helper: str, order: int) -> Mapping[str, Any] | None:
        """What that call gave, if anything was written down of it."""
        return self.recording.helpers.get((self.round, helper, order))

    def miss(self) -> None:
        """Something was asked for that was not asked for before."""
        self.diverged = self.diverged or self._past is not None
