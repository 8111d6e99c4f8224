"""/v1/models: the one model, which is this server's whole runtime."""

from __future__ import annotations

from fastapi import APIRouter

from rlm.server.auth import UserCaller
from rlm.server.errors import ApiError
from rlm.server.native.runs import ERRORS
from rlm.server.replies import Json

__all__ = ["MODEL", "check_model", "router"]

MODEL = "rlm"
_ENTRY = {"id": MODEL, "object": "model", "created": 1_767_225_600, "owned_by": "rlm"}
router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


@router.get("/models")
async def list_models(_: UserCaller) -> Json:
    """List the models: `rlm`."""
    return Json({"object": "list", "data": [_ENTRY]})


@router.get("/models/{model}")
async def read_model(model: str, _: UserCaller) -> Json:
    """Read what is known of a model."""
    check_model(model)
    return Json(_ENTRY)


def check_model(model: str) -> None:
    """Raise ApiError for a model that is not there. The models behind `rlm` are the operator's choice."""
    if model != MODEL:
        raise ApiError(
            404,
            f"there is no model {model[:100]!r} here: use {MODEL!r}",
            code="model_not_found",
            param="model",
        )
