"""Consent to isolation level 1: model-written code runs there only after the user agreed in a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from rlm.cli.console.exits import say

if TYPE_CHECKING:
    from rlm.sandbox.launch.probe import Probed

__all__ = ["allowed_level", "consent_file", "has_consent"]


def consent_file(env: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/rlm/sandbox.json`, or the same under `~/.config`."""
    from rlm.config_file.settings_file import user_config_folder

    return user_config_folder(env) / "sandbox.json"


def allowed_level(option: str, *, model_written: bool = True) -> int | Literal["auto"]:
    """Return the level of a run.

    Where `auto` would be refused but level 1 works, the user is asked once in a terminal, and a yes is
    stored. Without a terminal and without a stored yes nothing is probed.
    """
    if option != "auto":
        return int(option)
    path = consent_file(os.environ)
    if not model_written or not (path.exists() or _on_terminal()):
        return "auto"
    from rlm.sandbox.launch.probe import probe_until_safe

    tried = probe_until_safe()
    if max((probed.candidate.level for probed in tried if probed.holds), default=0) != 1:
        return "auto"
    if has_consent(path):
        return 1
    return 1 if _on_terminal() and _ask_consent(tried, path) else "auto"


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def has_consent(path: Path) -> bool:
    """Return whether the file holds a yes to level 1."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")) == {"level": 1})
    except (OSError, ValueError, RecursionError):
        return False


def _ask_consent(tried: list[Probed], path: Path) -> bool:
    from rlm.sandbox.isolation.advice import advice, explain_missing

    missing: dict[str, str] = {}
    for probed in tried:
        for layer, reason in probed.failed.items():
            if layer != "cgroup":
                missing.setdefault(layer, reason)
    missing = explain_missing(missing)
    reasons = "; ".join(f"{layer}: {reason}" for layer, reason in missing.items())
    typer.echo(
        f"Full isolation does not work on this machine ({reasons}).\n"
        f"To get it: {advice(missing)}\n"
        "At level 1 model-written code can read none of your files and cannot reach the network. "
        "It can see your processes and shares the machine's memory with you.",
        err=True,
    )
    if not typer.confirm("Run model-written code at level 1 from now on?", default=False, err=True):
        return False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text('{"level": 1}\n', encoding="utf-8")
    except OSError as error:
        say(f"cannot store your answer in {path}: {error.strerror}; you will be asked again")
    else:
        typer.echo(f"Stored your answer in {path}. Remove that file to be asked again.", err=True)
    return True
