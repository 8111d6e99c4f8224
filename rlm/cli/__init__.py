"""The command line: `rlm`. Each command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import gc
import sys

from rlm.cli.console.interrupts import INTERRUPTED, leave_at_once_on_interrupt, outlast_interrupts_at_exit
from rlm.cli.console.streams import prepare_streams

__all__ = ["COLLECT_AT", "main"]

COLLECT_AT = (10_000, 20, 20)
"""Thresholds of the garbage collector. A run makes many objects and next to no cycles of them: with Python's
own (700, 10, 10), looking for cycles takes one part in twenty-five of a large batch's time."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(*COLLECT_AT)
    outlast_interrupts_at_exit()
    prepare_streams()
    try:
        # In here, for it takes long enough to be interrupted.
        from rlm.cli.app import run

        code = run()
        leave_at_once_on_interrupt()
    except KeyboardInterrupt:
        leave_at_once_on_interrupt()
        print("rlm: interrupted", file=sys.stderr)  # noqa: T201
        code = INTERRUPTED
    sys.exit(code)
