"""The warnings that a run collects for its result."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.events import Warned
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["RunWarnings", "check_source"]

_MAX_FROM_SUB_RLMS = 5
"""How many warnings of sub-RLMs are kept. A thousand sub-RLMs may give a thousand different warnings."""


class RunWarnings:
    """Keeps each warning once, and only the first few warnings of sub-RLMs."""

    def __init__(self, messages: Sequence[str] = ()) -> None:
        self.messages = list(messages)
        self._from_sub_rlms = 0

    @property
    def dropped(self) -> int:
        """Return how many warnings of sub-RLMs were not kept."""
        return max(0, self._from_sub_rlms - _MAX_FROM_SUB_RLMS)

    def add(self, warning: Warned) -> bool:
        """Add a warning. Return False if it was already added, or if a sub-RLM gave too many."""
        if warning.message in self.messages:
            return False
        if warning.depth:
            self._from_sub_rlms += 1
            if self.dropped:
                return False
        self.messages.append(warning.message)
        return True


def check_source(body: Body) -> list[str]:
    """Return a warning if the file that `body` is in was written, moved or removed, and still holds the text
    that the run read. Raises SourceChanged if it does not."""
    if body.watched is None:
        return []
    body.watched.check()
    if not body.watched.has_grown_or_moved:
        return []
    return ["the input file was written, moved or removed during the run: the answer is from its text before"]
