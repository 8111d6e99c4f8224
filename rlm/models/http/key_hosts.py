"""The servers to which a key may go."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass
from rlm.models.registry import ProviderSpec

__all__ = ["KeyHosts"]

_PORTS = {"http": 80, "https": 443}
_Origin = tuple[str | None, str, int]
"""Scheme (None: any), host and port."""


@dataclass(frozen=True, slots=True)
class KeyHosts:
    """A list of servers. `url in hosts` compares host and port exactly: `localhost` is not 127.0.0.1.

    An entry without a port means HTTPS at its usual port: no key crosses a network in the clear by accident.
    """

    origins: frozenset[_Origin]

    @classmethod
    def of(cls, spec: ProviderSpec, env: Mapping[str, str]) -> KeyHosts:
        """Return the list in the `server_host_variable` of `env`: HOST, HOST:PORT or a URL each, with
        commas between them. Raises ConfigurationError, which names the variable."""
        variable = spec.server_host_variable
        entries = (entry.strip() for entry in env.get(variable, "").split(","))
        return cls(frozenset(_read_entry(entry, variable) for entry in entries if entry))

    def __bool__(self) -> bool:
        return bool(self.origins)

    def __contains__(self, url: str) -> bool:
        scheme, host, port = _read_entry(url, "the base URL")
        return (scheme, host, port) in self.origins or (None, host, port) in self.origins

    @property
    def names(self) -> list[str]:
        """Return the entries, sorted, each with its port."""
        return sorted(
            f"{f'{scheme}://' if scheme else ''}{host}:{port}" for scheme, host, port in self.origins
        )


def _read_entry(entry: str, variable: str) -> _Origin:
    try:
        parts = urlsplit(entry if "://" in entry else f"//{entry}")
        host, port, scheme = parts.hostname, parts.port, parts.scheme or None
    except ValueError:
        host = port = scheme = None
    if not host or "*" in host or "@" in parts.netloc or (scheme is not None and scheme not in _PORTS):
        raise ConfigurationError(
            f"{variable} holds an entry that is no server: write HOST:PORT, with commas between several"
        )
    host = f"[{host}]" if ":" in host else host
    if port is None:
        scheme = scheme or "https"
        port = _PORTS[scheme]
    return scheme, host.removesuffix("."), port
