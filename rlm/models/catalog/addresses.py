"""Addresses of servers: which are this machine, which are private, and where a local server listens."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from rlm.models.registry import PROVIDERS, ProviderSpec

__all__ = ["gateway_of", "is_loopback", "is_private", "is_private_server"]

_PRIVATE_ENDINGS = (".localhost", ".local", ".lan", ".internal", ".home.arpa", ".intranet", ".svc")
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
"""Addresses that a server listens at, with those at which it is reached."""


def is_loopback(url: str) -> bool:
    """Return whether the host of `url` is this machine. Asks no name server."""
    host = _host_of(url)
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


@lru_cache(maxsize=256)
def is_private(url: str) -> bool:
    """Return whether the host of `url` is this machine or in a private network: an address that is not
    routed on the Internet, or a name that is not registered there. Asks no name server. Cached: it is asked
    several times for each call of a model."""
    host = _host_of(url)
    try:
        return not ip_address(host).is_global
    except ValueError:
        # A number is an address in another spelling, which may be anywhere.
        is_number = host[:1].isdigit() and "." not in host
        return bool(host) and not is_number and ("." not in host or host.endswith(_PRIVATE_ENDINGS))


def is_private_server(provider: str, base_url: str | None, env: Mapping[str, str]) -> bool:
    """Return whether a model of `provider`, at the URL of its name if that has one, runs on a server of the
    user's own: such a server is in a private network, and costs nothing."""
    spec = PROVIDERS[provider]
    if base_url is not None:
        return is_private(base_url)
    return spec.port is not None and is_private(gateway_of(spec, env) or spec.base_url)


def gateway_of(spec: ProviderSpec, env: Mapping[str, str]) -> str:
    """Return the URL in the `base_url_variable` of `env`; empty if it is not set. For a program that people
    run themselves, the variable may hold HOST or HOST:PORT, as OLLAMA_HOST does. It is not checked."""
    gateway = env.get(spec.base_url_variable, "").strip().rstrip("/")
    if gateway and spec.port is not None:
        gateway = _complete(gateway, spec.port, urlsplit(spec.base_url).path)
    return gateway.removesuffix(spec.strip_from_gateway)


def _complete(address: str, port: int, path: str) -> str:
    """Return the URL of a local server from what its variable holds."""
    has_scheme = "://" in address
    try:
        parts = urlsplit(address if has_scheme else f"http://{address}")
        given = parts.port
    except ValueError:
        return address
    host = parts.hostname or "127.0.0.1"
    host = _ANY.get(host, f"[{host}]" if ":" in host else host)
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    number = given if given is not None else None if has_scheme else port
    rest = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{user}{host}{'' if number is None else f':{number}'}{parts.path or path}{rest}"


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return ""
