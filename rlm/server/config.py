"""The settings of a server. Those of its runs are the RLM's own."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from rlm.documents.sources.address_rules import AddressRules
from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass

__all__ = ["ServerConfig", "is_loopback"]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where a server listens, and what its users may do.

    host_names: names under which it may be reached, besides its address.
    origins: web origins whose pages may call it, such as `https://app.example.org`.
    roots: folders below which requests may name paths. None by default.
    allow_urls: requests may name URLs as contexts. Private addresses stay closed but for `allow_hosts`.
    at_once, per_user: runs at a time, in all and of one user.
    waiting, waiting_per_user: runs in the queue, in all and of one user.
    body_mb, upload_mb: the largest JSON body, and the largest file. user_mb: all files of one user.
    connections: requests that are served at a time.
    drain_seconds: how long runs may take to finish when the server stops. Then they are interrupted.

    Raises ConfigurationError.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    host_names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    allow_urls: bool = False
    allow_hosts: tuple[str, ...] = ()
    needs_key: bool = True
    at_once: int = 4
    per_user: int = 2
    waiting: int = 1_000
    waiting_per_user: int = 100
    body_mb: int = 32
    upload_mb: int = 512
    user_mb: int = 10_240
    connections: int = 1_000
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.needs_key and not is_loopback(self.host):
            raise ConfigurationError(
                f"--no-auth serves everybody who reaches {self.host}: use it with --host 127.0.0.1 only"
            )
        AddressRules.parse(self.allow_hosts)
        for root in self.roots:
            if not root.is_dir():
                raise ConfigurationError(f"--root {root} is not a folder: name an existing one")
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                raise ConfigurationError(
                    f"--origin {origin!r} is no origin: write https://HOST or http://HOST:PORT"
                )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
