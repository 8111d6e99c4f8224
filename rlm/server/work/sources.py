"""From the context of a request to sources. A request reaches no file of the server but those its operator
allows, and no address but public ones, if any."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlm.documents import PathSource, Source, TextSource, UrlSource
from rlm.documents.formats.containers.members import safe_name
from rlm.documents.sources.url import check_url
from rlm.journal.served import FileStore
from rlm.server.config import ServerConfig
from rlm.server.errors import ApiError, not_there

__all__ = ["ContextReader", "file_name"]

_NAME_CHARS = 120


def file_name(name: str | None, default: str) -> str:
    """Return a name that is safe as the name of a file: its last part, without what a terminal obeys."""
    last = safe_name(name or "").rpartition("/")[2].strip()
    encoded = last.encode("utf-8", "replace")[-_NAME_CHARS:].decode("utf-8", "ignore")
    return encoded or default


class ContextReader:
    """Makes sources of contexts. `files` are those of the users."""

    def __init__(self, config: ServerConfig, files: FileStore) -> None:
        self._config = config
        self._files = files
        self._roots = [root.resolve() for root in config.roots]

    async def check(self, context: Sequence[dict[str, Any]] | None, user: str) -> None:
        """Raise ApiError for a part that is not there, or that this user may not read."""
        for part in context or ():
            if "file_id" in part and await self._files.get(part["file_id"], user) is None:
                raise not_there("file", part["file_id"])
            if "path" in part:
                await asyncio.to_thread(self._resolve, part["path"])
            if "url" in part:
                self._url(part["url"])
            if "data" in part:
                _decode(part["data"])

    async def sources(
        self, context: Sequence[dict[str, Any]] | None, user: str, folder: Path
    ) -> list[Source] | None:
        """Return the sources of a context. Files are written to `folder`, which is new and private. Raises
        ApiError."""
        if context is None:
            return None
        found: list[Source] = []
        for number, part in enumerate(context, 1):
            if "file_id" in part:
                file = await self._files.get(part["file_id"], user)
                if file is None:
                    raise not_there("file", part["file_id"])
                place = folder / str(number)
                place.mkdir(0o700)
                path = place / file_name(file.name, "file")
                await self._files.write_to(file, path)
                found.append(PathSource(path))
            elif "path" in part:
                found.append(PathSource(await asyncio.to_thread(self._resolve, part["path"])))
            elif "url" in part:
                found.append(self._url(part["url"]))
            else:
                name = file_name(part.get("name"), f"text {number}")
                text = part["text"] if "text" in part else _decode(part["data"])
                found.append(TextSource(name, text, part.get("kind", "text")))
        return found

    def hide(self, message: str, folder: Path) -> str:
        """Return a message without the folders of the server."""
        for private in (folder, *self._roots):
            message = message.replace(f"{private}/", "").replace(str(private), "the folder")
        return message

    def _resolve(self, given: str) -> Path:
        refused = ApiError(
            400,
            f"the path {given!r} is not in a folder that this server allows; upload the file instead",
            code="path_not_allowed",
        )
        for root in self._roots:
            try:
                path = (root / given).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            # Links are resolved: what they lead to has to be below the root, too.
            if path.is_relative_to(root) and (path.is_file() or path.is_dir()):
                return path
        raise refused

    def _url(self, url: str) -> UrlSource:
        if not self._config.allow_urls:
            raise ApiError(
                400, "this server reads no URLs; upload the file, or send its text", code="url_not_allowed"
            )
        check_url(url)
        if not url.lower().startswith(("http://", "https://")):
            raise ApiError(400, "only http and https URLs are read", code="url_not_allowed")
        return UrlSource(url, self._config.allow_hosts)


def _decode(data: str) -> bytes:
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, "the data of a file is not base64") from None
    if not found:
        raise ApiError(400, "the data of a file is empty")
    return found
