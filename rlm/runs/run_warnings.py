"""The warnings that a run collects for its result."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.events import Warned

__all__ = ["RunWarnings"]

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
