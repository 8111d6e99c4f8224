"""Report the events of runs in the standard log. No line contains text of a document, a reply or a cell."""

from __future__ import annotations

import logging

from rlm import events
from rlm.events import Event

__all__ = ["log_event"]

_LOG = logging.getLogger("rlm")
# Without any handler, Python prints warnings to stderr. An application that wants the log adds its own.
_LOG.addHandler(logging.NullHandler())


def log_event(event: Event) -> None:
    """Write the events of runs to the logger `rlm`, one line each. An observer."""
    match event:
        case events.ContextLoaded(chars, documents, skipped, seconds):
            _LOG.info(
                "loaded %d characters of %d documents (%d skipped) in %.2f s",
                chars,
                documents,
                skipped,
                seconds,
            )
        case events.RunStarted(run_id, strategy, model):
            _LOG.info("run %s: %s, %s", run_id, strategy, model)
        case events.RoundStarted(number, limit, _):
            _LOG.info("round %d of %d", number, limit)
        case events.ModelAnswered(role=role, model=model, input_tokens=sent, output_tokens=received):
            _LOG.debug("%s %s: %d tokens in, %d out, %.2f s", role, model, sent, received, event.seconds)
        case events.CellRun(number, _, status, seconds) if status != "running":
            _LOG.info("round %d: cell %s after %.2f s", number, status, seconds)
        case events.ChildrenStarted(count):
            _LOG.info("%d children", count)
        case events.Violated(number, kind):
            _LOG.warning("round %d: %s", number, kind)
        case events.ToolEnded(name, ok, seconds):
            _LOG.info("tool %s %s in %.2f s", name, "gave a value" if ok else "failed", seconds)
        case events.Retrying(attempt, wait, reason):
            _LOG.warning("attempt %d failed (%s), next in %.1f s", attempt, reason, wait)
        case events.Warned(message):
            _LOG.warning("%s", message)
        case events.RunEnded(stop_reason, seconds):
            _LOG.info("ended: %s after %.1f s", stop_reason, seconds)
        case _:
            pass
