"""How the rounds of a run end: with an answer, or with the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from rlm.answers.finalization import Answer
from rlm.results import StopReason

__all__ = ["NoAnswer", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the rounds ended. If there is no `answer`, `detail` is the reason, and `variables` describes the
    variables of the kernel."""

    answer: Answer | None
    stop_reason: StopReason
    forced: bool = False
    detail: str = ""
    variables: tuple[str, ...] = ()


class NoAnswer(Exception):
    """Raised to end the rounds without an answer."""

    def __init__(self, reason: StopReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: StopReason = reason
