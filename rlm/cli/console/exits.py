"""Exit codes, and the exit code of each error."""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path

from rlm.cli.console import interrupts
from rlm.cli.console.streams import StdoutFailed, discard_stdout
from rlm.errors import BudgetExhausted, ModelError, RLMError, UsageError
from rlm.escaping import terminal_text
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.settings_table import SETTINGS

__all__ = ["Exit", "error_text", "exit_for", "option_of", "say"]


class Exit(IntEnum):
    """The exit codes of `rlm`."""

    OK = 0
    NO_ANSWER = 1
    USAGE = 2
    REFUSED = 3
    MODEL = 4
    INTERRUPTED = interrupts.INTERRUPTED


def say(message: str) -> None:
    """Print one line on stderr."""
    print(f"rlm: {terminal_text(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201


def exit_for(error: Exception) -> int:
    """Report `error` in one line and return the exit code. Raises `error` if it is not one of ours."""
    from rlm.prompts import PromptError

    if isinstance(error, OSError):
        return _exit_for_os_error(error)
    codes = (
        (SandboxRefused, Exit.REFUSED),
        (ModelError, Exit.MODEL),
        (SandboxError, Exit.NO_ANSWER),
        (RLMError, Exit.USAGE),
        (PromptError, Exit.USAGE),
    )
    for kind, code in codes:
        if isinstance(error, kind):
            say(error_text(error))
            return code
    raise error


def _exit_for_os_error(error: OSError) -> int:
    if isinstance(error, FileNotFoundError) and not _current_folder_exists():
        say("the current folder does not exist: change to one that does, or give absolute paths")
        return Exit.USAGE
    reason = error.strerror or str(error)
    if error.filename is not None:
        say(f"{error.filename}: {reason}; check its folder, its permissions and the free space on its disk")
    elif isinstance(error, StdoutFailed) or _stdout_fails():
        say(f"cannot write the output: {reason}; free some space, or redirect it")
        discard_stdout()
    else:
        say(f"the system refused: {reason} ({type(error).__name__})")
    return Exit.NO_ANSWER


def _stdout_fails() -> bool:
    """Return whether stdout cannot be written: Typer writes to it with a stream of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _current_folder_exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


_LIMITS = "limits."


def option_of(limit: str) -> str:
    """Return the option that sets a field of Limits, or its name in Python if it has none."""
    return SETTINGS[limit].flag if limit in SETTINGS else f"{_LIMITS}{limit}"


def error_text(error: Exception) -> str:
    """Return the error's message with its setting or limit spelled as an option."""
    if isinstance(error, BudgetExhausted) and error.remedy_limit is not None:
        return f"{error.cause}; raise {option_of(error.remedy_limit)}"
    if isinstance(error, UsageError) and error.option is not None:
        return f"{option_of(error.option.removeprefix(_LIMITS))} {error.problem}"
    return str(error)
