"""Opens the source of a citation in the user's editor or pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm.errors import UsageError
from rlm.escaping import terminal_line
from rlm.results import Citation, RunResult

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["check_terminal", "choose_citation", "open_citation", "open_source", "viewer_command"]

_PLUS_LINE = frozenset(
    {"emacs", "emacsclient", "joe", "kak", "less", "micro", "more", "most", "nano", "nvim"}
)
_PLUS_LINE |= {"pico", "vi", "view", "vim", "vimdiff"}
"""Programs that take `+12 FILE`."""
_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
"""Programs that take `--goto FILE:12`."""
_COLON = frozenset({"hx", "subl", "zed"})
"""Programs that take `FILE:12`."""


def open_source(events: Sequence[JournalEvent], number: int | None) -> None:
    """Open a source of a run's answer: that number, or the first. `events` are those of the run. Raises
    UsageError."""
    check_terminal()
    ended = [one for one in events if one.kind == "finished" and not one.data.get("within")]
    if not ended:
        raise UsageError("the run has no answer yet, so there is no source to open")
    citation = choose_citation(RunResult.from_json(ended[-1].data).citations, number)
    open_citation(citation, events[0].data["settings"].get("sources", ()), os.environ)


def check_terminal() -> None:
    """Raise UsageError if there is no terminal to show a source in."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--open needs a terminal: the program that shows the source runs in it")


def choose_citation(citations: Sequence[Citation], number: int | None) -> Citation:
    """Return the citation with this number, or the first that was found in a document. Raises UsageError."""
    if number is not None:
        if not 1 <= number <= len(citations):
            raise UsageError(f"there is no source {number}: the answer has {len(citations)}")
        return citations[number - 1]
    for one in citations:
        if one.verified and one.document is not None:
            return one
    raise UsageError("there is no source to open: the answer has no citation of a document")


def open_citation(citation: Citation, sources: Sequence[Mapping[str, Any]], env: Mapping[str, str]) -> None:
    """Open the document of a citation at its line, and wait for the program to end. `sources` are those of
    the run, as its journal has them.

    Raises UsageError if the document is no file of this machine, or the program fails.
    """
    file = _find_file(citation.document, sources)
    if file is None:
        name = terminal_line(citation.document or "the input")
        raise UsageError(
            f"{name} cannot be opened: it is no file of this machine, or lies within another one"
        )
    # A page, a cell or a slide has no line that an editor could go to.
    is_text = citation.page is None and citation.part is None and citation.cell_place is None
    command = viewer_command(file, citation.line if is_text else None, env)
    try:
        done = subprocess.run(command, check=False)
    except OSError as error:
        raise UsageError(
            f"cannot start {terminal_line(command[0])}: {error.strerror}; set VISUAL, EDITOR or PAGER"
        ) from error
    if done.returncode:
        raise UsageError(f"{terminal_line(command[0])} exited with code {done.returncode}")


def viewer_command(file: Path, line: int | None, env: Mapping[str, str]) -> list[str]:
    """Return the command that shows an absolute `file` at a line: `$VISUAL`, `$EDITOR`, `$PAGER`, or less. No
    shell reads it, and an absolute path is no option. Raises UsageError if none is there."""
    chosen = next((env[name] for name in ("VISUAL", "EDITOR", "PAGER") if env.get(name, "").strip()), "less")
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        raise UsageError(f"VISUAL, EDITOR or PAGER is no command ({error}): correct it") from None
    if shutil.which(words[0], path=env.get("PATH")) is None:
        raise UsageError(f"cannot find {terminal_line(words[0])}: set VISUAL, EDITOR or PAGER")
    program, path = Path(words[0]).name, os.fspath(file)
    if line is None:
        return [*words, path]
    if program in _PLUS_LINE:
        return [*words, f"+{line}", path]
    if program in _GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if program in _COLON:
        return [*words, f"{path}:{line}"]
    return [*words, path]


def _find_file(document: str | None, sources: Sequence[Mapping[str, Any]]) -> Path | None:
    """Return the existing file of a document. It lies within a source that the user named: no name of a
    document leads out of it."""
    if document is None or "\0" in document:
        return None
    for source in sources:
        if "path" not in source:
            continue
        top = Path(source["path"])
        candidates = [top] if top.name == document else [top / document, top.parent / document]
        for candidate in candidates:
            try:
                real = candidate.resolve(strict=True)
                if real.is_file() and real.is_relative_to(top.resolve()):
                    return real
            except OSError:
                continue
    return None
