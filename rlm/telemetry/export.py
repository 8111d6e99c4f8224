"""Send spans and metrics by OTLP, as OpenTelemetry's usual environment variables say. For the command line.

An application that uses this package as a library sets up OpenTelemetry itself.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rlm.errors import ConfigurationError
from rlm.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

__all__ = ["Export", "start_export"]

_FLUSH_SECONDS = 5.0
"""How long the end of a command waits for a collector."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_EXTRA = "pip install 'rlm-kernel[otel]'"
_PROTOCOLS = {"http/protobuf": "http", "grpc": "grpc"}


class _Provider(Protocol):
    def shutdown(self) -> Any: ...


class Export:
    """What is sent while a command runs."""

    def __init__(self, providers: list[_Provider], problems: _Problems) -> None:
        self._providers = providers
        self._problems = problems

    def close(self, seconds: float = _FLUSH_SECONDS) -> str | None:
        """Send the rest within `seconds`. Return why not everything was sent, or None."""
        threads = [threading.Thread(target=one.shutdown, daemon=True) for one in self._providers]
        for thread in threads:
            thread.start()
        left = threading.Event()
        timer = threading.Timer(seconds, left.set)
        timer.daemon = True
        timer.start()
        while any(thread.is_alive() for thread in threads) and not left.wait(0.01):
            pass
        timer.cancel()
        if any(thread.is_alive() for thread in threads):
            return f"no answer within {seconds:.0f} s"
        return self._problems.last


def start_export(environment: Mapping[str, str] | None = None) -> Export | None:
    """Set up OpenTelemetry's SDK if the environment names a collector. Raises ConfigurationError if what
    sends is not installed."""
    env = os.environ if environment is None else environment
    signals = [signal for signal in ("traces", "metrics", "logs") if _is_wanted(env, signal)]
    if not signals:
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.util.genai import handler  # noqa: F401  (of the same extra)
    except ImportError:
        raise ConfigurationError(
            f"{_ENDPOINT} is set, but what sends traces is not installed: {_EXTRA}, or set "
            "OTEL_SDK_DISABLED=true"
        ) from None
    named = "OTEL_SERVICE_NAME" in env or "service.name=" in env.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({"service.version": __version__} | ({} if named else {"service.name": "rlm"}))
    problems = _Problems()
    starts: dict[str, Callable[[str, Resource], _Provider]] = {
        "traces": _start_traces,
        "metrics": _start_metrics,
        "logs": _start_logs,
    }
    return Export([starts[signal](_protocol(env, signal), resource) for signal in signals], problems)


def _is_wanted(env: Mapping[str, str], signal: str) -> bool:
    """Return whether a signal has a collector. Logs are sent for the events that hold content."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if env.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp").strip().lower() != "otlp":
        return False
    if signal == "logs" and "EVENT" not in env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", ""):
        return False
    return bool((env.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or env.get(_ENDPOINT, "")).strip())


def _protocol(env: Mapping[str, str], signal: str) -> str:
    """Return `http` or `grpc`. Raises ConfigurationError."""
    asked = env.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = _PROTOCOLS.get((asked or "http/protobuf").strip().lower())
    if protocol is None:
        raise ConfigurationError(
            f"the protocol of OTEL_EXPORTER_OTLP_PROTOCOL, {asked}, is not known: use http/protobuf or grpc"
        )
    return protocol


def _exporter(protocol: str, module: str, name: str) -> Any:
    """Return a new exporter, which reads its endpoint and its headers from the environment."""
    import importlib

    try:
        found = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{protocol}.{module}")
    except ImportError:
        remedy = _EXTRA if protocol == "http" else "pip install opentelemetry-exporter-otlp-proto-grpc"
        raise ConfigurationError(
            f"{_ENDPOINT} is set, but what sends by {protocol} is not installed: {remedy}"
        ) from None
    return getattr(found, name)()


def _start_traces(protocol: str, resource: Resource) -> _Provider:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(protocol, "trace_exporter", "OTLPSpanExporter")))
    trace.set_tracer_provider(provider)
    return provider


def _start_metrics(protocol: str, resource: Resource) -> _Provider:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = _exporter(protocol, "metric_exporter", "OTLPMetricExporter")
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return provider


def _start_logs(protocol: str, resource: Resource) -> _Provider:
    from opentelemetry import _logs
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_log_record_processor(
        BatchLogRecordProcessor(_exporter(protocol, "_log_exporter", "OTLPLogExporter"))
    )
    _logs.set_logger_provider(provider)
    return provider


class _Problems(logging.Handler):
    """Keeps the last warning of OpenTelemetry's own log instead of printing each with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: str | None = None
        log = logging.getLogger("opentelemetry")
        log.addHandler(self)
        log.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        # "Transient error … retrying" is no failure yet, and the last attempt has a line of its own.
        if record.levelno >= logging.ERROR:
            self.last = record.getMessage().split("\n")[0]
