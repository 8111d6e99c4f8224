"""Which addresses a download may reach: public ones, and the hosts that the user named."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from rlm.errors import UsageError

__all__ = ["AddressRules", "is_public"]

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_CLOUD_SERVICES = frozenset({ipaddress.IPv4Address("168.63.129.16")})
"""Public by number, but a service of the machine's own host (Azure)."""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The hosts that may be reached at a private address, as `HOST` (any port) or `HOST:PORT`."""

    allowed: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def parse(cls, hosts: Iterable[str]) -> AddressRules:
        """Return the rules for the values of `allow_host`. Raises UsageError for one that is no host."""
        return cls(frozenset(_parse_host(host) for host in hosts))

    def is_named(self, host: str, port: int) -> bool:
        """Return whether the user named exactly this host, or this host and port."""
        host = _normalize(host)
        return (host, None) in self.allowed or (host, port) in self.allowed


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet, and not to this machine, its network or
    its cloud. An IPv4 address within an IPv6 one counts as itself."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = _embedded(found)
        if inner is not None:
            found = inner
    return (
        found.is_global and not found.is_multicast and not found.is_reserved and found not in _CLOUD_SERVICES
    )


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if there is one."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    is_compatible = 0 < int(address) < 1 << 32 and int(address) > 1
    if is_compatible or any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _parse_host(text: str) -> tuple[str, int | None]:
    host, port = text.strip(), None
    if host.count(":") == 1 or host.startswith("["):
        bare, colon, number = host.rpartition(":")
        if colon and number.isdecimal():
            host, port = bare, int(number)
    host = _normalize(host)
    if not host or "/" in host or "@" in host or any(char.isspace() for char in host):
        raise UsageError(f"allow_host {text!r} is no host: write HOST or HOST:PORT, such as localhost:8000")
    if port is not None and not 0 < port < 65_536:
        raise UsageError(f"allow_host {text!r} has no such port: give one from 1 to 65,535")
    return host, port


def _normalize(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
