"""/v1/search: passages and matches, without a model."""

from __future__ import annotations

from fastapi import APIRouter, Request

from rlm.server.auth import UserCaller
from rlm.server.errors import ApiError
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.native.schemas import SearchBody, parts_of
from rlm.server.replies import Json
from rlm.tasks.passages import find_matches, find_passages

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@router.post("/search")
async def search(body: SearchBody, request: Request, caller: UserCaller) -> Json:
    """Search a context: `packs` are ranked passages, `hits` the matches of a regular expression."""
    service = service_of(request)
    context = parts_of(body.context)
    if context is None:
        raise ApiError(400, "no context is given: name texts, files or paths", param="context")
    service.queue.check_room(caller.user)
    await service.reader.check(context, caller.user)
    service.queue.admit(caller.user)
    try:
        async with service.queue.turn(caller.user), service.scratch() as folder:
            sources = await service.reader.sources(context, caller.user, folder) or []
            if body.regex:
                return Json(await find_matches(body.query, sources, limit=body.limit, cached=False))
            found = await find_passages(
                body.query, sources, limit=body.limit, expand=body.expand, cached=False
            )
            return Json(found)
    finally:
        service.queue.leave(caller.user)
