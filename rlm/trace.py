"""The events of runs as lines of JSON in a file, as they happen."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from rlm.errors import ConfigurationError
from rlm.events import Event, RunFinished
from rlm.journal.redaction import secrets_of

__all__ = ["TraceFile"]


class TraceFile:
    """An observer: `RLM(observe=TraceFile(path).on_event)`. One object a line: `at` (seconds since 1970),
    `event` (its name) and the event's own fields. Nobody but the owner may read the file: code that a model
    wrote stands in it. Values of the environment that look like secrets are blanked. Raises
    ConfigurationError if it can't be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.touch(mode=0o600)
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"the trace {path} can't be written: {error.strerror}; name another file"
            ) from None
        # It stands beside the database library, which takes a third of a second to import.
        from rlm.journal.redaction import Redaction

        self._redaction = Redaction()
        self._redaction.add(secrets_of(os.environ))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def on_event(self, event: Event) -> None:
        """Write one event, and have it in the file at once: whoever follows the file sees it."""
        fields = event.result.to_json() if isinstance(event, RunFinished) else asdict(event)
        line = {"at": round(time.time(), 3), "event": type(event).__name__, **fields}
        self._file.write(json.dumps(self._redaction.blank(line), ensure_ascii=True) + "\n")
        self._file.flush()
