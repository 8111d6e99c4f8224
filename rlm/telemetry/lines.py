"""Run events as plain lines: for the standard log, and for faces without a terminal of their own."""

from __future__ import annotations

import logging

from rlm import events
from rlm.escaping import terminal_line

__all__ = ["describe", "log_event"]

_MAX_CHARS = 160
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


def describe(event: events.Event) -> str | None:
    """Return one line that says what a run does now, or None for an event that changes nothing for a reader.
    The line holds no control characters."""
    line = _line(event)
    if line is None:
        return None
    line = terminal_line(" ".join(line.split()))
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"


def _line(event: events.Event) -> str | None:
    match event:
        case events.Loading(_, done, int(chars)):
            return f"indexing the input: {done:,} of {chars:,} characters"
        case events.Loading(document, size):
            return f"loading {document}: {size / 1e6:,.0f} MB read"
        case events.ContextLoaded(chars, documents):
            return (
                f"loaded {documents:,} {'document' if documents == 1 else 'documents'}, {chars:,} characters"
            )
        case events.RunStarted(run_id, strategy, model):
            return f"run {run_id}: {strategy}, {model}"
        case events.Resumed(questions=questions) if questions:
            return (
                f"running the blocks of {questions:,} earlier question{'' if questions == 1 else 's'} again"
            )
        case events.Resumed(run_id, rounds, replies):
            read = f"{rounds:,} round{'' if rounds == 1 else 's'}"
            read += f" and {replies:,} repl{'y' if replies == 1 else 'ies'}"
            return f"resuming {run_id}: {read} from the journal"
        case events.PartRun(name, title, "running" | "known"):
            return f"{name}: {title}"
        case events.PartRun(name, _, status, done, of):
            return f"{name}: {status}; {done:,} of {of:,} done"
        case events.RoundStarted(number, limit, final):
            return f"round {number} of {limit}{' (the last)' if final else ''}: asking the root"
        case events.CellRun(number, status="running"):
            return f"round {number}: running its block"
        case events.Violated(number, kind):
            return f"round {number}: the reply {events.describe_violation(kind)}; asking again"
        case events.ChildrenStarted(count):
            return "asking a child" if count == 1 else f"asking {count:,} children"
        case events.ChildEnded(done=done, asked=asked, covered_chars=covered, chars=chars):
            share = f", {covered / chars:.0%} covered" if chars else ""
            return f"{done:,} of {asked:,} children{share}"
        case events.SubRLMStarted(depth):
            return f"sub-RLM at depth {depth} started"
        case events.BatchesWaiting(model, done, total):
            return f"{done:,} of {total:,} calls of {model} answered by its batches"
        case events.Retrying(attempt, wait, reason):
            return f"provider: {reason.replace('_', ' ')}; attempt {attempt} failed, retrying in {wait:.1f} s"
        case events.Warned(message):
            return f"warning: {message}"
        case _:
            return None
