"""Downloads from real servers on this machine: bounds, redirects, addresses, charsets, cancellation."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from rlm.documents import UrlSource, load
from rlm.documents.sources.address_rules import AddressRules, is_public
from rlm.documents.sources.download import download
from rlm.documents.sources.url import file_name, public_name
from rlm.errors import DocumentError, UsageError

PAGE = b"<!doctype html><title>Lease</title><p>The notice period is three weeks.</p>"


class Site:
    """A server whose pages are functions of the handler."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.pages: dict[str, Any] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                page = site.pages.get(self.path.partition("?")[0])
                if page is None:
                    self.send_error(404)
                    return
                page(self)

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        def page(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            sent = {"Content-Type": "text/html", **{k.replace("_", "-"): v for k, v in headers.items()}}
            for name, value in sent.items():
                handler.send_header(name, value)
            if "Content-Length" not in sent:
                handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self.pages[path] = page
        return self.url + path

    def redirect(self, path: str, to: str) -> str:
        return self.serve(path, b"", 302, Location=to)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    one = Site()
    yield one
    one.server.shutdown()
    one.server.server_close()


def get(url: str, folder: Path, *allowed: str, **options: Any) -> tuple[str, str, bytes]:
    """Return the name, the name that tells the kind, and the content."""
    rules = AddressRules.parse(allowed or ("127.0.0.1",))
    options.setdefault("check", lambda name, first: None)
    found = download(url, rules, folder, options.pop("tick", lambda: None), **options)
    with found.file:
        return found.name, found.kind_name, found.file.read()


def test_a_page(site: Site, tmp_path: Path) -> None:
    url = site.serve("/lease", PAGE)
    assert get(f"{url}#part", tmp_path) == (url, "lease.html", PAGE)
    assert not [one for one in tmp_path.iterdir() if one.is_file()]


def test_nothing_of_the_environment_is_sent(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    netrc.rename(tmp_path / ".netrc")
    site.serve("/b", PAGE)
    get(site.redirect("/a", "/b"), tmp_path)
    for _, headers in site.requests:
        assert set(headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "[::1]", "0.0.0.0", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1",
        "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "2130706433", "0x7f.1", "127.1", "168.63.129.16",
        "100.100.100.200", "224.0.0.1", "255.255.255.255", "[::]", "127.0.0.1.", "LOCALHOST",
    ],
)  # fmt: skip
def test_private_addresses_are_refused(site: Site, host: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"private network|no usable host|cannot be downloaded"):
        get(f"http://{host}:{site.port}/", tmp_path, "example.org")
    assert not site.requests


def test_a_refused_host_says_how_to_allow_it(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"--set allow_host=127\.0\.0\.1$"):
        get(site.serve("/", PAGE), tmp_path, "example.org")


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


def test_an_allowed_host_is_compared_exactly() -> None:
    rules = AddressRules.parse(["Intranet.corp", "localhost:8000", "[::1]:9"])
    assert rules.is_named("intranet.corp", 80)
    assert not rules.is_named("x.intranet.corp", 80)
    assert rules.is_named("localhost", 8000)
    assert not rules.is_named("localhost", 80)
    assert rules.is_named("::1", 9)
    for wrong in ("", "http://a/b", "a b", "a:0", "me@host"):
        with pytest.raises(UsageError, match="allow_host"):
            AddressRules.parse([wrong])


def test_a_redirect_into_the_private_network_is_refused(site: Site, tmp_path: Path) -> None:
    other = Site()
    inner = other.serve("/secret", PAGE).replace("127.0.0.1", "localhost")
    with pytest.raises(DocumentError, match=r"localhost is no public address"):
        get(site.redirect("/a", inner), tmp_path)
    assert not other.requests
    other.server.shutdown()
    other.server.server_close()


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://x.example/", "http://me:pw@x.example/", "https:///"]
)
def test_a_redirect_to_anything_else_is_refused(site: Site, to: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="leads to an address that is refused"):
        get(site.redirect("/a", to), tmp_path)


def test_redirects_are_followed_and_counted(site: Site, tmp_path: Path) -> None:
    site.serve("/end.txt", b"three weeks", Content_Type="text/plain")
    for step in range(9):
        site.redirect(f"/{step}", f"/{step + 1}" if step < 8 else "/end.txt")
    assert get(f"{site.url}/4", tmp_path) == (f"{site.url}/4", "end.txt", b"three weeks")
    with pytest.raises(DocumentError, match="more than 5 further addresses"):
        get(f"{site.url}/0", tmp_path)
    with pytest.raises(DocumentError, match="more than 5 further addresses"):
        get(site.redirect("/loop", "/loop"), tmp_path)


def test_a_name_that_changes_its_address_gains_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is public, all later ones lead to this machine."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebind(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebind.example":
            return real(host, port, *rest, **more)
        asked.append(host)
        address = "8.8.8.8" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    monkeypatch.setattr("rlm.documents.sources.download._CONNECT_SECONDS", 0.5)
    for _ in range(2):
        with pytest.raises(DocumentError, match=r"private network|cannot be downloaded|in time"):
            get(f"http://rebind.example:{site.port}/", tmp_path, "example.org")
    assert len(asked) == 2
    assert not site.requests


