"""Sends traces to the collector that the environment names, and reports in one line when that fails."""

from __future__ import annotations

from rlm.cli.console.exits import say
from rlm.errors import ConfigurationError
from rlm.telemetry.export import Export, start_export

__all__ = ["finish_telemetry", "start_telemetry"]

_exports: list[Export] = []


def start_telemetry() -> None:
    """Start sending, if the environment names a collector. Never costs the command."""
    if _exports:
        return
    try:
        export = start_export()
    except ConfigurationError as error:
        say(str(error))
    except Exception as error:  # the boundary to OpenTelemetry: a variable may hold anything
        say(f"traces are not sent ({type(error).__name__}: {error}); check the OTEL_ variables")
    else:
        _exports.extend([] if export is None else [export])


def finish_telemetry() -> None:
    """Send the rest, within seconds."""
    while _exports:
        problem = _exports.pop().close()
        if problem is not None:
            say(f"traces were not sent: {problem}; check the OTEL_EXPORTER_OTLP_ variables and the collector")
