"""The user's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rlm.errors import UsageError

__all__ = ["edited"]


def edited(text: str, name: str, env: Mapping[str, str]) -> str:
    """`text` as the user leaves it in `$VISUAL` or `$EDITOR`, in a file of that name only they can read.

    Raises UsageError when there is no editor, or it fails: then nothing is to be saved.
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
            raise UsageError(
                f"the editor {command[0]} can't be started: {error.strerror}; set EDITOR"
            ) from error
        if done.returncode:
            raise UsageError(f"the editor left with code {done.returncode}: nothing was saved")
        try:
            return file.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("the edited text is not UTF-8: nothing was saved") from error
