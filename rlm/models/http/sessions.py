"""Sessions that models share: one for each event loop and endpoint, closed with its last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import check_route
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    from rlm.models.http.session import HttpSession

__all__ = ["SessionLease", "import_http"]

_Key = tuple[Endpoint, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop
_open: WeakKeyDictionary[_Loop, dict[_Key, HttpSession]] = WeakKeyDictionary()
"""Connections belong to the event loop that opened them."""
_ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()


def import_http() -> None:
    """Import the HTTP library. Takes a fraction of a second."""
    import_module("rlm.models.http.session")


class SessionLease:
    """One model's use of a shared session. Raises ConfigurationError for an unusable proxy or certificate
    file."""

    def __init__(self, endpoint: Endpoint, options: ModelOptions) -> None:
        check_route(endpoint, options)
        self._endpoint = endpoint
        self._options = options
        self._leased: WeakKeyDictionary[_Loop, HttpSession] = WeakKeyDictionary()

    async def get(self) -> HttpSession:
        """Return the session for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._leased:
            await asyncio.to_thread(import_http)
        if loop not in self._leased:  # another task may have acquired it during the import
            self._leased[loop] = await self._acquire(loop)
        return self._leased[loop]

    async def aclose(self) -> None:
        """Release the running loop's session. Safe to call twice. A later `get` acquires one again."""
        loop = asyncio.get_running_loop()
        session = self._leased.pop(loop, None)
        if session is not None:
            session.users -= 1
            if session.users == 0:
                del _open[loop][self._key]
                await session.aclose()

    @property
    def _key(self) -> _Key:
        options = self._options
        return self._endpoint, options.idle_seconds, options.proxy, options.ca_file

    async def _acquire(self, loop: _Loop) -> HttpSession:
        from rlm.models.http.session import HttpSession

        if loop not in _ends:
            _ends[loop] = end = _close_with_loop(loop)
            await anext(end)  # does not suspend, so two first calls at once cannot make two sessions
        if self._key not in _open[loop]:
            _open[loop][self._key] = HttpSession(self._endpoint, self._options)
        session = _open[loop][self._key]
        session.users += 1
        return session


async def _close_with_loop(loop: _Loop) -> AsyncIterator[None]:
    """Close the sessions of `loop` when it ends. A loop closes its asynchronous generators when it shuts
    down, so no connection outlives it even if the models were never closed."""
    open_here = _open[loop] = dict[_Key, "HttpSession"]()
    try:
        yield
    finally:
        for session in list(open_here.values()):
            await session.aclose()
