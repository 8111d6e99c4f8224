"""HTTP clients, shared: one for each event loop, endpoint and way to reach it, closed with its last user."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

from rlm.errors import ConfigurationError
from rlm.models.endpoint import Endpoint
from rlm.models.names import check_url
from rlm.models.options import ModelOptions
from rlm.version import __version__

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ClientUser", "SharedClient", "SharedClients"]

_PROXY_SCHEMES = ("http", "https")
_IDLE_CONNECTION_SECONDS = 60.0
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # SUSE
)


class SharedClient:
    """The way to one endpoint. `reached` turns True with its first HTTP response, of any status."""

    def __init__(self, session: aiohttp.ClientSession, url: str, proxy: str | None) -> None:
        self.session = session
        self.users = 0
        self.reached = False
        self._url = url
        self._proxy = proxy

    def post(self, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Send a JSON body; leaving gives the connection back, or closes it if the response is not read."""
        # A redirect would carry the text of documents to a host that nobody named.
        return self.session.post(self._url, data=body, proxy=self._proxy, allow_redirects=False)


_Key = tuple[Endpoint, float, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop


class SharedClients:
    """The clients of one protocol: `path` follows an endpoint's base URL, `headers` are what it wants.

    Connections belong to the event loop on which they were made, so a loop has clients of its own.
    """

    def __init__(self, path: str, headers: Callable[[Endpoint], Mapping[str, str]]) -> None:
        self._path = path
        self._headers = headers
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()

    async def acquire(self, endpoint: Endpoint, options: ModelOptions) -> SharedClient:
        """The running loop's client for `endpoint`, made if there is none, with one user more."""
        loop = asyncio.get_running_loop()
        if loop not in self._ends:
            self._ends[loop] = end = self._closed_with_the_loop(loop)
            await anext(end)  # waits for nothing: two first calls at once can't make two clients
        key = _key(endpoint, options)
        open_here = self._open[loop]
        if key not in open_here:
            proxy, url = _proxy(endpoint, options), endpoint.base_url + self._path
            secure = any(address.startswith("https:") for address in (url, proxy or ""))
            session = _session(options, self._headers(endpoint), secure=secure)
            open_here[key] = SharedClient(session, url, proxy)
        open_here[key].users += 1
        return open_here[key]

    async def release(self, endpoint: Endpoint, options: ModelOptions) -> None:
        """One user less; the last closes the client."""
        open_here = self._open[asyncio.get_running_loop()]
        key = _key(endpoint, options)
        shared = open_here[key]
        shared.users -= 1
        if shared.users == 0:
            del open_here[key]
            await shared.session.close()

    async def _closed_with_the_loop(self, loop: _Loop) -> AsyncIterator[None]:
        """Begun once in every loop, which ends its generators when it ends: so no connection outlives it,
        though nobody closed the models."""
        open_here = self._open[loop] = dict[_Key, SharedClient]()
        try:
            yield
        finally:
            for shared in list(open_here.values()):
                await shared.session.close()


class ClientUser:
    """One model's use of a shared client. Raises ConfigurationError for a proxy or certificate file that the
    first call would fail on: that of `options`, else that of the environment."""

    def __init__(self, clients: SharedClients, endpoint: Endpoint, options: ModelOptions) -> None:
        _check(endpoint, options)
        self._clients = clients
        self._endpoint = endpoint
        self._options = options
        self._held: WeakKeyDictionary[_Loop, SharedClient] = WeakKeyDictionary()

    async def get(self) -> SharedClient:
        """The client for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            self._held[loop] = await self._clients.acquire(self._endpoint, self._options)
        return self._held[loop]

    async def aclose(self) -> None:
        """Let go of the running loop's client. Safe to call twice; a later `get` takes a client anew."""
        if self._held.pop(asyncio.get_running_loop(), None) is not None:
            await self._clients.release(self._endpoint, self._options)


def _session(options: ModelOptions, headers: Mapping[str, str], *, secure: bool) -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        # How many may be under way is the limiter's affair.
        connector=aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=_IDLE_CONNECTION_SECONDS,
            ssl=_trusted(options) if secure else True,
        ),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=options.connect_seconds, sock_read=options.idle_seconds
        ),
        headers={"Content-Type": "application/json", "User-Agent": f"rlm-runtime/{__version__}", **headers},
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _proxy(endpoint: Endpoint, options: ModelOptions) -> str | None:
    """The proxy on the way to `endpoint`: that of `options`, else the environment's."""
    if options.proxy is not None:
        return options.proxy
    parts = urlsplit(endpoint.base_url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = (proxies.get(parts.scheme) or proxies.get("all") or "").strip()
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _check(endpoint: Endpoint, options: ModelOptions) -> None:
    if options.proxy is not None:
        check_url(options.proxy, "the proxy", _PROXY_SCHEMES)
    else:
        _check_environment_proxies(os.environ)
        proxy = _proxy(endpoint, options) or ""
        if proxy.startswith("socks"):
            raise ConfigurationError(
                f"{endpoint.address} would be reached over a SOCKS proxy of the environment, which can't be "
                "used: name an HTTP proxy in its place, or except the host in no_proxy"
            )
    if options.ca_file is not None:
        _trusting(options.ca_file)
    elif os.environ.get("SSL_CERT_FILE"):
        _trusting(os.environ["SSL_CERT_FILE"], "SSL_CERT_FILE")


def _check_environment_proxies(env: Mapping[str, str]) -> None:
    """Every proxy that `env` names, whether this endpoint needs it or not."""
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
        whole = proxy if "://" in proxy else f"http://{proxy}"
        check_url(whole, variable, (*_PROXY_SCHEMES, "socks5", "socks5h"))


def _trusted(options: ModelOptions) -> ssl.SSLContext:
    """What the system trusts, and the `ca_file`."""
    if options.ca_file is not None:
        return _trusting(options.ca_file)
    context = ssl.create_default_context()
    if (
        not context.cert_store_stats()["x509_ca"]
        and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys()
    ):
        # An interpreter that was built elsewhere may look where this system has nothing.
        for bundle in filter(os.path.isfile, _CA_BUNDLES):
            context.load_verify_locations(bundle)
    return context


def _trusting(ca_file: str, called: str = "ca_file") -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigurationError(f"{called} {ca_file} holds no certificate: give a PEM file") from None
    except OSError as error:
        raise ConfigurationError(
            f"{called} {ca_file} can't be read: {error.strerror}; check the path"
        ) from None
    return context


def _key(endpoint: Endpoint, options: ModelOptions) -> _Key:
    return (endpoint, options.connect_seconds, options.idle_seconds, options.proxy, options.ca_file)
