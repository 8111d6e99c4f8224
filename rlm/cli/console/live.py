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

from rlm.cli.console.render_result import highlight
from rlm.cli.console.streams import unfiltered
from rlm.escaping import terminal_answer

__all__ = ["LiveLine"]


_SHORT = 120
"""Seconds that are shown as seconds."""
_DRAFT_LINES = 12
_DRAFT_CHARS = 4_000
_OTHER_LINES = 4
"""Lines of the terminal that a draft leaves to the live line and to what was printed before."""


class LiveLine:
    """Shows `text` until it is closed, then `facts` and the time since the start. `ends_at` (monotonic clock)
    is when the work will probably end, `limit_at` when it will be ended.
    Above it, shows the last lines of `draft`, which is text of a model as it came.

    All may be set at any time. The line wraps between words at the current width of the terminal.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.draft = ""
        self.facts = ""
        self.ends_at: float | None = None
        self.limit_at: float | None = None
        self._began = time.monotonic()
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

    def print_code(self, code: str) -> None:
        """Print Python code above the live line, indented. It must have passed `terminal_text`."""
        for line in highlight(code):
            self._console.print("    ", line, sep="", soft_wrap=True)

    def close(self) -> None:
        """Remove the line."""
        self._live.stop()

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        yield from self._draft_lines(console)
        frame = self._spinner.render(console.get_time())
        assert isinstance(frame, Text)
        facts = " · ".join(one for one in (self.facts, self._time()) if one)
        yield Text.assemble(frame, " ", self.text, (f" · {facts}", "dim"))

    def _draft_lines(self, console: Console) -> Iterator[Text]:
        draft = terminal_answer(self.draft[-_DRAFT_CHARS:], markdown=False).strip()
        if draft:
            room = max(1, min(_DRAFT_LINES, console.height - _OTHER_LINES))
            yield Text("being written, not checked yet:", style="dim italic")
            yield from Text(draft, style="dim").wrap(console, console.width)[-room:]

    def _time(self) -> str:
        """Return the time since the start, and the time that is left if that is known or short."""
        now = time.monotonic()
        passed = _duration(now - self._began)
        if self.ends_at is not None:
            return f"{passed}, about {_duration(self.ends_at - now)} left"
        if self.limit_at is not None and self.limit_at - now < _SHORT:
            return f"{passed}, {_duration(self.limit_at - now)} to the limit"
        return passed


def _duration(seconds: float) -> str:
    """Return `12 s` or `3 min`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < _SHORT else f"{whole // 60} min"
