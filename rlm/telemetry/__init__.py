"""What others see of runs: lines of the standard log, OpenTelemetry's spans and metrics (extra `otel`)."""

from rlm.telemetry.log import log_event
from rlm.telemetry.spans import (
    note_retry,
    note_violation,
    trace_call,
    trace_cell,
    trace_job,
    trace_round,
    trace_run,
    trace_tool,
)

__all__ = [
    "log_event",
    "note_retry",
    "note_violation",
    "trace_call",
    "trace_cell",
    "trace_job",
    "trace_round",
    "trace_run",
    "trace_tool",
]
