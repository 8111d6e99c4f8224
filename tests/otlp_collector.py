"""Play an OpenTelemetry collector on this machine: a real HTTP server that decodes OTLP's protobuf."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_KINDS = {1: "INTERNAL", 3: "CLIENT"}


@dataclass(frozen=True)
class Span:
    """One span as it was received. `status` is its description, None unless it failed."""

    name: str
    id: bytes
    parent: bytes
    kind: str
    attributes: dict[str, Any]
    status: str | None
    events: list[str] = field(default_factory=list)


class Collector:
    """Use as a context manager. `seconds` is how long it lets each request wait."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.spans: list[Span] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.logs: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.resource: dict[str, Any] = {}
        self._seconds = seconds
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        time.sleep(self._seconds)
        {"/v1/traces": self._traces, "/v1/metrics": self._metrics, "/v1/logs": self._logs}[request.path](body)
        request.send_response(200)
        request.send_header("content-type", "application/x-protobuf")
        request.end_headers()

    def named(self, name: str) -> Span:
        """Return the only span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def path(self, span: Span) -> list[str]:
        """Return the names of the spans from the root to `span`."""
        above = next((one for one in self.spans if one.id == span.parent), None)
        return [*(self.path(above) if above else []), span.name]

    def _traces(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                for one in scope.spans:
                    self.spans.append(
                        Span(
                            one.name,
                            one.span_id,
                            one.parent_span_id,
                            _KINDS[one.kind],
                            _attributes(one.attributes),
                            one.status.message if one.status.code == 2 else None,
                            [event.name for event in one.events],
                        )
                    )

    def _metrics(self, body: bytes) -> None:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [
                        {**_attributes(point.attributes), "sum": point.sum, "count": point.count}
                        for point in metric.histogram.data_points
                    ]
                    self.metrics.setdefault(metric.name, []).extend(points)

    def _logs(self, body: bytes) -> None:
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self.logs.append({"event": record.event_name, **_attributes(record.attributes)})


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
