"""The application: the routes, the shape of every error, and the gate in front."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from rlm.errors import RLMError
from rlm.prompts import PromptError
from rlm.sandbox.errors import SandboxError
from rlm.server.auth import Authenticator, MetricsReader
from rlm.server.errors import ApiError, api_error
from rlm.server.gate import Gate
from rlm.server.native import documents, page, runs, search
from rlm.server.openai import chat, files, models, responses
from rlm.server.replies import Json
from rlm.server.work.service import Service
from rlm.version import __version__

__all__ = ["make_app"]

_SUMMARY = "Answers questions over texts far larger than a model's window, with verified citations."


def make_app(service: Service, authenticator: Authenticator) -> ASGIApp:
    """Return the application of a service."""
    app = FastAPI(
        title="rlm",
        summary=_SUMMARY,
        version=__version__,
        # The pages of Swagger and ReDoc load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        default_response_class=Json,
    )
    app.state.service = service
    app.state.authenticator = authenticator
    app.state.sessions = page.Sessions()
    for module in (runs, documents, search, models, files, chat, responses, page):
        app.include_router(module.router)

    @app.get("/healthz", tags=["operation"])
    async def read_health() -> Json:
        """Say that the server takes runs; 503 when it is stopping."""
        is_up = not service.is_stopping
        return Json({"status": "ok" if is_up else "stopping"}, 200 if is_up else 503)

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def read_metrics(_: MetricsReader) -> PlainTextResponse:
        """Read figures in Prometheus' format. Needs a key that was made with --metrics."""
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    _handle_errors(app)
    served: ASGIApp = app
    if service.config.origins:
        served = CORSMiddleware(
            app,
            allow_origins=list(service.config.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "last-event-id"],
        )
    return Gate(served, service.config, service.metrics.on_request)


def _handle_errors(app: FastAPI) -> None:
    async def on_error(_: Request, error: Exception) -> Json:
        told = api_error(error)
        return Json(told.body(), told.status, told.headers)

    async def on_http(_: Request, error: Exception) -> Json:
        assert isinstance(error, HTTPException)
        told = ApiError(error.status_code, str(error.detail), code=_CODES.get(error.status_code))
        return Json(told.body(), told.status, dict(error.headers or {}))

    async def on_invalid(_: Request, error: Exception) -> Json:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])[:200]
        message = f"{where}: {first['msg']}" if where else str(first["msg"])
        return Json(ApiError(422, message[:500], param=where or None).body(), 422)

    for kind in (ApiError, RLMError, PromptError, SandboxError, Exception):
        app.add_exception_handler(kind, on_error)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)


_CODES = {404: "not_found", 405: "method_not_allowed", 408: "timeout", 413: "body_too_large"}
