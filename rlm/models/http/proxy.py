"""Choose the proxy and the trusted certificates for an endpoint."""

from __future__ import annotations

import os
import re
import ssl
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rlm.errors import ConfigurationError
from rlm.models.catalog.names import check_url
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["check_route", "proxy_to", "trusted_on"]

_PROXY_SCHEMES = ("http", "https")
_HASHED_NAME = re.compile(r"[0-9a-fA-F]{8}\.\d")
"""The names by which OpenSSL finds certificates in a folder."""


def check_route(endpoint: Endpoint, options: ModelOptions) -> None:
    """Raise ConfigurationError if the first call would fail on a proxy or certificate file, from `options` or
    else from the environment."""
    if options.proxy is not None:
        check_url(options.proxy, "the proxy", _PROXY_SCHEMES)
    else:
        _check_environment_proxies(os.environ)
        if (proxy_to(endpoint, options) or "").startswith("socks"):
            raise ConfigurationError(
                f"{endpoint.address} would be reached over a SOCKS proxy of the environment, which can't be "
                "used: name an HTTP proxy in its place, or except the host in no_proxy"
            )
    if options.ca_file is not None:
        _load_certificates(options.ca_file, "ca_file")
    elif os.environ.get("SSL_CERT_FILE") and _has_tls(endpoint, options):
        _load_certificates(os.environ["SSL_CERT_FILE"], "SSL_CERT_FILE")


def proxy_to(endpoint: Endpoint, options: ModelOptions) -> str | None:
    """Return the URL of the proxy for `endpoint`, from `options` or else from the environment."""
    if options.proxy is not None:
        return options.proxy
    parts = urlsplit(endpoint.base_url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = (proxies.get(parts.scheme) or proxies.get("all") or "").strip()
    return (proxy if "://" in proxy else f"http://{proxy}") if proxy else None


def trusted_on(endpoint: Endpoint, options: ModelOptions) -> ssl.SSLContext | None:
    """Return the certificates to trust for `endpoint`; None where the route has no TLS. Building them is
    slow, so build one context for all connections."""
    if options.ca_file is not None:
        return _load_certificates(options.ca_file, "ca_file")
    return _trust_system() if _has_tls(endpoint, options) else None


def _has_tls(endpoint: Endpoint, options: ModelOptions) -> bool:
    urls = (endpoint.base_url, proxy_to(endpoint, options) or "")
    return any(url.startswith("https:") for url in urls)


def _trust_system() -> ssl.SSLContext:
    """Return the certificates that the environment names, else the system's."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        return _load_certificates(file, "SSL_CERT_FILE")
    if folder:
        return ssl.create_default_context(capath=folder)
    paths = ssl.get_default_verify_paths()
    file, folder = paths.cafile, paths.capath
    hashed = folder is not None and any(map(_HASHED_NAME.fullmatch, os.listdir(folder)))  # noqa: PTH208
    if sys.platform not in ("darwin", "win32") and (file or hashed):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(file, folder if hashed else None)
        return context
    # It knows where else systems keep theirs, and the stores of macOS and Windows.
    import httpx2

    return httpx2.create_ssl_context()


def _check_environment_proxies(env: Mapping[str, str]) -> None:
    """Check every proxy that `env` names, even those that this endpoint does not use."""
    if "*" in [host.strip() for host in (env.get("no_proxy") or env.get("NO_PROXY", "")).split(",")]:
        return
    for scheme in ("http", "https", "all"):
        lower = f"{scheme}_proxy"
        variable = lower if lower in env else lower.upper()
        proxy = env.get(variable, "").strip()
        if not proxy:
            continue
        if "://" not in proxy and ":" not in proxy:
            raise ConfigurationError(
                f"{variable} is not a usable URL: write it as http://HOST:PORT, or unset it"
            )
        url = proxy if "://" in proxy else f"http://{proxy}"
        check_url(url, variable, (*_PROXY_SCHEMES, "socks5", "socks5h"))


def _load_certificates(file: str, setting: str) -> ssl.SSLContext:
    """Return the certificates of `file`, with the system's for the setting `ca_file`."""
    try:
        return _make_context(file, Path(file).stat().st_mtime_ns, with_systems=setting == "ca_file")
    except ssl.SSLError:
        raise ConfigurationError(f"{setting} {file} holds no certificate: give a PEM file") from None
    except OSError as error:
        raise ConfigurationError(
            f"{setting} {file} can't be read: {error.strerror}; check the path"
        ) from None


@lru_cache(maxsize=8)
def _make_context(file: str, _changed: int, *, with_systems: bool) -> ssl.SSLContext:
    """Make a context. Cached: it takes 50 ms, and every model checks its route."""
    if not with_systems:
        return ssl.create_default_context(cafile=file)
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=file)
    return context
