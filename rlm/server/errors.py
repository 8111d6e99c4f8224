"""Errors as the clients get them: the shape of OpenAI's API, one line that names the fault and the remedy."""

from __future__ import annotations

import logging
from typing import Any

from rlm.errors import JournalError, ModelError, RLMError, UsageError
from rlm.prompts import PromptError
from rlm.results import RunResult
from rlm.sandbox.errors import SandboxError

__all__ = ["NO_RETRY", "ApiError", "api_error", "no_answer", "not_there", "overloaded"]

_LOG = logging.getLogger("rlm.server")
NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients send a request again after an error of the server. A run that failed has cost something,
and fails again."""


class ApiError(Exception):
    """A refused or failed request. `kind` and `code` are those of OpenAI where it has them."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """Return the JSON body."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def not_there(what: str, name: str) -> ApiError:
    """Return the error for something that is not there."""
    return ApiError(404, f"there is no {what} {name!r}", code="not_found")


def overloaded(message: str) -> ApiError:
    """Return the error for a server that has too much to do at the moment."""
    return ApiError(
        429, message, kind="rate_limit_error", code="rate_limit_exceeded", headers={"retry-after": "5"}
    )


def api_error(error: BaseException) -> ApiError:
    """Return what a client gets for an error of a run. What only the operator may read is logged."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UsageError | PromptError):
        return ApiError(400, str(error), headers=NO_RETRY)
    if isinstance(error, ModelError):
        return ApiError(502, str(error), kind="server_error", code="model_failed", headers=NO_RETRY)
    if isinstance(error, JournalError):
        _LOG.error("the store failed: %s", error)
        return ApiError(503, f"the store failed: {error}", kind="server_error", code="store")
    if isinstance(error, RLMError | SandboxError):
        _LOG.error("a run failed: %s", error)
        return ApiError(500, str(error), kind="server_error", code="run_failed", headers=NO_RETRY)
    _LOG.error("a run failed unexpectedly", exc_info=error)
    return ApiError(
        500, "the server failed; its log says why", kind="server_error", code="internal", headers=NO_RETRY
    )


def no_answer(result: RunResult) -> ApiError:
    """Return the error for a run that ended without an answer, for APIs that have no place to say so."""
    status = 502 if result.stop_reason == "model" else 500
    return ApiError(
        status,
        f"run {result.run_id} ended without an answer ({result.stop_reason}): {result.cause}",
        kind="server_error",
        code="no_answer",
        headers=NO_RETRY,
    )
