"""The settings of a server. Those of its runs are the RLM's own."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from rlm.documents.sources.address_rules import AddressRules
from rlm.errors import ConfigurationError

__all__ = ["ServerConfig", "is_loopback"]

_MIN_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where a server listens, and what its clients may do.

    files: the folder of uploaded files.
    host_names: names under which it may be reached, besides its address.
    origins: web origins whose pages may call it, such as `https://app.example.org`.
    tokens: the bearer tokens. Without any, one is made at the start.
    roots: folders below which requests may name paths. None by default.
    allow_urls: requests may name URLs as contexts. Private addresses stay closed but for `allow_hosts`.
    at_once: runs at a time. waiting: runs that may wait for their turn.
    body_mb, upload_mb: the largest JSON body, and the largest file. files_mb: all files.
    held_mb: the bodies of all requests at a time, and the texts of all runs that have not ended.
    connections: requests that are served at a time.
    drain_seconds: how long runs may take to finish when the server stops. Then they are interrupted.

    Raises ConfigurationError.
    """

    files: Path
    host: str = "127.0.0.1"
    port: int = 8080
    host_names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    needs_token: bool = True
    roots: tuple[Path, ...] = ()
    allow_urls: bool = False
    allow_hosts: tuple[str, ...] = ()
    at_once: int = 4
    waiting: int = 100
    body_mb: int = 32
    upload_mb: int = 512
    files_mb: int = 10_240
    held_mb: int = 256
    connections: int = 1_000
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.needs_token and not is_loopback(self.host):
            raise ConfigurationError(
                f"--no-auth serves everybody who reaches {self.host}: use it with --host 127.0.0.1 only"
            )
        if any(len(token) < _MIN_TOKEN or not token.isascii() for token in self.tokens):
            raise ConfigurationError(
                f"a token of RLM_SERVER_TOKENS has fewer than {_MIN_TOKEN} ASCII characters: make it longer"
            )
        AddressRules.parse(self.allow_hosts)
        for root in self.roots:
            if not root.is_dir():
                raise ConfigurationError(f"--root {root} is not a folder: name an existing one")
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                raise ConfigurationError(
                    f"origin {origin!r} is no origin: write https://HOST or http://HOST:PORT"
                )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
