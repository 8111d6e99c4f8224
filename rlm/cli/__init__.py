"""The command line `rlm`. Each command imports what it needs when it runs, so that help is fast."""

from __future__ import annotations

import gc
import sys

from rlm.cli.console.interrupts import INTERRUPTED, leave_at_once_on_interrupt, outlast_interrupts_at_exit
from rlm.cli.console.streams import prepare_streams
from rlm.cli.memory import hide_process_memory

__all__ = ["COLLECT_AT", "main"]

COLLECT_AT = (10_000, 20, 20)
"""Thresholds of the garbage collector. A run makes many objects and hardly any cycles. With Python's own
thresholds (700, 10, 10) the search for cycles takes 4 % of a large batch's time."""


def main() -> None:
    """Run the command line and exit with its code."""
    hide_process_memory()
    gc.set_threshold(*COLLECT_AT)
    outlast_interrupts_at_exit()
    prepare_streams()
    try:
        # Imported inside `try`, because the import takes long enough to be interrupted.
        from rlm.cli.app import run

        code = run()
        leave_at_once_on_interrupt()
    except KeyboardInterrupt:
        leave_at_once_on_interrupt()
        print("rlm: interrupted", file=sys.stderr)  # noqa: T201
        code = INTERRUPTED
    sys.exit(code)
