"""`rlm skill`: the file that tells a coding agent when and how to use rlm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlm.cli.console.exits import say
from rlm.errors import UsageError

__all__ = ["skill"]

_FOLDER = "rlm"
_FILE = "SKILL.md"
_FIRST = "---\nname: rlm\n"


def skill(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write DIR/rlm/SKILL.md instead of printing.", show_default=False),
    ] = None,
) -> None:
    """Print the skill file for coding agents: when to use rlm, its commands, its exit codes.

    \b
    Examples:
      rlm skill
      rlm skill --out ~/.claude/skills
      rlm skill --out .agents/skills
    """
    text = Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
    if out is None:
        typer.echo(text, nl=False)
        return
    target = out.expanduser() / _FOLDER / _FILE
    if target.exists() and not target.read_text(encoding="utf-8", errors="replace").startswith(_FIRST):
        raise UsageError(f"{target} is another file: remove it, or choose another --out")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    say(f"wrote {target}")
