"""The live line at the bottom of a terminal: the current activity and the time left. Above it stands the text
that a model is writing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from rlm.cli.console.streams import unfiltered
from rlm.escaping import terminal_answer

__all__ = ["LiveLine"]


_DRAFT_LINES = 12
_DRAFT_CHARS = 4_000
_OTHER_LINES = 4
"""Lines of the terminal that a draft leaves to the live line and to what was printed before."""


class LiveLine:
    """Shows `text` until it is closed, and the time left until `ends_at` (monotonic clock) if that is set.
    Above it, shows the last lines of `draft`, which is text of a model as it came.

    All may be set at any time. The line wraps between words at the current width of the terminal.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.draft = ""
        self.ends_at: float | None = None
        self._console = Console(file=unfiltered(sys.stderr))
        self._spinner = Spinner("dots")
        self._live = Live(
            self,
            console=self._console,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def print(self, text: str, style: str) -> None:
        """Print a line above the live line."""
        self._console.print(Text(text, style=style))

    def close(self) -> None:
        """Remove the line."""
        self._live.stop()

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        yield from self._draft_lines(console)
        frame = self._spinner.render(console.get_time())
        assert isinstance(frame, Text)
        yield Text.assemble(frame, " ", self.text, self._left())

    def _draft_lines(self, console: Console) -> Iterator[Text]:
        draft = terminal_answer(self.draft[-_DRAFT_CHARS:]).strip()
        if draft:
            room = max(1, min(_DRAFT_LINES, console.height - _OTHER_LINES))
            yield Text("being written, not checked yet:", style="dim italic")
            yield from Text(draft, style="dim").wrap(console, console.width)[-room:]

    def _left(self) -> str:
        if self.ends_at is None:
            return ""
        seconds = max(0, round(self.ends_at - time.monotonic()))
        return f", {seconds} s left" if seconds < 120 else f", {seconds // 60} min left"
