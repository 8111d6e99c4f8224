"""Who asks: the user of the bearer token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rlm.journal.served import LOCAL_USER, KeyStore, Role, ServedKey
from rlm.lazy_dataclass import dataclass
from rlm.server.errors import ApiError

__all__ = ["Authenticator", "Caller", "MetricsReader", "UserCaller", "new_token"]


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, with the key that was given; None for the token of this start, and without authentication."""

    user: str
    key: ServedKey | None = None

    @property
    def key_id(self) -> str:
        """The id of the key, or ""."""
        return "" if self.key is None else self.key.key_id

    def may(self, role: Role) -> bool:
        """Return whether the caller has a role. Who has no key of the store is the operator."""
        return self.key is None or self.key.role == role


def new_token() -> str:
    """Return a new secret for one start of the server."""
    return "rlm-" + secrets.token_urlsafe(32)


class Authenticator:
    """Finds the caller of a token. `token` is the one of this start, if there is one; `is_open` lets
    everybody in, as the local user."""

    def __init__(self, keys: KeyStore, token: str | None, *, is_open: bool) -> None:
        self._keys = keys
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self.is_open = is_open

    async def identify(self, secret: str | None) -> Caller:
        """Return the caller. Raises ApiError for a missing, wrong or revoked token."""
        if self.is_open:
            return Caller(LOCAL_USER)
        if not secret:
            raise ApiError(
                401,
                "no API key was given: send it as `Authorization: Bearer KEY`",
                code="missing_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        given = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
        if self._token is not None and hmac.compare_digest(given, self._token):
            return Caller(LOCAL_USER)
        key = await self._keys.find(secret)
        if key is None:
            raise ApiError(
                401,
                "the API key is not known or was revoked",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        return Caller(key.user_name, key)


_bearer = HTTPBearer(auto_error=False, description="A key that `rlm serve keys add USER` printed.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def _identify(request: Request, credentials: _Credentials) -> Caller:
    authenticator: Authenticator = request.app.state.authenticator
    return await authenticator.identify(None if credentials is None else credentials.credentials)


async def _user(caller: Annotated[Caller, Depends(_identify)]) -> Caller:
    if not caller.may("user"):
        raise ApiError(403, "this key may read /metrics only", code="forbidden")
    return caller


async def _metrics(caller: Annotated[Caller, Depends(_identify)]) -> Caller:
    if not caller.may("metrics"):
        raise ApiError(403, "this key may not read /metrics: make one with --metrics", code="forbidden")
    return caller


UserCaller = Annotated[Caller, Depends(_user)]
MetricsReader = Annotated[Caller, Depends(_metrics)]
