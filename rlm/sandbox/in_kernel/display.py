"""Collects what a cell displays. The reply to the cell holds it: nothing is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.zmqshell import ZMQDisplayPublisher

from .output import bounded

__all__ = ["RESULT_LIMIT", "CellDisplayHook", "CellDisplayPublisher", "Displays"]

RESULT_LIMIT = 20_000
"""Characters of one value that is displayed."""
_MAX_DISPLAYS = 20


class Displays:
    """The texts that a cell displays, in order: the first ones, each of a bounded size."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the plain text of a value. Its other forms are dropped: the root reads nothing else."""
        text = data.get("text/plain")
        if isinstance(text, str) and len(self._texts) < _MAX_DISPLAYS:
            self._texts.append(bounded(text, RESULT_LIMIT))

    def take(self) -> str | None:
        """Return all texts, bounded together, or None if there is none. The next cell begins with none."""
        texts, self._texts = self._texts, []
        return bounded("\n".join(texts), RESULT_LIMIT) if texts else None


class CellDisplayHook(ZMQShellDisplayHook):
    """Keeps the value of a cell's last expression."""

    shell: Any

    def start_displayhook(self) -> None:
        # A message that is begun tells the shell that an error came from displaying.
        self.msg = {}

    def write_output_prompt(self) -> None:
        """Do nothing: no prompt is shown."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shell.displays.add(format_dict)

    def finish_displayhook(self) -> None:
        self.msg = None


class CellDisplayPublisher(ZMQDisplayPublisher):
    """Keeps what a cell shows by `display`. There is no screen to update or to clear."""

    shell: Any

    def publish(
        self, data: Any, metadata: Any = None, source: Any = None, *, update: bool = False, **kwargs: Any
    ) -> None:
        if not update:
            self.shell.displays.add(data)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing."""
