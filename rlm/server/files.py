"""/v1/files: uploaded files, in a folder each. Their names are data: a safe form of them is used on disk."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, UploadFile
from fastapi.responses import FileResponse

from rlm.documents.formats.members import safe_name
from rlm.server.errors import ApiError, not_there
from rlm.server.replies import ERRORS, Json

__all__ = ["FileStore", "file_name", "router"]

_NAME_CHARS = 120
_FACTS = "facts.json"
_ID = re.compile(r"file-[0-9a-f]{24}")
_PIECE = 1 << 20
router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


def file_name(name: str | None, default: str) -> str:
    """Return a name that is safe as the name of a file: its last part, without what a terminal obeys."""
    last = safe_name(name or "").rpartition("/")[2].strip()
    encoded = last.encode("utf-8", "replace")[-_NAME_CHARS:].decode("utf-8", "ignore")
    return encoded or default


class FileStore:
    """The files in `folder`, which only this user can read. `most_bytes` limits all of them."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self._adding = asyncio.Lock()

    async def add(self, name: str, purpose: str, stream: BinaryIO, size: int) -> dict[str, Any]:
        """Store a file of `size` bytes, and return what is known of it. Raises ApiError."""
        # One at a time: together they could pass the limit of all.
        async with self._adding:
            return await asyncio.to_thread(self._add, name, purpose, stream, size)

    async def all(self) -> list[dict[str, Any]]:
        """Return what is known of all files, newest first."""
        return await asyncio.to_thread(self._read_all)

    def facts(self, file_id: str) -> dict[str, Any]:
        """Return what is known of a file. Raises ApiError (404)."""
        if not _ID.fullmatch(file_id):
            raise not_there("file", file_id[:64])
        try:
            facts: dict[str, Any] = json.loads((self._folder / file_id / _FACTS).read_bytes())
        except (OSError, ValueError):
            raise not_there("file", file_id) from None
        return facts

    def path(self, file_id: str) -> Path:
        """Return where a file is. Raises ApiError (404)."""
        # A folder of its own: a file may be called like that of the facts.
        name: str = self.facts(file_id)["filename"]
        return self._folder / file_id / "content" / name

    async def remove(self, file_id: str) -> None:
        """Delete a file. Raises ApiError (404)."""
        self.facts(file_id)
        await asyncio.to_thread(shutil.rmtree, self._folder / file_id)

    def _add(self, name: str, purpose: str, stream: BinaryIO, size: int) -> dict[str, Any]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sum(one["bytes"] for one in self._read_all()) + size > self._most:
            raise ApiError(
                413, f"all files would take over {self._most >> 20:,} MB: delete some first", code="no_space"
            )
        file_id = f"file-{secrets.token_hex(12)}"
        facts = {
            "id": file_id,
            "object": "file",
            "filename": name,
            "bytes": size,
            "purpose": purpose,
            "created_at": int(time.time()),
            "status": "processed",
        }
        # Without its facts it is not there: they are written last.
        content = self._folder / file_id / "content"
        try:
            content.mkdir(mode=0o700, parents=True)
            with _private(content / name) as written:
                shutil.copyfileobj(stream, written, _PIECE)
            with _private(content.parent / _FACTS) as written:
                written.write(json.dumps(facts).encode())
        except BaseException:
            shutil.rmtree(content.parent, ignore_errors=True)
            raise
        return facts

    def _read_all(self) -> list[dict[str, Any]]:
        found = []
        for place in self._folder.glob("file-*"):
            try:
                found.append((place.stat().st_mtime_ns, self.facts(place.name)))
            except (OSError, ApiError):
                continue
        return [facts for _, facts in sorted(found, key=lambda one: one[0], reverse=True)]


@router.post("/files")
async def upload_file(
    file: UploadFile, request: Request, purpose: Annotated[str, Form(max_length=32)] = "user_data"
) -> Json:
    """Upload a file, to name it in messages and contexts by its id."""
    config = request.app.state.runs.config
    if not file.size:
        raise ApiError(400, "the file is empty", param="file")
    if file.size > config.upload_mb << 20:
        raise ApiError(413, f"the file is above {config.upload_mb} MB", code="body_too_large")
    name = file_name(file.filename, "file")
    return Json(await _store(request).add(name, purpose, file.file, file.size))


@router.get("/files")
async def list_files(request: Request, limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000) -> Json:
    """List the files, newest first."""
    found = await _store(request).all()
    listed = found[:limit]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"]} if listed else {}
    return Json({"object": "list", "data": listed, "has_more": len(found) > limit, **ends})


@router.get("/files/{file_id}")
async def read_file(file_id: str, request: Request) -> Json:
    """Read what is known of a file."""
    return Json(_store(request).facts(file_id))


@router.get("/files/{file_id}/content", response_class=FileResponse)
async def read_content(file_id: str, request: Request) -> FileResponse:
    """Download a file: a browser never shows it as a page of this server."""
    path = _store(request).path(file_id)
    if not path.is_file():
        raise not_there("file", file_id)
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(path.name, safe='')}",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


@router.delete("/files/{file_id}")
async def delete_file(file_id: str, request: Request) -> Json:
    """Delete a file. Runs that have read it keep its text in their journal."""
    await _store(request).remove(file_id)
    return Json({"id": file_id, "object": "file", "deleted": True})


def _store(request: Request) -> FileStore:
    store: FileStore = request.app.state.runs.files
    return store


def _private(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb")
