"""Answers the calls of cells that are re-run from the journal of their first run.

A run is re-run in a new kernel when it is resumed or replayed, and after its kernel died. Otherwise the
cursor is empty and every call is a new one.
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
    """A position in a recording.

    Each recorded reply is used once, in whichever round asks for it. Unused replies stay valid after the run
    has diverged. `diverged` is True if the re-run cell made a call that it did not make the first time.

    A call is found by its exact key, or else by its question id, because the words of the prompt may have
    changed since.
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
        """Return how many recorded replies were not used yet."""
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

    def reply(self, key: str, question_id: str = "") -> RecordedReply | None:
        """Return the recorded reply to a call, or None if the model must be called."""
        found = self._key_of_reply(key, question_id)
        if found is None:
            self.miss()
            return None
        self._unserved -= 1
        return self._replies[found].popleft()

    def has_reply(self, key: str, question_id: str = "") -> bool:
        """Return whether a recorded reply to this call is still unused."""
        return self._key_of_reply(key, question_id) is not None

    def _key_of_reply(self, key: str, question_id: str) -> str | None:
        """Return the key of the recorded reply: the call's own key, or the key of the first unused reply to
        the same question."""
        if self._replies.get(key):
            return key
        keys = self.recording.keys_by_question.get(question_id, ())
        return next((one for one in keys if self._replies[one]), None)

    def failure(self, key: str, question_id: str = "") -> RecordedFailure | None:
        """Return how a call failed in this round, if it did."""
        failures = self._failures_of(key) or self._failures_by_question(question_id)
        if failures:
            return failures.popleft()
        was_interrupted = self._past is not None and self._past.status == "timeout"
        if was_interrupted and not self.has_reply(key, question_id):
            return RecordedFailure("cancelled", "the block was interrupted before this was answered")
        return None

    def _failures_of(self, key: str) -> deque[RecordedFailure] | None:
        return self._failures.get((self.round, key))

    def _failures_by_question(self, question: str) -> deque[RecordedFailure] | None:
        keys = self.recording.failed_keys_by_question.get((self.round, question), ())
        return next((failures for key in keys if (failures := self._failures_of(key))), None)

    def part(self, name: str) -> Recording:
        """Return the recording of the sub-RLM of that name."""
        return replace(self.recording.part(name), over=self.end(name) is not None)

    def end(self, name: str) -> RecordedFailure | None:
        """Return why the sub-RLM of that name failed in the recorded cell. Return None if it answered or must
        be run."""
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
        """Return the recorded result of a helper's call number `order`, if any."""
        return self.recording.helpers.get((self.round, helper, order))

    def miss(self) -> None:
        """Note a call that is not in the recording."""
        self.diverged = self.diverged or self._past is not None
