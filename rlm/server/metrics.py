"""Figures for Prometheus. No label holds a user's name, a text or anything else that a request chooses."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rlm.results import RunResult

__all__ = ["Metrics"]

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600)
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Metrics:
    """The figures of one server. `queued` and `running` are asked when they are read."""

    def __init__(self, queued: Callable[[], int], running: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "rlm_http_requests", "Requests.", ["route", "method", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "rlm_http_request_seconds",
            "Seconds of a request.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._runs = Counter("rlm_runs", "Runs that ended.", ["face", "kind", "outcome"], registry=registry)
        self._run_seconds = Histogram(
            "rlm_run_seconds",
            "Seconds of a run, without the queue.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter("rlm_tokens", "Tokens of runs.", ["model", "direction"], registry=registry)
        self._dollars = Counter("rlm_cost_usd", "Dollars of runs.", ["model"], registry=registry)
        Gauge("rlm_runs_queued", "Runs that wait.", registry=registry).set_function(queued)
        Gauge("rlm_runs_in_flight", "Runs that run.", registry=registry).set_function(running)

    def on_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def on_run(self, face: str, kind: str, outcome: str, seconds: float | None) -> None:
        """Count a run that ended."""
        self._runs.labels(face, kind, outcome).inc()
        if seconds is not None:
            self._run_seconds.labels(kind).observe(seconds)

    def on_usage(self, result: RunResult) -> None:
        """Count what a run used."""
        for usage in result.usage:
            self._tokens.labels(usage.model, "input").inc(usage.input_tokens)
            self._tokens.labels(usage.model, "output").inc(usage.output_tokens)
            self._dollars.labels(usage.model).inc(usage.cost_usd or 0.0)

    def text(self) -> bytes:
        """Return the figures in Prometheus' format."""
        return generate_latest(self._registry)
