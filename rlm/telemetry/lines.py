"""Run events in the standard log."""

from __future__ import annotations

import logging

from rlm import events
from rlm.status import describe

__all__ = ["log_event"]

_LOG = logging.getLogger("rlm")
# Without any handler, Python prints warnings to stderr. An application that wants the log adds its own.
_LOG.addHandler(logging.NullHandler())
_LEVELS = {
    events.ContextLoaded: logging.INFO,
    events.RunStarted: logging.INFO,
    events.RoundStarted: logging.INFO,
    events.ChildrenStarted: logging.INFO,
    events.Violated: logging.WARNING,
    events.Retrying: logging.WARNING,
    events.Warned: logging.WARNING,
}
"""Events whose line goes to the log. No line of it contains text of a document, a reply or a cell."""


def log_event(event: events.Event) -> None:
    """Write an event to the logger `rlm`, in one line. An observer."""
    match event:
        case events.ModelAnswered(role=role, model=model, input_tokens=sent, output_tokens=received):
            _LOG.debug("%s %s: %d tokens in, %d out, %.2f s", role, model, sent, received, event.seconds)
        case events.CellRun(number, _, status, seconds) if status != "running":
            _LOG.info("round %d: cell %s after %.2f s", number, status, seconds)
        case events.ToolEnded(name, ok, seconds):
            _LOG.info("tool %s %s in %.2f s", name, "gave a value" if ok else "failed", seconds)
        case events.RunEnded(stop_reason, seconds):
            _LOG.info("ended: %s after %.1f s", stop_reason, seconds)
        case _:
            if type(event) in _LEVELS:
                _LOG.log(_LEVELS[type(event)], "%s", describe(event))
