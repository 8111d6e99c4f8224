"""The command line: `rlm`. Each command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

from rlm.cli.app import main

__all__ = ["main"]
