"""Every error that a run raises, or that refuses one before it starts.

    RLMError
    ├── UsageError              the request is not valid; names the setting, where one is at fault
    │   ├── DocumentError       a path that is missing, unreadable, binary or empty
    │   └── ConfigurationError  a setting, a model's name or a missing key
    ├── ModelError              a provider gave no answer
    │   ├── ModelUnavailable    nothing listens, or no answer within all retries
    │   ├── ModelRejected       the provider refused the request (key, name, size, policy)
    │   └── ModelProtocolError  the provider's reply is not what its protocol says
    ├── AnswerCheckError        the caller's check of an answer failed itself
    ├── BudgetExhausted         a limit does not leave room for what was asked; names the limit
    └── JournalError            the store can't be opened, or a run is not in it

A failing child is data (`ChildAnswer.error`), and so is a failing cell (`CellResult.status`).
An error that names a setting or a limit holds that name as data. `str(error)` spells it as Python does
(`limits.max_seconds`); the command line builds its own sentence from the same data (`--max-seconds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlm.results import TokenUsage

__all__ = [
    "AnswerCheckError",
    "BudgetExhausted",
    "ConfigurationError",
    "DocumentError",
    "JournalError",
    "ModelError",
    "ModelProtocolError",
    "ModelRejected",
    "ModelUnavailable",
    "RLMError",
    "UsageError",
    "cause_of",
]


class RLMError(Exception):
    """Base of every error that this package raises. The message is one line and ends in the remedy."""


class UsageError(RLMError):
    """The request is not valid as given.

    `option` is the setting at fault (`limits.max_rounds`), or None; `problem` says what is wrong with it. The
    message is `problem`, after the option's name where there is one.
    """

    def __init__(self, problem: str, *, option: str | None = None) -> None:
        super().__init__(problem if option is None else f"{option} {problem}")
        self.problem = problem
        self.option = option


class DocumentError(UsageError):
    """A source that is missing, unreadable, binary or empty."""


class ConfigurationError(UsageError):
    """A setting, a model's name or a missing key."""


class ModelError(RLMError):
    """A provider gave no answer. `spent` is what it charges for the attempt."""

    def __init__(self, message: str, *, spent: TokenUsage | None = None) -> None:
        super().__init__(message)
        self.spent = spent


class ModelUnavailable(ModelError):
    """Nothing listens at the address, or no answer came within all retries."""


class ModelRejected(ModelError):
    """The provider refused the request: its key, the model's name, the size, or by policy."""


class ModelProtocolError(ModelError):
    """The provider's reply is not what its protocol says."""


class AnswerCheckError(RLMError):
    """The caller's check of an answer (`RLM(check=…)`) raised, took too long, or returned no message."""


class BudgetExhausted(RLMError):
    """A limit of the run does not leave room for what was asked.

    `limit` is what ran out (`sub_calls`), and `cause` says how. `remedy_limit` is the field of `Limits` to
    raise (`max_calls`), or None where raising one does not help.
    """

    def __init__(self, limit: str, cause: str, *, remedy_limit: str | None = None) -> None:
        super().__init__(cause if remedy_limit is None else f"{cause}; raise limits.{remedy_limit}")
        self.limit = limit
        self.cause = cause
        self.remedy_limit = remedy_limit


class JournalError(RLMError):
    """The store can't be opened, or a run is not in it."""


def cause_of(error: Exception) -> str:
    """Return the error's message without the limit to raise, for a reader who cannot raise one."""
    return error.cause if isinstance(error, BudgetExhausted) else str(error)
