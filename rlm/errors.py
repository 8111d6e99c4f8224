"""What a run, or the wish for one, can fail with.

    RLMError
    ├── UsageError              the request can't be carried out as given: what, and the remedy
    │   ├── DocumentError       a path that is missing, unreadable, binary or empty
    │   └── ConfigurationError  a setting, a model's name or a missing key
    ├── ModelError              a provider could not be made to answer
    │   ├── ModelUnavailable    nothing listens, or no answer within all retries
    │   ├── ModelRejected       the provider refused the request (key, name, size, policy)
    │   └── ModelProtocolError  the provider's reply is not what its protocol says
    ├── BudgetExhausted         a limit does not leave room for what was asked; names the limit
    └── JournalError            the store can't be opened, or a run is not in it

A failing child is data (`ChildAnswer.error`), a failing cell too (`CellResult.status`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlm.results import TokenUsage

__all__ = [
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
]


class RLMError(Exception):
    """Base of everything this package raises on purpose. The message is one line and ends in the remedy."""


class UsageError(RLMError):
    """The request can't be carried out as given."""


class DocumentError(UsageError):
    """A source that is missing, unreadable, binary or empty."""


class ConfigurationError(UsageError):
    """A setting, a model's name or a missing key."""


class ModelError(RLMError):
    """A provider could not be made to answer. `spent` is what it will charge all the same."""

    def __init__(self, message: str, *, spent: TokenUsage | None = None) -> None:
        super().__init__(message)
        self.spent = spent


class ModelUnavailable(ModelError):
    """Nothing listens at the address, or no answer came within all retries."""


class ModelRejected(ModelError):
    """The provider refused the request: its key, the model's name, the size, or by policy."""


class ModelProtocolError(ModelError):
    """The provider's reply is not what its protocol says."""


class BudgetExhausted(RLMError):
    """A limit of the run does not leave room for what was asked.

    `limit` is the name of the field of `Limits` that ran out.
    """

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class JournalError(RLMError):
    """The store can't be opened, or a run is not in it."""
