"""Where requests go: the address of a provider with its key, and the servers that a key is bound to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rlm.errors import ConfigurationError
from rlm.models.catalog.addresses import is_loopback
from rlm.models.registry import ProviderSpec

__all__ = ["Endpoint", "KeyHosts", "encode_json"]

encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_PORTS = {"http": 80, "https": 443}
_Origin = tuple[str | None, str, int]
"""Scheme (None: any), host and port."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a provider, and the key for it.

    `key_variable` names the environment variable of the key, for messages. No repr contains the key itself.
    `private` is True for a server other than the provider's: the organisation, project and extra headers that
    the environment sets for the provider are not sent there. `key_remedy` is set where no key of the user is
    sent (`key` is a placeholder), and says how to send one. `settings` are what else the provider's class
    needs, by name. `self_run` is True for a server that the user runs or named by its URL. `takes_v1` is
    False where the base URL is known not to end in `/v1`. `note` is told the user with the first call."""

    base_url: str
    key: str = field(repr=False)
    key_variable: str
    private: bool = False
    key_remedy: str = ""
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    self_run: bool = False
    takes_v1: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        # An HTTP library quotes an invalid header, and so the key, in its error. Refuse it here.
        if not self.key or not all("!" <= character <= "~" for character in self.key):
            raise ConfigurationError(
                f"{self.key_variable} holds a blank or a character that no key has: set it to the key alone"
            )

    def setting(self, name: str) -> str:
        """Return a setting, or an empty string where it has none."""
        return dict(self.settings).get(name, "")

    @property
    def address(self) -> str:
        """Return `host:port`, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.base_url)
        return parts.port or (80 if parts.scheme == "http" else 443)

    @property
    def local(self) -> bool:
        """Return whether the endpoint is on this machine."""
        return is_loopback(self.base_url)


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
