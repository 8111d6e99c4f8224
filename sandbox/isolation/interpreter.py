"""Where this interpreter and its packages live: what a kernel must be able to read to run at all."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["interpreter_paths"]


def interpreter_paths() -> list[str]:
    """Folders beyond those that every root holds."""
    prefixes = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    return sorted(prefix for prefix in prefixes if prefix != "/usr" and not prefix.startswith("/usr/"))
