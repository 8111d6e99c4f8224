"""Find the code blocks of the pages, and run those of a shell in a scratch folder.

A comment `<!-- not run: REASON -->` on the line above a block leaves it out. In a `console` block the lines
that begin with `$ ` are commands, and what follows each of them is its output. An output line `…` stands for
any lines.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ROOT",
    "Block",
    "Command",
    "all_pages",
    "blocks_of",
    "environment",
    "missing_lines",
    "run",
    "scratch",
    "stable",
]

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests" / "docs" / "files"
"""Files that stand for the reader's own: contract.txt, server.log, offers/ …"""
SHELLS = ("sh", "bash", "console")
_MARK = re.compile(r"<!-- not run: (\S.*?) -->")
_FENCE = re.compile(r"(`{3,})([^`]*)")
_SECONDS_TAKEN = re.compile(r"\d[\d.]* (?:s\b|tasks a second)")
_RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9]{6}")
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is that of its fence, from 1. `reason` says why it is not run, or is None."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return the commands of a shell block: one for `sh`, one for each `$ ` of a `console` block."""
        if self.language not in SHELLS:
            return ()
        if self.language != "console":
            return (Command(self.text, None),)
        commands: list[Command] = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            script, _, output = part.partition("\n")
            while script.endswith("\\"):
                more, _, output = output.partition("\n")
                script = f"{script}\n{more}"
            commands.append(Command(script, output))
        return tuple(commands)


@dataclass(frozen=True, slots=True)
class Command:
    """A script, and the output that the page claims; None if it claims none."""

    script: str
    output: str | None


def all_pages() -> list[Path]:
    """Return README, CONTRIBUTING and every page of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of `page`, in their order."""
    above, start = "", 0
    language, lines, fence = "", [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence:
            if line == fence:
                mark = _MARK.fullmatch(above)
                text = "".join(f"{each}\n" for each in lines)
                yield Block(page, start, language, text, mark[1] if mark else None)
                fence, above = "", ""
            else:
                lines.append(line)
        elif opened := _FENCE.fullmatch(line):
            fence, start, language, lines = opened[1], number, opened[2].strip(), []
        elif line.strip():
            above = line.strip()


def scratch(folder: Path) -> Path:
    """Make `folder/work`, in which the blocks of a page run: a git repository with the examples and the
    stand-ins for the reader's files.
    """
    work = folder / "work"
    shutil.copytree(STAND_INS, work)
    shutil.copytree(ROOT / "examples", work / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    _write_tables(work)
    git = ["git", "-c", "user.name=Mira", "-c", "user.email=mira@example.org"]
    for step in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-q", "-m", "We keep the limit of 25 MB for uploads"],
    ):
        subprocess.run([*git, *step], cwd=work, check=True, env=environment(folder))
    return work


def _write_tables(work: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.title = "Q1"
    for row in (("region", "month", "amount"), ("North", "2026-03", 1250), ("South", "2026-03", 980)):
        sheet.append(row)
    book.save(work / "sales.xlsx")
    with sqlite3.connect(work / "app.sqlite") as database:
        database.execute("create table users (name text, signed_up text)")
        database.executemany("insert into users values (?, ?)", [("Ana", "2024-02-03"), ("Bo", "2025-01-09")])
    database.close()
    (work / "books").mkdir()
    (work / "books" / "invoices.csv").write_text("invoice,state\n4711,overdue\n4712,paid\n", encoding="utf-8")


def environment(folder: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment without keys, with a home of its own below `folder` and our `rlm` on the PATH."""
    kept = {name: base[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR", "RLM_SANDBOX") if name in base}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    programs = Path(sys.executable).parent
    return {
        **kept,
        "PATH": f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "HOME": str(home),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(command: Command, work: Path) -> subprocess.CompletedProcess[str]:
    """Run `command` in `work`. Its stderr is part of its stdout, as on a terminal."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.script],
        cwd=work,
        env=environment(work.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def missing_lines(claimed: str, printed: str) -> list[str]:
    """Return the lines of `claimed` that `printed` lacks, or has in another order.

    Names of runs, seconds and white space may differ, and a line may end with `…`.
    """
    found = [stable(line) for line in printed.splitlines()]
    place = 0
    missing = []
    for line in claimed.splitlines():
        wanted, rest = stable(line.removesuffix("…")), found[place:]
        if not wanted:
            continue
        hits = [
            n
            for n, one in enumerate(rest)
            if one == wanted or (line.endswith("…") and one.startswith(wanted))
        ]
        if hits:
            place += hits[0] + 1
        else:
            missing.append(line)
    return missing


def stable(line: str) -> str:
    """Return the line with one space for white space, and without names of runs and seconds."""
    return " ".join(_SECONDS_TAKEN.sub("N s", _RUN_ID.sub("RUN", line)).split())
