"""The base of all progress displays: a live line in a terminal, plain lines elsewhere. Writes to stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rlm.escaping import terminal_line, terminal_text

if TYPE_CHECKING:
    from rlm import events
    from rlm.cli.console.live import LiveLine

__all__ = ["ProgressDisplay"]

_MAX_LINES, _FIRST_LINES = 40, 30
"""Lines of a block that are shown, and how many of these are its first."""


class ProgressDisplay:
    """Shows progress within a `with` block. `quiet` leaves alerts only.

    `text` is the live line at the start. Where there is no terminal, `show_line` prints at most every
    `interval` seconds.
    """

    def __init__(self, text: str, *, quiet: bool, interval: float = 5.0) -> None:
        self._text = text
        self._quiet = quiet
        self._interval = interval
        self._live: LiveLine | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rlm.cli.console.live import LiveLine

            self._live = LiveLine(self._text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_live(self) -> bool:
        """Return whether there is a live line."""
        return self._live is not None

    @property
    def can_show_drafts(self) -> bool:
        """Return whether a person sees the drafts, and the answer after them, in one terminal."""
        return self.is_live and sys.stdout.isatty()

    def close(self) -> None:
        """Remove the live line. Safe to call twice."""
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def note(self, text: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            self._print(text, "dim")

    def show_block(self, text: str, *, is_code: bool = False) -> None:
        """Print lines that stay, indented: at most 40, the first and the last. Code is in colours in a
        terminal."""
        if self._quiet or not text.strip():
            return
        lines = text.strip("\n").expandtabs(4).split("\n")
        hidden = len(lines) - _MAX_LINES + 1
        if hidden > 1:
            lines[_FIRST_LINES : _FIRST_LINES + hidden] = [f"… {hidden:,} lines …"]
        if is_code and self._live is not None:
            self._live.print_code("\n".join(map(terminal_text, lines)))
            return
        for line in lines:
            self._print(f"    {line}", "")

    def alert_isolation(self, event: events.KernelOpened) -> None:
        """Warn of a kernel below level 2, even if `quiet`. The line stays."""
        if event.level < 2:
            strength = "NO ISOLATION" if event.level == 0 else "PARTIAL ISOLATION"
            self._print(f"{strength} (level {event.level}): {event.missing or 'as requested'}", "bold red")

    def show_activity(self, text: str, facts: str = "") -> bool:
        """Put the current activity and figures on the live line. Return False where there is none."""
        if self._live is None:
            return False
        self._live.text, self._live.facts = terminal_line(text), terminal_line(facts)
        return True

    def show_line(self, text: str) -> bool:
        """Print a line if `interval` is over. Return whether it was printed."""
        now = time.monotonic()
        if self._quiet or now - self._last_line <= self._interval:
            return False
        self._last_line = now
        self._print(text, "dim")
        return True

    def show_progress(self, text: str) -> None:
        """Put a figure on the live line; elsewhere, as `show_line`."""
        if not self.show_activity(text):
            self.show_line(text)

    def show_draft(self, text: str) -> None:
        """Show the text that a model is writing above the live line. Prints nothing elsewhere."""
        if self._live is not None:
            self._live.draft = text

    def end_at(self, moment: float) -> None:
        """Count the seconds down to `moment` (monotonic clock) on the live line."""
        if self._live is not None:
            self._live.ends_at = moment

    def limit_at(self, moment: float) -> None:
        """Count the last two minutes down to the time limit (monotonic clock) on the live line."""
        if self._live is not None:
            self._live.limit_at = moment

    def _print(self, text: str, style: str) -> None:
        if self._live is not None:
            self._live.print(terminal_line(text), style)
        else:
            print(terminal_line(text), file=sys.stderr, flush=True)  # noqa: T201
