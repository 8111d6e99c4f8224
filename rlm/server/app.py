"""The application: the routes, the shape of every error, and the gate in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from rlm.errors import RLMError
from rlm.prompts import PromptError
from rlm.sandbox.errors import SandboxError
from rlm.server import chat, files, native
from rlm.server.errors import ApiError, api_error
from rlm.server.gate import Gate
from rlm.server.live import Runs
from rlm.server.replies import Json
from rlm.version import __version__

__all__ = ["make_app"]

_SUMMARY = "Answers questions over texts far larger than a model's window, with verified citations."
_CODES = {404: "not_found", 405: "method_not_allowed", 408: "timeout", 413: "body_too_large"}


def make_app(runs: Runs, tokens: Sequence[str] | None, others: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Return the application. `tokens` are the bearer tokens that it takes; None takes every request.
    `others` are routes of other protocols, behind the same gate."""
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
    app.state.runs = runs
    # The gate checks the token. This tells the OpenAPI document of it.
    bearer = Depends(HTTPBearer(auto_error=False, description="The token that the server printed."))
    for module in (native, files, chat):
        app.include_router(module.router, dependencies=[bearer])

    @app.get("/healthz", tags=["operation"])
    async def read_health() -> Json:
        """Say that the server takes runs; 503 when it is stopping."""
        is_up = not runs.is_stopping
        return Json({"status": "ok" if is_up else "stopping"}, 200 if is_up else 503)

    app.router.routes.extend(others)
    _handle_errors(app)
    served: ASGIApp = app
    if runs.config.origins:
        served = CORSMiddleware(
            app,
            allow_origins=list(runs.config.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "last-event-id"],
        )
    return Gate(served, runs.config, tokens)


def _handle_errors(app: FastAPI) -> None:
    async def on_error(_: Request, error: Exception) -> Json:
        refusal = api_error(error)
        return Json(refusal.body(), refusal.status, refusal.headers)

    async def on_http(_: Request, error: Exception) -> Json:
        assert isinstance(error, HTTPException)
        refusal = ApiError(error.status_code, str(error.detail), code=_CODES.get(error.status_code))
        return Json(refusal.body(), refusal.status, dict(error.headers or {}))

    async def on_invalid(_: Request, error: Exception) -> Json:
        assert isinstance(error, RequestValidationError)
        first: dict[str, Any] = error.errors()[0]
        if first["type"] == "json_invalid":
            reason = f"{first['ctx']['error']} at character {first['loc'][-1]}"
            return Json(ApiError(400, f"the body is not JSON: {reason}", code="not_json").body(), 400)
        where = ".".join(str(part) for part in first["loc"][1:])[:200]
        whole = "the body is no JSON object: send one, with Content-Type: application/json"
        message = f"{where}: {first['msg']}" if where else whole
        return Json(ApiError(422, message[:500], param=where or None).body(), 422)

    for kind in (ApiError, RLMError, PromptError, SandboxError, Exception):
        app.add_exception_handler(kind, on_error)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
