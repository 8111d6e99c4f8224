"""From the context of a request to sources. A request reaches no file of the server but those its operator
allows, and no address but public ones, if any."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlm.documents import PathSource, Source, TextSource, UrlSource
from rlm.documents.sources.url import check_url
from rlm.server.config import ServerConfig
from rlm.server.errors import ApiError
from rlm.server.files import FileStore, file_name

__all__ = ["ContextPart", "ContextReader", "Part"]

Part = dict[str, Any]
"""A part of a context: the fields of ContextPart, or `{"data": base64, "name": …}` and `{"text": …, "kind":
"json"}` of the API of OpenAI."""


class ContextPart(BaseModel):
    """One part of a context: exactly one of `text`, `file_id`, `path` and `url`.

    `path` is a file or folder on the server, below a folder that its operator allows (`--root`). `url` is
    refused unless the operator allows it (`allow_urls`)."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(default=None, min_length=1)
    file_id: str | None = Field(default=None, max_length=64)
    path: str | None = Field(default=None, min_length=1, max_length=4_096)
    url: str | None = Field(default=None, min_length=1, max_length=8_192)
    name: str | None = Field(default=None, max_length=200, description="The name of a text in citations.")

    @model_validator(mode="after")
    def _check_one(self) -> ContextPart:
        given = [one for one in (self.text, self.file_id, self.path, self.url) if one is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of text, file_id, path and url")
        return self


class ContextReader:
    """Makes sources of contexts. `files` are the uploaded ones."""

    def __init__(self, config: ServerConfig, files: FileStore) -> None:
        self._config = config
        self._files = files
        self._roots = [root.resolve() for root in config.roots]

    async def sources(self, context: Sequence[Part] | None) -> list[Source] | None:
        """Return the sources of a context. Raises ApiError for a part that is not there, or not allowed."""
        if context is None:
            return None
        found: list[Source] = []
        for number, part in enumerate(context, 1):
            if "file_id" in part:
                found.append(PathSource(self._files.path(part["file_id"])))
            elif "path" in part:
                found.append(PathSource(await asyncio.to_thread(self._resolve, part["path"])))
            elif "url" in part:
                found.append(self._url(part["url"]))
            else:
                name = file_name(part.get("name"), f"text {number}")
                text = part["text"] if "text" in part else _decode(part["data"])
                found.append(TextSource(name, text, part.get("kind", "text")))
        return found

    def hide(self, message: str) -> str:
        """Return a message without the folders of the server."""
        for private in (self._config.files, *self._roots):
            message = message.replace(f"{private}/", "").replace(str(private), "the folder")
        return message

    def _resolve(self, given: str) -> Path:
        for root in self._roots:
            try:
                path = (root / given).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            # Links are resolved: what they lead to has to be below the root, too.
            if path.is_relative_to(root) and (path.is_file() or path.is_dir()):
                return path
        raise ApiError(
            400,
            f"the path {given!r} is not in a folder that this server allows; upload the file instead",
            code="path_not_allowed",
        )

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
