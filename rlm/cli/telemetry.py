"""Sends traces to the collector that the environment names, by OpenTelemetry's own distribution."""

from __future__ import annotations

import logging
import os

from rlm.cli.console.exits import say
from rlm.version import install_command

__all__ = ["start_telemetry"]

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SIGNALS = ("TRACES", "METRICS", "LOGS")
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SECONDS = "5"
"""How long one request to a collector may take, and so about what the end of a command waits for it."""


def start_telemetry() -> None:
    """Set OpenTelemetry up, if the environment names a collector. It sends the rest when the process ends.
    Never costs the command."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or not any(map(_has_collector, _SIGNALS)):
        return
    try:
        import opentelemetry.distro
        import opentelemetry.util.genai.handler  # noqa: F401  (of the same extra)
        from opentelemetry.instrumentation.auto_instrumentation import initialize
    except ImportError:
        say(
            f"{_ENDPOINT} is set, but what sends traces is not installed: {install_command('otel')}, or "
            "set OTEL_SDK_DISABLED=true"
        )
        return
    for signal in _SIGNALS:
        if not _has_collector(signal):
            os.environ[f"OTEL_{signal}_EXPORTER"] = "none"
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", _SECONDS)
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "rlm")
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    try:
        initialize(swallow_exceptions=False)
    except Exception as error:  # the boundary to OpenTelemetry: a variable may hold anything
        say(f"traces are not sent ({type(error).__name__}: {error}); check the OTEL_ variables")
    else:
        log.addHandler(_OneLine(logging.ERROR))


def _has_collector(signal: str) -> bool:
    """Return whether a signal has a collector. Logs are sent for the events that hold content."""
    if signal == "LOGS" and "EVENT" not in os.environ.get(_CONTENT, ""):
        return False
    names = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", _ENDPOINT)
    return any(os.environ.get(name, "").strip() for name in names)


class _OneLine(logging.Handler):
    """Reports OpenTelemetry's first error in one line, instead of each with its traceback."""

    _has_reported = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._has_reported:
            self._has_reported = True
            reason = record.getMessage().split("\n")[0]
            say(f"traces were not sent: {reason}; check the OTEL_EXPORTER_OTLP_ variables and the collector")
