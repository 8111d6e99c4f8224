"""/v1/files: the documents of a user, in OpenAI's terms."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, UploadFile
from fastapi.responses import StreamingResponse

from rlm.server.auth import UserCaller
from rlm.server.native.documents import add_file, delete_document, file_json, read_content, read_document
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.native.schemas import Document, Documents
from rlm.server.replies import Json

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


@router.post("/files", response_model=Document)
async def upload_file(
    file: UploadFile,
    request: Request,
    caller: UserCaller,
    purpose: Annotated[str, Form(max_length=32)] = "user_data",
) -> Json:
    """Upload a file, to name it in messages by its id."""
    return Json(file_json(await add_file(request, caller, file, purpose)))


@router.get("/files", response_model=Documents)
async def list_files(
    request: Request, caller: UserCaller, limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000
) -> Json:
    """List your files, newest first."""
    found = await service_of(request).files.list(caller.user, limit=limit + 1)
    listed = [file_json(one) for one in found[:limit]]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"]} if listed else {}
    return Json({"object": "list", "data": listed, "has_more": len(found) > limit, **ends})


# The same files under the names that OpenAI's client asks for.
router.get("/files/{file_id}", response_model=Document)(read_document)
router.get("/files/{file_id}/content", response_class=StreamingResponse)(read_content)
router.delete("/files/{file_id}")(delete_document)
