"""Write the events of runs to a file as they happen, as lines of JSON."""

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
from rlm.journal.redaction import Redaction, secrets_of
from rlm.store_file import leads_out

__all__ = ["TraceFile"]


class TraceFile:
    """An observer: `RLM(observe=TraceFile(path).on_event)`.

    Each line is an object with `at` (seconds since 1970), `event` (its name) and the event's own fields. The
    events contain code that a model wrote, so only the owner may read the file. Values of environment
    variables that look like secrets are blanked. Raises ConfigurationError if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if leads_out(path):
            raise ConfigurationError(
                f"the trace {path} is a link to {path.resolve()}; give that name, if you mean it"
            )
        try:
            path.touch(mode=0o600)
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"the trace {path} can't be written: {error.strerror}; give another file"
            ) from None
        self._redaction = Redaction()
        self._redaction.add(secrets_of(os.environ))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def on_event(self, event: Event) -> None:
        """Write one event and flush it, so that programs that follow the file see it at once."""
        fields = event.result.to_json() if isinstance(event, RunFinished) else asdict(event)
        line = {"at": round(time.time(), 3), "event": type(event).__name__, **fields}
        self._file.write(json.dumps(self._redaction.blank(line), ensure_ascii=True) + "\n")
        self._file.flush()
