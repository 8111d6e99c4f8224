"""Requests to a provider's batch API. A failed one is returned as data, and what comes back is bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from rlm.models.http.clients.shared_clients import ClientLease
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.reply_limits import MAX_EVENT, RESULTS_TYPE, ReplyTooLarge, parse_json
from rlm.models.http.streaming import map_failure

__all__ = ["BatchConnection"]

_JSON = "application/json"


class BatchConnection:
    """The paths below a provider's base URL, with its key. `mapper` describes failures."""

    def __init__(self, lease: ClientLease, mapper: ErrorMapper) -> None:
        self._lease = lease
        self.mapper = mapper
        self.has_answered = False
        """Whether the endpoint has ever answered."""

    async def get(self, path: str) -> Any | AttemptFailure:
        """Return the JSON at `path`."""
        return await self._exchange(path, {})

    async def post(self, path: str, content: bytes) -> Any | AttemptFailure:
        """Send JSON and return the JSON of the answer."""
        return await self._exchange(path, {"Content-Type": _JSON}, content=content)

    async def upload(
        self, path: str, form: Mapping[str, str], name: str, content: bytes
    ) -> Any | AttemptFailure:
        """Send a form with a file of JSON lines, and return the JSON of the answer."""
        return await self._exchange(path, {}, form=form, file=(name, content, "application/jsonl"))

    async def read_lines(self, path: str, *, max_bytes: int) -> AsyncGenerator[bytes | AttemptFailure, None]:
        """Yield the lines of a file, without those that are empty or longer than any honest one. Ends with
        the failure if the file cannot be read to its end, or has more than `max_bytes`."""
        shared = await self._lease.get()
        try:
            async with aclosing(await shared.exchange(path, headers={"Accept": RESULTS_TYPE})) as response:
                size, line, is_overlong = 0, bytearray(), False
                async for chunk in response.chunks():
                    size += len(chunk)
                    if size > max_bytes:
                        raise ReplyTooLarge(f"results of more than {max_bytes:,} bytes")
                    *ended, rest = chunk.split(b"\n")
                    for piece in ended:
                        line += piece
                        if line.strip() and not is_overlong and len(line) <= MAX_EVENT:
                            yield bytes(line)
                        line, is_overlong = bytearray(), False
                    is_overlong = is_overlong or len(line) + len(rest) > MAX_EVENT
                    line = bytearray() if is_overlong else line + rest
                if line.strip():
                    yield bytes(line)
        except Exception as error:  # the boundary to the provider: it may send anything
            yield map_failure(error, self.mapper)

    async def _exchange(self, path: str, headers: Mapping[str, str], **body: Any) -> Any | AttemptFailure:
        shared = await self._lease.get()
        try:
            answer = await shared.exchange(path, headers={"Accept": _JSON, **headers}, **body)
            async with aclosing(answer) as response:
                return parse_json(await response.read())
        except Exception as error:  # the boundary to the provider: it may send anything
            return map_failure(error, self.mapper)
        finally:
            self.has_answered = shared.has_answered
