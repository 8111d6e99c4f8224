"""One call that waits in a batch."""

from __future__ import annotations

import asyncio
import hashlib
import json

from rlm.models.base import Reply, Request, call_key
from rlm.models.http.error_mapping import AttemptFailure

__all__ = ["WaitingCall", "custom_id"]


class WaitingCall:
    """A request with the id by which its batch knows it. `entry` is its text, until it was sent."""

    def __init__(self, key: str, request: Request, entry: bytes) -> None:
        self.key = key
        self.request = request
        self.entry = entry
        self.size = len(entry)
        self.waiters = 0
        self._outcome: asyncio.Future[Reply | AttemptFailure] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Reply | AttemptFailure | Exception) -> None:
        """Give the outcome to all who wait. The first one counts."""
        if self._outcome.done():
            return
        if isinstance(outcome, Exception):
            self._outcome.set_exception(outcome)
            self._outcome.exception()  # retrieved, or asyncio logs it where nobody waits any more
        else:
            self._outcome.set_result(outcome)

    async def outcome(self) -> Reply | AttemptFailure:
        """Wait for the outcome. A cancelled caller leaves the call in its batch."""
        await asyncio.wait([self._outcome])
        return self._outcome.result()


def custom_id(model: str, request: Request) -> str:
    """Return the id of a call within its run: equal for the same call of a resumed run, 64 characters long.

    The last message to a root tells it the time left and what its children took, which a resumed run words
    otherwise. So a root's call is known by its round and by what came before.
    """
    if request.role == "root":
        cell = request.last_cell
        seen = None if cell is None else [cell.status, cell.stdout, cell.result, cell.ename, cell.evalue]
        before = [[message.role, message.content] for message in request.messages[:-1]]
        call = json.dumps([model, request.round, request.final, request.max_output_tokens, before, seen])
    else:
        call = call_key(model, request)
    return hashlib.sha256(f"{request.run}\0{request.role}\0{call}".encode(errors="replace")).hexdigest()