def test_size_is_bounded_as_declared_and_as_sent(site: Site, tmp_path: Path) -> None:
    big = b"x" * (3 << 20)
    with pytest.raises(DocumentError, match="larger than 1 MB: download it yourself"):
        get(site.serve("/declared", big), tmp_path, most_bytes=1 << 20)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"y" * 65536)
        except OSError:
            return

    site.pages["/endless"] = endless
    with pytest.raises(DocumentError, match="larger than 1 MB"):
        get(f"{site.url}/endless", tmp_path, most_bytes=1 << 20)


def test_a_packed_answer_is_unpacked_by_the_reader_of_packed_files(site: Site, tmp_path: Path) -> None:
    """It was not asked for. What it holds is bounded there, and a cut is named."""
    url = site.serve("/packed", gzip.compress(PAGE), Content_Encoding="gzip")
    loaded = load([UrlSource(url, ("127.0.0.1",))], tmp_path / "c")
    assert [one.kind for one in loaded.context.documents] == ["html"]
    with pytest.raises(DocumentError, match="not supported"):
        get(site.serve("/br", PAGE, Content_Encoding="br"), tmp_path)


def test_a_cut_download_is_an_error(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be downloaded"):
        get(site.serve("/cut", PAGE, Content_Length="5000"), tmp_path)
    with pytest.raises(DocumentError, match="is empty"):
        get(site.serve("/empty", b""), tmp_path)


@pytest.mark.parametrize("kind", ["video/mp4", "audio/mpeg", "font/woff2", "application/x-msdownload"])
def test_types_without_text_are_refused_before_they_are_read(site: Site, kind: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=f"is {kind}, which holds no text"):
        get(site.serve("/x", PAGE, Content_Type=kind), tmp_path)


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "does not exist"), (403, "needs a login"), (500, "try again later"), (204, "HTTP 204")],
)
def test_other_answers(site: Site, status: int, says: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=says):
        get(site.serve("/x", b"", status), tmp_path)


def test_a_declared_charset_becomes_utf8(site: Site, tmp_path: Path) -> None:
    text = "Die Kündigungsfrist beträgt drei Wochen, сказал он."
    url = site.serve("/de", text.encode("cp1251", "replace"), Content_Type="text/plain; charset=windows-1251")
    assert get(url, tmp_path)[2].decode("utf-8-sig").endswith("сказал он.")
    url = site.serve("/odd", b"abc", Content_Type="text/plain; charset=punycode")
    assert get(url, tmp_path)[2] == b"abc"


def test_the_first_bytes_are_checked_before_the_rest_is_read(site: Site, tmp_path: Path) -> None:
    class Refused(Exception):
        pass

    def check(name: str, first: bytes) -> None:
        assert (name, len(first) >= 64 * 1024) == ("disk.img", True)
        raise Refused

    with pytest.raises(Refused):
        get(
            site.serve("/disk.img", b"\0" * (8 << 20), Content_Type="application/octet-stream"),
            tmp_path,
            check=check,
        )


def test_a_silent_server_can_be_left_at_any_time(site: Site, tmp_path: Path) -> None:
    site.pages["/slow"] = lambda handler: time.sleep(20)

    class Stop(Exception):
        pass

    begun = time.monotonic()

    def tick() -> None:
        if time.monotonic() > begun + 0.5:
            raise Stop

    with pytest.raises(Stop):
        get(f"{site.url}/slow", tmp_path, tick=tick)
    assert time.monotonic() < begun + 3


def test_the_proxy_of_the_environment_is_used(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:word@127.0.0.1:{site.port}")
    site.pages["http://docs.example.org/lease.txt"] = None
    site.serve("http://docs.example.org/lease.txt", PAGE, Content_Type="text/plain")
    assert get("http://docs.example.org/lease.txt", tmp_path, "x.example")[2] == PAGE
    assert site.requests[-1][1]["proxy-authorization"].startswith("Basic ")
    for host in ("localhost", "127.0.0.1", "printer", "metadata.google.internal"):
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(DocumentError, match=r"private network"):
            get(f"http://{host}/", tmp_path, "x.example")
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(DocumentError, match="SOCKS proxy"):
        get("http://docs.example.org/", tmp_path)


@pytest.mark.parametrize(
    ("url", "kind", "name"),
    [
        ("https://a.b/", "text/html", "index.html"),
        ("https://a.b/x.pdf", "text/html", "x.pdf.html"),
        ("https://a.b/x.py", "text/plain", "x.py"),
        ("https://a.b/x%20y.csv?z=1", "text/csv", "x y.csv"),
        ("https://a.b/get", "application/pdf", "get.pdf"),
        ("https://a.b/get", "application/octet-stream", "get"),
        ("https://a.b/x.docx", "application/zip", "x.docx"),
        ("https://a.b/logs", "application/gzip", "logs.gz"),
    ],
)
def test_the_name_that_tells_the_kind(url: str, kind: str, name: str) -> None:
    assert file_name(url, kind) == name


def test_credentials_in_a_query_are_not_shown() -> None:
    signed = "https://b.s3.example/a.txt?X-Amz-Signature=abc&page=2&access_token=t#x"
    assert public_name(signed) == "https://b.s3.example/a.txt?X-Amz-Signature=…&page=2&access_token=…"
    with pytest.raises(DocumentError, match="user name or password") as raised:
        get("https://me:hunter2@a.example/", Path("/tmp"))
    assert "hunter2" not in str(raised.value)
