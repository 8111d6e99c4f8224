"""The launcher's report about the layers: one line of JSON each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable

from rlm.sandbox.isolation.policy import IsolationReport, Layer, required_layers

__all__ = ["LayerFailed", "LayerReport", "read_report"]


class LayerFailed(Exception):
    """A required layer failed. The report already says so."""


class LayerReport:
    """Writes the report to a pipe that no program started here inherits.

    Lines are `{"init": pid}`, `{"layer": name, "detail": words}` and `{"failed": name, "detail": words}`.
    `init` is the process whose death ends the kernel; from level 2 on also all that it started. The pipe is
    closed when the kernel takes over, so an end without `failed` means success.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **line: object) -> None:
        """Write one line."""
        os.write(self.descriptor, json.dumps(line).encode() + b"\n")

    def apply(self, layer: Layer, mechanism: Callable[[], object]) -> None:
        """Apply a layer and report it. A text that the mechanism returns becomes its detail.

        If the mechanism fails, report the reason and raise LayerFailed.
        """
        try:
            detail = mechanism()
        except (OSError, ValueError, LookupError) as error:
            self.fail(layer, str(error))
            raise LayerFailed(layer) from error
        self.say(layer=layer, detail=detail if isinstance(detail, str) else "on")

    def fail(self, layer: Layer, reason: str) -> None:
        """Report that a layer failed."""
        self.say(failed=layer, detail=reason)

    def hand_on(self) -> int:
        """Return the descriptor, inheritable, for our own program that continues the report."""
        os.set_inheritable(self.descriptor, True)
        return self.descriptor

    def close(self) -> None:
        """End the report. Safe to call twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def read_report(level: int, text: bytes) -> tuple[IsolationReport, int | None]:
    """Parse a report. Return it with the pid of `init`. A layer that was not reported has failed."""
    layers: dict[str, str] = {}
    failed: dict[str, str] = {}
    init: int | None = None
    for line in _lines(text):
        if "init" in line:
            init = int(str(line["init"]))
        elif "layer" in line:
            layers[str(line["layer"])] = str(line["detail"])
        elif "failed" in line:
            failed[str(line["failed"])] = str(line["detail"])
    missing = [layer for layer in required_layers(level) if layer not in layers and layer not in failed]
    if not failed:
        failed = dict.fromkeys(missing, "the launcher ended before it was applied")
    elif missing:
        last = next(reversed(failed))
        failed[last] += f"; not tried after that: {', '.join(missing)}"
    return IsolationReport(level, layers, failed), init


def _lines(text: bytes) -> Iterable[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]
