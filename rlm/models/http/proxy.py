"""Choose the proxy and the trusted certificates for an endpoint."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rlm.errors import ConfigurationError
from rlm.models.catalog.names import check_url
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["check_route", "proxy_to", "trusted_on"]


def check_route(endpoint: Endpoint, options: ModelOptions) -> None:
    """Raise ConfigurationError if the first call would fail on a proxy or certificate file, from `options` or
    else from the environment."""
    proxy = proxy_to(endpoint, options)
    if proxy is not None:
        if proxy.startswith("socks"):
            raise ConfigurationError(
                f"{endpoint.address} would be reached over a SOCKS proxy, which can't be used: name an HTTP "
                "proxy in its place, or except the host in no_proxy"
            )
        variable = f"{urlsplit(endpoint.base_url).scheme}_proxy or all_proxy of the environment"
        check_url(proxy, "the proxy" if options.proxy is not None else variable)
    trusted_on(endpoint, options)


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
    """Return the certificates to trust for `endpoint`: the system's or those of SSL_CERT_FILE and
    SSL_CERT_DIR, and those of the option `ca_file`; None where the route has no TLS. Raises
    ConfigurationError for a file that is none of certificates."""
    file = options.ca_file
    urls = (endpoint.base_url, proxy_to(endpoint, options) or "")
    if file is None and not any(url.startswith("https:") for url in urls):
        return None
    setting = "SSL_CERT_FILE" if file is None else "ca_file"
    checked = file or os.environ.get("SSL_CERT_FILE")
    try:
        changed = Path(checked).stat().st_mtime_ns if checked else 0
        return _make_context(checked, os.environ.get("SSL_CERT_DIR"), changed)
    except ssl.SSLError:
        raise ConfigurationError(f"{setting} {checked} holds no certificate: give a PEM file") from None
    except OSError as error:
        raise ConfigurationError(
            f"{setting} {checked} can't be read: {error.strerror}; check the path"
        ) from None


@lru_cache(maxsize=8)
def _make_context(checked: str | None, _folder: str | None, _changed: int) -> ssl.SSLContext:
    """Make a context. Cached by all that it depends on: it takes 50 ms, and every model checks its route."""
    context = ssl.create_default_context()  # OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR itself
    if checked is not None:  # which fails without a word
        context.load_verify_locations(cafile=checked)
    return context
