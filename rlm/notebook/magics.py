"""The magics `%rlm` and `%%rlm`."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.error import UsageError as ShellUsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from rlm.errors import RLMError
from rlm.limits import Limits
from rlm.notebook.arguments import HELP, Asked, parse
from rlm.notebook.background import BackgroundRun
from rlm.notebook.progress import NotebookProgress
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.settings import Settings

__all__ = ["RLMMagics"]


@magics_class
class RLMMagics(Magics):
    """The magics of one shell."""

    @no_var_expand
    @line_cell_magic
    def rlm(self, line: str, cell: str | None = None) -> RunResult | None:
        if cell is None and line.strip() in ("", "--help", "-h"):
            print(HELP)  # noqa: T201 - where a magic shows its help
            return None
        shell: Any = self.shell
        try:
            asked = parse(line, cell, shell.user_ns)
            result = self._ask(asked, has_front_end=hasattr(shell, "kernel"))
        except RLMError as error:
            # A line, and no traceback: the user typed something that does not work.
            raise ShellUsageError(str(error)) from None
        if asked.output:
            shell.user_ns[asked.output] = result
        return result

    rlm.__doc__ = f"Ask a question of texts far larger than a model's window.\n\n{HELP}"

    def _ask(self, asked: Asked, *, has_front_end: bool) -> RunResult:
        running = BackgroundRun(_runtime(asked), asked)
        progress = NotebookProgress()
        # A terminal can't replace what it has shown: it gets the run's name, then the result.
        show = progress if has_front_end else _say_start
        try:
            return running.wait(show, progress.update if has_front_end else None)
        except KeyboardInterrupt:
            name = running.run_id
            paid = f". What it paid for is kept: await RLM(…).resume({name!r})" if name else ""
            if has_front_end:
                progress.end("interrupted")
            # An error, so that the cells below do not run.
            raise ShellUsageError(f"interrupted{paid}") from None


def _runtime(asked: Asked) -> RLM:
    given: dict[str, Any] = {"strategy": asked.strategy, "sandbox": _level(asked.sandbox)}
    bounds: dict[str, Any] = {"cost_usd": asked.max_cost, "seconds": asked.max_seconds}
    return RLM(
        asked.model,
        sub_model=asked.sub_model,
        settings=Settings(**{name: one for name, one in given.items() if one is not None}),
        limits=Limits(**{name: one for name, one in bounds.items() if one is not None}),
    )


def _level(given: str | None) -> int | str | None:
    return int(given) if given is not None and given.isdecimal() else given


def _say_start(event: Any) -> None:
    name = getattr(event, "run_id", "")
    if name:
        print(f"run {name}", file=sys.stderr)  # noqa: T201
