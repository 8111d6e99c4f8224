"""Level 1 runs model-written code only for those who said so: once, in a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.console.exits import say

if TYPE_CHECKING:
    from rlm.sandbox.isolation.probe import Probed

__all__ = ["SandboxOption", "allowed_level", "consent_file", "remembered"]

SandboxOption = Annotated[
    Literal["auto", "0", "1", "2", "3"],
    typer.Option(envvar="RLM_SANDBOX", help="Isolation: auto takes the strongest, 0 is none at all."),
]


def consent_file(env: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/rlm/sandbox.json`, else under `~/.config`."""
    config = Path(env.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        config = Path(env.get("HOME") or Path.home()) / ".config"
    return config / "rlm" / "sandbox.json"


def allowed_level(option: SandboxOption, *, model_written: bool = True) -> int | Literal["auto"]:
    """The level for a run. Where `auto` would be refused and level 1 is to be had, it is asked for on a
    terminal, once; a yes is remembered. Nothing is probed where nobody can be or was asked."""
    if option != "auto":
        return int(option)
    path = consent_file(os.environ)
    if not model_written or not (path.exists() or _on_terminal()):
        return "auto"
    from rlm.sandbox.isolation.probe import probe_until_safe

    tried = probe_until_safe()
    if max((probed.candidate.level for probed in tried if probed.holds), default=0) != 1:
        return "auto"
    if remembered(path):
        return 1
    return 1 if _on_terminal() and _asked(tried, path) else "auto"


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def remembered(path: Path) -> bool:
    """Whether a yes to level 1 stands in the file."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")) == {"level": 1})
    except (OSError, ValueError):
        return False


def _asked(tried: list[Probed], path: Path) -> bool:
    from rlm.sandbox.isolation.advice import advice, explain_missing

    missing: dict[str, str] = {}
    for probed in tried:
        for layer, reason in probed.failed.items():
            if layer != "cgroup":
                missing.setdefault(layer, reason)
    missing = explain_missing(missing)
    reasons = "; ".join(f"{layer}: {reason}" for layer, reason in missing.items())
    typer.echo(
        f"This machine gives no full isolation ({reasons}).\n"
        f"To get it: {advice(missing)}\n"
        "At level 1 model-written code reads no file of yours and reaches no network, but it shares the "
        "machine's processes and memory with you.",
        err=True,
    )
    if not typer.confirm("Run model-written code at level 1 from now on?", default=False, err=True):
        return False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text('{"level": 1}\n', encoding="utf-8")
    except OSError as error:
        say(f"this could not be remembered in {path}: {error.strerror}")
    else:
        typer.echo(f"Remembered in {path}; remove that file to be asked again.", err=True)
    return True
