"""Exit codes, and what an exception is worth."""

from __future__ import annotations

import sys
from enum import IntEnum

from rlm.errors import ModelError, RLMError
from sandbox.errors import SandboxError, SandboxRefused

__all__ = ["Exit", "exit_for", "say"]


class Exit(IntEnum):
    """What `rlm` leaves with."""

    OK = 0
    NO_ANSWER = 1
    USAGE = 2
    REFUSED = 3
    MODEL = 4
    INTERRUPTED = 130


def say(message: str) -> None:
    """One line on stderr."""
    print(f"rlm: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201


def exit_for(error: Exception) -> int:
    """Say what happened in one line and give the exit code. What is not ours goes on up."""
    from prompts import PromptError

    if isinstance(error, SandboxRefused):
        say(str(error))
        return Exit.REFUSED
    if isinstance(error, ModelError):
        say(str(error))
        return Exit.MODEL
    if isinstance(error, SandboxError):
        say(str(error))
        return Exit.NO_ANSWER
    if isinstance(error, RLMError | PromptError):
        say(str(error))
        return Exit.USAGE
    raise error
