"""The user's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rlm.errors import UsageError

__all__ = ["edit_text"]


def edit_text(text: str, name: str, env: Mapping[str, str]) -> str:
    """Return `text` as the user saves it in `$VISUAL` or `$EDITOR`. The file `name` is private to the user.

    Raises UsageError if no editor is set, or if it fails.
    """
    command = shlex.split(env.get("VISUAL") or env.get("EDITOR") or "")
    if not command:
        raise UsageError("no editor is set: give --content or --file, or set EDITOR")
    with tempfile.TemporaryDirectory(prefix="rlm-edit-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8", newline="")
        try:
            done = subprocess.run([*command, os.fspath(file)], check=False)
        except OSError as error:
            raise UsageError(f"cannot start the editor {command[0]}: {error.strerror}; set EDITOR") from error
        if done.returncode:
            raise UsageError(f"the editor exited with code {done.returncode}: nothing was saved")
        try:
            return file.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("the edited text is not UTF-8: nothing was saved; save it as UTF-8") from error
