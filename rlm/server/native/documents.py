"""/v1/documents: the documents of a user. /v1/files is the same in OpenAI's terms."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, UploadFile
from fastapi.responses import StreamingResponse

from rlm.journal.served import ServedFile
from rlm.server.auth import Caller, UserCaller
from rlm.server.errors import ApiError, not_there
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.native.schemas import Document, Documents
from rlm.server.replies import Json
from rlm.server.work.sources import file_name

__all__ = ["add_file", "delete_document", "file_json", "read_content", "read_document", "router"]

router = APIRouter(prefix="/v1", tags=["documents"], responses=ERRORS)


@router.post("/documents", status_code=201, response_model=Document)
async def upload_document(file: UploadFile, request: Request, caller: UserCaller) -> Json:
    """Upload a document, to name it in contexts by its id."""
    return Json(file_json(await add_file(request, caller, file, "documents")), 201)


@router.get("/documents", response_model=Documents)
async def list_documents(
    request: Request, caller: UserCaller, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> Json:
    """List your documents, newest first."""
    found = await service_of(request).files.list(caller.user, limit=limit + 1)
    listed = [file_json(one) for one in found[:limit]]
    return Json({"object": "list", "data": listed, "has_more": len(found) > limit})


@router.get("/documents/{file_id}", response_model=Document)
async def read_document(file_id: str, request: Request, caller: UserCaller) -> Json:
    """Read what is known of a document."""
    return Json(file_json(await _find_file(request, caller, file_id)))


@router.get("/documents/{file_id}/content", response_class=StreamingResponse)
async def read_content(file_id: str, request: Request, caller: UserCaller) -> StreamingResponse:
    """Download a document."""
    return _content_of(request, await _find_file(request, caller, file_id))


@router.delete("/documents/{file_id}")
async def delete_document(file_id: str, request: Request, caller: UserCaller) -> Json:
    """Delete a document. Runs that have read it keep its text in their journal."""
    if not await service_of(request).files.remove(file_id, caller.user):
        raise not_there("file", file_id)
    return Json({"id": file_id, "object": "file", "deleted": True})


async def add_file(request: Request, caller: Caller, file: UploadFile, purpose: str) -> ServedFile:
    """Store an upload. Raises ApiError if it is empty, or the user's space is used up."""
    service = service_of(request)
    most = service.config.user_mb << 20
    if not file.size:
        raise ApiError(400, "the file is empty", param="file")
    if file.size > service.config.upload_mb << 20:
        raise ApiError(413, f"the file is above {service.config.upload_mb} MB", code="body_too_large")
    if await service.files.size(caller.user) + file.size > most:
        raise ApiError(
            413,
            f"your files would take over {service.config.user_mb:,} MB: delete some first",
            code="no_space",
        )
    return await service.files.add(caller.user, file_name(file.filename, "file"), purpose, file.file)


async def _find_file(request: Request, caller: Caller, file_id: str) -> ServedFile:
    """Return a file of the caller. Raises ApiError (404)."""
    found = await service_of(request).files.get(file_id, caller.user)
    if found is None:
        raise not_there("file", file_id)
    return found


def _content_of(request: Request, file: ServedFile) -> StreamingResponse:
    """Return a file as a download: a browser never shows it as a page of this server."""
    return StreamingResponse(
        service_of(request).files.content(file),
        media_type="application/octet-stream",
        headers={
            "content-disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
            "content-length": str(file.bytes),
            "content-security-policy": "sandbox; default-src 'none'",
        },
    )


def file_json(file: ServedFile) -> dict[str, Any]:
    """Return a file as OpenAI's API shows it."""
    return {
        "id": file.file_id,
        "object": "file",
        "filename": file.name,
        "bytes": file.bytes,
        "purpose": file.purpose,
        "created_at": int(file.created_at),
        "status": "processed",
    }
