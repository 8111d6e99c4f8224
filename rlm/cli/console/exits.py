"""Exit codes, and what an exception is worth."""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path

from rlm.cli.console import interrupts
from rlm.cli.console.option_names import error_text
from rlm.cli.console.render_result import printable
from rlm.cli.console.streams import discard_stdout
from rlm.errors import ModelError, RLMError
from rlm.sandbox.errors import SandboxError, SandboxRefused

__all__ = ["Exit", "exit_for", "say"]


class Exit(IntEnum):
    """What `rlm` leaves with."""

    OK = 0
    NO_ANSWER = 1
    USAGE = 2
    REFUSED = 3
    MODEL = 4
    INTERRUPTED = interrupts.INTERRUPTED


def say(message: str) -> None:
    """One line on stderr."""
    print(f"rlm: {printable(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201


def exit_for(error: Exception) -> int:
    """Say what happened in one line and give the exit code. What is not ours goes on up."""
    from rlm.prompts import PromptError

    if isinstance(error, OSError):
        return _refused_by_the_machine(error)
    say_and_leave = (
        (SandboxRefused, Exit.REFUSED),
        (ModelError, Exit.MODEL),
        (SandboxError, Exit.NO_ANSWER),
        (RLMError, Exit.USAGE),
        (PromptError, Exit.USAGE),
    )
    for kind, code in say_and_leave:
        if isinstance(error, kind):
            say(error_text(error))
            return code
    raise error


def _refused_by_the_machine(error: OSError) -> int:
    if isinstance(error, FileNotFoundError) and not _current_folder_exists():
        say("the folder you are in is gone: change to one that exists, or give absolute paths")
        return Exit.USAGE
    reason = error.strerror or str(error)
    if error.filename is None:  # a stream's: stderr never raises, so it is stdout's
        say(f"the output can't be written: {reason}; make room, or send it elsewhere")
        discard_stdout()
    else:
        say(f"{error.filename}: {reason}; check its folder, its permissions and the room on its disk")
    return Exit.NO_ANSWER


def _current_folder_exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True
