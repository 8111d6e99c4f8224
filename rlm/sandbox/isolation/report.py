"""What a launcher tells of itself while it puts the layers on, one line of JSON each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from rlm.sandbox.isolation.policy import IsolationReport, Layer, required_layers

__all__ = ["LayerFailed", "LayerReport", "read_report"]


class LayerFailed(Exception):
    """A required layer can't be had; the report has been told."""


class LayerReport:
    """Writes to whoever launched us, on a pipe that no program run from here inherits.

    Lines are `{"init": pid}` (the process whose death ends the kernel; at level 2 and above also all it
    started), `{"layer": name, "detail": words}` and `{"failed": name, "detail": words}`. The pipe closes
    when the kernel takes over, so an end without `failed` is success.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **line: object) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def apply(self, layer: Layer, mechanism: Callable[[], object]) -> None:
        """Put a layer on, or report why it can't be had and raise LayerFailed. Words that the mechanism
        returns are its detail."""
        try:
            detail = mechanism()
        except (OSError, ValueError, LookupError) as error:
            self.fail(layer, str(error))
            raise LayerFailed(layer) from error
        self.say(layer=layer, detail=detail if isinstance(detail, str) else "on")

    def fail(self, layer: Layer, reason: str) -> None:
        self.say(failed=layer, detail=reason)

    def hand_on(self) -> int:
        """The descriptor, for a program of ours that goes on reporting."""
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)


def read_report(level: int, text: bytes) -> tuple[IsolationReport, int | None]:
    """What all the lines together say, and the init's pid. A layer that was not reported has failed."""
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
    if not failed:
        missing = [layer for layer in required_layers(level) if layer not in layers]
        failed = dict.fromkeys(missing, "the launcher ended before it was put on")
    return IsolationReport(level, layers, failed), init


def _lines(text: bytes) -> Iterable[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]
