"""What others see of runs: lines of the standard log, OpenTelemetry's spans and metrics (extra `otel`)."""

from rlm.telemetry.lines import log_event
from rlm.telemetry.spans import note_event, span

__all__ = ["log_event", "note_event", "span"]
