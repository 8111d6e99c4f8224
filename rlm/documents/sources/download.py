"""Download of one URL in the driver: bounded in redirects, size, type and time, to public addresses only."""

from __future__ import annotations

import asyncio
import codecs
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from rlm.documents.blocks import TICK_SECONDS, wait_for
from rlm.documents.encoding import codec_of
from rlm.documents.sources.address_rules import AddressRules, is_public
from rlm.documents.sources.source import Check, Fetched
from rlm.documents.sources.url import check_url, file_name, is_address, public_name
from rlm.errors import DocumentError
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.version import __version__

__all__ = ["MOST_DOWNLOADED", "download"]

MOST_DOWNLOADED = 512 << 20
"""Bytes of one download, after decompression."""
_MOST_REDIRECTS = 5
_CONNECT_SECONDS = 20.0
_IDLE_SECONDS = 30.0
_TOTAL_SECONDS = 900.0
_PIECE = 64 * 1024
_LONGEST_CAUSE = 200
_HEAD = 64 * 1024
"""Bytes that tell whether a file can be read, as for a file of this machine."""
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_UNREAD_TYPES = ("audio/", "video/", "font/", "model/")
_PROGRAMS = frozenset(
    (
        "application/x-msdownload",
        "application/vnd.microsoft.portable-executable",
        "application/x-executable",
        "application/x-sharedlib",
        "application/wasm",
        "application/vnd.android.package-archive",
        "application/x-iso9660-image",
        "application/x-apple-diskimage",
    )
)


def download(
    url: str,
    rules: AddressRules,
    folder: Path,
    tick: Callable[[], None],
    check: Check,
    most_bytes: int = MOST_DOWNLOADED,
) -> Fetched:
    """Download `url` into a file without a name in `folder`.

    Sends no credential: no cookie, no netrc, no header of the environment. Uses the proxy of the environment.
    Each redirect is checked like the URL. `tick` is called every 0.1 s
    and may raise to stop. `check` may raise, too. Raises DocumentError, which names the URL and the remedy.
    """
    check_url(url)
    spooled = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    try:
        task = _Download(url, rules, spooled, check, most_bytes)
        stopped = threading.Event()
        wait_for(lambda: asyncio.run(task.run(stopped)), tick, stopped)
        spooled.seek(0)
        return Fetched(public_name(url), task.kind_name, spooled)
    except BaseException:
        spooled.close()
        raise


