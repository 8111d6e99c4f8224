"""Run the `console` blocks of the pages again, and write what they print below their commands.

`make docs` runs this for docs/index.md, docs/howto and docs/guide. Blocks that are marked as not run stay as
they are, and so does an output that differs in names of runs and seconds only.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from blocks import ROOT, Block, blocks_of, run, scratch, stable

__all__ = ["main", "rewritten"]


def rewritten(page: Path, folder: Path) -> str:
    """Return the page with the outputs that its commands print in a scratch folder below `folder`."""
    work = scratch(folder)
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    made: list[tuple[Block, str]] = []
    for block in blocks_of(page):
        text = ""
        for command in () if block.reason else block.commands:
            done = run(command, work)
            if done.returncode:
                raise SystemExit(f"{block.place}: {command.script}\n{done.stdout}")
            claimed, printed = command.output or "", _tidy(done.stdout)
            same = [stable(line) for line in claimed.splitlines()] == [
                stable(line) for line in printed.splitlines()
            ]
            text += f"$ {command.script}\n{claimed if same else printed}"
        if block.language == "console" and not block.reason:
            made.append((block, text))
    for block, text in reversed(made):
        lines[block.line : block.line + block.text.count("\n")] = [text]
    return "".join(lines)


def _tidy(printed: str) -> str:
    """Return the output without white space at line ends."""
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def main() -> None:
    """Rewrite the pages."""
    docs = ROOT / "docs"
    for page in [docs / "index.md", *sorted(docs.glob("howto/*.md")), *sorted(docs.glob("guide/*.md"))]:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(rewritten(page, Path(folder)), encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
