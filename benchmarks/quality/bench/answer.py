"""What a run said, as it is scored.

The runtime withholds the answer of a single call whose quotes it cannot verify. In a comparison that would
score the gate and not the model, so the reply itself is scored: no arm loses an answer by our own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlm.answers.thinking import without_reasoning
from rlm.driver.direct import answer_and_quotes
from rlm.results import RunResult

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["said_by"]

_WITHHELD = frozenset({"unverified", "invalid_reply", "truncated_reply"})


def said_by(result: RunResult, events: Sequence[JournalEvent]) -> str:
    """Return the answer of a run as text: that of the result, or the last direct reply if its answer was
    withheld. Empty for none."""
    if result.answer is not None:
        return result.text
    if result.stop_reason not in _WITHHELD:
        return ""
    replies = [
        one.data["reply"] for one in events if one.data.get("role") == "direct" and "reply" in one.data
    ]
    return answer_and_quotes(without_reasoning(replies[-1]))[0] if replies else ""