class _Download:
    """One download, on an event loop of its own."""

    def __init__(
        self, url: str, rules: AddressRules, spooled: BinaryIO, check: Check, most_bytes: int
    ) -> None:
        self.kind_name = ""
        self._url = url
        self._rules = rules
        self._spooled = spooled
        self._check = check
        self._most_bytes = most_bytes
        self._name = public_name(url)

    async def run(self, stopped: threading.Event) -> None:
        work = asyncio.ensure_future(self._fetch())
        while not work.done():
            await asyncio.wait([work], timeout=TICK_SECONDS)
            if stopped.is_set():
                work.cancel()
        work.result()

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_TOTAL_SECONDS):
                await self._follow(self._url)
        except TimeoutError:
            raise DocumentError(
                f"{self._name} did not arrive in time: try again, or download it and give its path"
            ) from None
        except aiohttp.ClientProxyConnectionError:
            raise DocumentError(
                f"{self._name} cannot be reached through the proxy of the environment: check http_proxy, "
                "https_proxy and no_proxy"
            ) from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise DocumentError(
                f"{self._name} has no certificate that is trusted ({_one_line(error.certificate_error)}): "
                "check the address, or set SSL_CERT_FILE"
            ) from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise DocumentError(
                f"{self._name} cannot be downloaded ({_one_line(error)}): check the address and the network"
            ) from None

    async def _follow(self, url: str) -> None:
        for _ in range(_MOST_REDIRECTS + 1):
            location = await self._get(url)
            if location is None:
                return
            following = urljoin(url, location)
            if urlsplit(url).scheme == "https" and urlsplit(following).scheme == "http":
                raise DocumentError(
                    f"{self._name} leads from https to http ({public_name(following)}): name that address "
                    "if you trust it"
                )
            try:
                check_url(following)
            except DocumentError as error:
                raise DocumentError(f"{self._name} leads to an address that is refused: {error}") from None
            url = following
        raise DocumentError(
            f"{self._name} leads to more than {_MOST_REDIRECTS} further addresses: name the last one"
        )

    async def _get(self, url: str) -> str | None:
        """Read the answer of one address into the file, or return where it leads."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
        proxy = _proxy_to(parts)
        guard = _Guard(self._name, host, is_named=self._rules.is_named(host, port))
        if proxy is None:
            if is_address(host):
                guard.check(host)
        else:
            await guard.check_behind_proxy()
        connector = aiohttp.TCPConnector(
            limit=1,
            force_close=True,
            use_dns_cache=False,
            ssl=ssl.create_default_context(),
            resolver=_Resolver(),
            socket_factory=guard.make_socket if proxy is None else None,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,  # it would also send what ~/.netrc holds
                timeout=aiohttp.ClientTimeout(
                    total=None,
                    connect=_CONNECT_SECONDS,
                    sock_connect=_CONNECT_SECONDS,
                    sock_read=_IDLE_SECONDS,
                ),
            ) as session,
            session.get(
                URL(urlunsplit(parts._replace(fragment=""))),
                allow_redirects=False,
                headers={
                    "User-Agent": f"rlm-kernel/{__version__}",
                    "Accept": "text/html,text/*;q=0.9,*/*;q=0.8",
                    "Accept-Encoding": "identity",
                },
                proxy=proxy,
            ) as answer,
        ):
            if answer.status in _REDIRECTS and "location" in answer.headers:
                return answer.headers["location"]
            self._check_answer(answer)
            await self._read(answer, parts)
        return None

    def _check_answer(self, answer: aiohttp.ClientResponse) -> None:
        """Raise DocumentError for an answer that holds no document, before its body is read."""
        if answer.status != 200:
            raise DocumentError(f"{self._name} {_status_of(answer.status)}")
        kind = answer.content_type.lower() if "content-type" in answer.headers else ""
        if kind.startswith(_UNREAD_TYPES) or kind in _PROGRAMS:
            raise DocumentError(f"{self._name} is {kind}, which holds no text: name a page or file that does")
        declared = answer.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._most_bytes:
            raise self._too_large()

    def _too_large(self) -> DocumentError:
        return DocumentError(
            f"{self._name} is larger than {self._most_bytes >> 20:,} MB: download it yourself and give "
            "its path"
        )

    async def _read(self, answer: aiohttp.ClientResponse, parts: SplitResult) -> None:
        self.kind_name = file_name(urlunsplit(parts), answer.content_type.lower())
        decoder = _decoder_of(answer)
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip"):
            # Not asked for. It is unpacked where other packed files are.
            self.kind_name, decoder = f"{self.kind_name}.gz", None
        elif encoding not in ("", "identity"):
            raise DocumentError(
                f"{self._name} is sent in an encoding that is not supported: download it yourself"
            )
        size, head = 0, b"" if decoder is None else codecs.BOM_UTF8
        is_checked = False
        self._spooled.write(head)
        async for chunk in answer.content.iter_chunked(_PIECE):
            size += len(chunk)
            if size > self._most_bytes:
                raise self._too_large()
            data = chunk if decoder is None else decoder.decode(chunk).encode("utf-8", "replace")
            self._spooled.write(data)
            if not is_checked:
                head += data
                if len(head) >= _HEAD:
                    self._check(self.kind_name, head)
                    is_checked = True
        if decoder is not None:
            self._spooled.write(decoder.decode(b"", True).encode("utf-8", "replace"))
        if not size:
            raise DocumentError(f"{self._name} is empty: check the address")
        if not is_checked:
            self._check(self.kind_name, head)
        self._spooled.flush()


class _Guard:
    """Lets connections through to the addresses of one host that are public, or whose host the user named."""

    def __init__(self, name: str, host: str, *, is_named: bool) -> None:
        self._name = name
        self._host = host
        self._is_named = is_named

    def check(self, address: str) -> None:
        if not self._is_named and not is_public(address):
            raise self._refusal()

    async def check_behind_proxy(self) -> None:
        """Check a host whose name the proxy resolves: what it is called, and what it is called here."""
        if self._is_named:
            return
        bare = self._host.rstrip(".").lower()
        if is_address(bare):
            self.check(bare)
            return
        if "." not in bare or bare.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa")):
            raise self._refusal()
        with suppress(OSError):
            for found in await _look_up(bare, 0, socket.AF_UNSPEC):
                self.check(found[4][0])

    def make_socket(self, addr_info: Any) -> socket.socket:
        """Create the socket for a connection. The address that is connected to is the one that is checked
        here, so a name that resolves to another one in between gains nothing."""
        family, kind, protocol, _, address = addr_info
        self.check(address[0])
        return socket.socket(family, kind, protocol)

    def _refusal(self) -> DocumentError:
        # Without the address: whoever may only send URLs to a server is told nothing of its network.
        return DocumentError(
            f"{self._name} leads into a private network: {self._host} is no public address. If you mean it, "
            f"name the host with --set allow_host={self._host}"
        )


class _Resolver(AbstractResolver):
    """Resolves names in a daemon thread, which keeps no process from ending."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, protocol, _, address in await _look_up(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing is kept open."""


async def _look_up(host: str, port: int, family: int) -> Sequence[Any]:
    return await run_in_daemon_thread(
        lambda: socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM), name="rlm-resolve"
    )


def _proxy_to(parts: SplitResult) -> str | None:
    """Return the proxy of the environment for an address."""
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = (proxies.get(parts.scheme.lower()) or proxies.get("all") or "").strip()
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.lower().startswith(("http://", "https://")):
        raise DocumentError(
            f"{parts.hostname} would be reached over a SOCKS proxy of the environment, which can't be used: "
            "name an HTTP proxy in its place, or except the host in no_proxy"
        )
    return proxy


def _status_of(status: int) -> str:
    """Return what an HTTP status other than 200 means for the user."""
    if status in (401, 402, 403, 407):
        return f"needs a login (HTTP {status}): download it yourself and give its path"
    if status in (404, 410):
        return f"does not exist (HTTP {status}): check the address"
    if status == 429 or status >= 500:
        return f"is not served now (HTTP {status}): try again later"
    return f"is not served as a page or file (HTTP {status}): check the address"


def _decoder_of(answer: aiohttp.ClientResponse) -> codecs.IncrementalDecoder | None:
    """Return the decoder of the charset that the server declares for a text; None for UTF-8 and no text."""
    kind = answer.content_type.lower()
    if not kind.startswith("text/") and not kind.endswith(("xml", "json")):
        return None
    codec = codec_of(answer.charset or "utf-8")
    if codec is None or codec.startswith(("ascii", "utf")):
        return None
    return codecs.getincrementaldecoder(codec)("replace")


def _one_line(error: object) -> str:
    """Return an error as a few printable words."""
    text = "".join(char if char.isprintable() else " " for char in str(error) or type(error).__name__)
    return " ".join(text.split())[:_LONGEST_CAUSE]
