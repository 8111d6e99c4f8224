"""Record a run as a picture of a terminal: docs/run.svg, which README shows. `make docs` runs this.

The command runs on a real terminal (a pseudo-terminal), in a scratch folder with the examples. rich draws
what it printed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from blocks import ROOT, environment, scratch
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

__all__ = ["main"]

COLUMNS, ROWS = 118, 40
COMMAND = ["rlm", "Which customer had a failed charge, and why?", "examples/server.log"]
PICTURE = ROOT / "docs" / "run.svg"
_CONTROL = re.compile(r"\x1b\[\??[\d;]*[A-HJKSTfhl]|\x1b[78=>]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def on_a_terminal(command: list[str], work: Path) -> str:
    """Return what `command` prints on a terminal of its own, with colours. Raises CalledProcessError."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    settings = {**environment(work.parent), "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    settings.pop("NO_COLOR")
    process = subprocess.Popen(command, cwd=work, env=settings, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # a terminal whose other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    if code := process.wait():
        raise subprocess.CalledProcessError(code, command)
    return b"".join(pieces).decode()


def final_screen(printed: str) -> str:
    """Return what is left on the screen: lines that were drawn again are erased, as by the terminal."""
    lines: list[str] = [""]
    row = 0
    for part in re.split(r"(\r\n|\n|\r|\x1b\[\d*A|\x1b\[\d*K)", printed):
        if part in ("\n", "\r\n"):
            row += 1
            if row == len(lines):
                lines.append("")
        elif up := re.fullmatch(r"\x1b\[(\d*)A", part):
            row = max(0, row - int(up[1] or 1))
        elif re.fullmatch(r"\x1b\[\d*K", part):
            lines[row] = ""
        elif part != "\r":
            text = _CONTROL.sub("", part)
            lines[row] = lines[row] + text if lines[row] and text else lines[row] or text
    return "\n".join(lines).rstrip()


def main() -> None:
    """Run the command, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        shown = final_screen(on_a_terminal(COMMAND, scratch(Path(folder))))
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    question = f'"{COMMAND[1]}"'
    console.print(Text.assemble(("$ ", "bold green"), f"rlm {question} {COMMAND[2]}", style="bold"))
    console.print(Text.from_ansi(shown))
    svg = console.export_svg(title="rlm", theme=MONOKAI, unique_id="run")
    # No font is fetched: the reader's own monospace will do.
    svg = re.sub(r"@font-face\s*\{.*?\}\s*", "", svg, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas"
    )
    PICTURE.write_text(svg, encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
