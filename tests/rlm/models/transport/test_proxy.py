"""Test proxies and certificates, from the options and from the environment."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from rlm.errors import ConfigurationError, ModelUnavailable
from rlm.models.base import Message, Request
from rlm.models.http import session
from rlm.models.options import RetryPolicy


def ask(content: str = "hello") -> Request:
    return Request("child", (Message("user", content),), 100, "task")


async def test_the_proxy_of_the_options_goes_before_that_of_the_environment(
    make_model, provider_server, monkeypatch
):
    """It is used even where the environment excludes the host."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "no.such.host.invalid")
    reply = await make_model("http://no.such.host.invalid:81", proxy=provider_server.url).generate(ask())
    assert reply.text == "ok"
    monkeypatch.delenv("no_proxy")
    reply = await make_model("http://no.such.host.invalid:82", proxy=provider_server.url).generate(ask())
    assert reply.text == "ok"


async def test_a_proxy_gets_its_own_credentials(make_model, provider_server):
    """Name and password of a proxy are in its URL. The proxy never gets the provider's key."""
    proxy = provider_server.url.replace("://", "://user:pass%20word@")
    await make_model("http://no.such.host.invalid:81", key="sk-the-key", proxy=proxy).generate(ask())
    headers = provider_server.requests[0].headers
    assert headers["proxy-authorization"] == "Basic " + b64encode(b"user:pass word").decode()
    assert headers["authorization"] == "Bearer sk-the-key"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl is needed to make a certificate")
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def tls_server(providers, certificate):
    """A ProviderServer at an https: URL that nothing trusts but `certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with providers.ProviderServer(tls=context) as server:
        yield server


async def test_a_ca_file_is_trusted_besides_the_system(make_model, tls_server, certificate):
    """CA settings are an option; without it the error says which to set, at once."""
    reply = await make_model(tls_server.url, ca_file=str(certificate[0])).generate(ask())
    assert reply.text == "ok"
    untrusted = r"certificate of localhost:.* is not trusted; set ca_file"
    with pytest.raises(ModelUnavailable, match=untrusted) as caught:
        await make_model(tls_server.url).generate(ask())
    assert "attempts" not in str(caught.value)


async def test_the_certificates_of_the_environment_are_trusted(
    make_model, tls_server, certificate, monkeypatch
):
    """SSL_CERT_FILE holds where no ca_file is given."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert (await make_model(tls_server.url).generate(ask())).text == "ok"


@asynccontextmanager
async def proxy_that(answers: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run an HTTP proxy that opens a tunnel (None), or only answers `answers`. Yields its URL and what it
    received outside of tunnels.
    """
    requests: list[bytes] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        if answers is not None:
            writer.write(answers)
            await reader.read()
            writer.close()
            return
        host, _, port = requests[-1].split(b" ")[1].decode().partition(":")
        onward, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(carry(reader, back), carry(onward, writer))

    server = await asyncio.start_server(serve_client, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()


async def test_a_proxy_sees_nothing_of_what_goes_to_an_https_endpoint(make_model, tls_server, certificate):
    """The text and the key go through a tunnel."""
    async with proxy_that(None) as (url, requests):
        proxy = url.replace("://", "://user:word@")
        model = make_model(tls_server.url, key="sk-the-key", proxy=proxy, ca_file=str(certificate[0]))
        assert (await model.generate(ask())).text == "ok"
        await model.aclose()
    (head,) = requests
    assert head.startswith(f"CONNECT localhost:{tls_server.port} ".encode())
    assert b"Proxy-Authorization: Basic " + b64encode(b"user:word") in head
    assert b"sk-the-key" not in head
    assert tls_server.requests[0].headers["authorization"] == "Bearer sk-the-key"
    assert "proxy-authorization" not in tls_server.requests[0].headers


ONCE = RetryPolicy(attempts=1)


@pytest.mark.parametrize("answers", [b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n", b""])
async def test_a_proxy_that_opens_no_tunnel_is_given_up(make_model, monkeypatch, answers):
    """The proxy refuses, or stays silent beyond the connect timeout."""
    monkeypatch.setattr(session, "_CONNECT_SECONDS", 0.3)
    async with proxy_that(answers) as (url, requests):
        model = make_model("https://localhost:9", proxy=url, retry=ONCE)
        async with asyncio.timeout(60):
            with pytest.raises(ModelUnavailable, match="localhost:9 can't be reached"):
                await model.generate(ask())
    assert len(requests) == 1


@pytest.mark.parametrize("environment", [False, True])
async def test_a_proxy_that_is_not_there_is_suspected(make_model, monkeypatch, environment):
    """It does not matter where the proxy was set."""
    with socket.socket() as held:  # bound, so that nobody else takes the port, but not listening
        held.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{held.getsockname()[1]}"
        if environment:
            monkeypatch.setenv("http_proxy", proxy)
        model = make_model("http://no.such.host.invalid", proxy=None if environment else proxy, retry=ONCE)
        with pytest.raises(ModelUnavailable, match="check the base URL and the network, and the proxy"):
            await model.generate(ask())


async def test_a_host_that_does_not_answer_is_given_up(make_model, monkeypatch):
    monkeypatch.setattr(session, "_CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        waiting = []
        for _ in range(4):  # its queue is full: the next connection is not even refused
            waiting.append(one := socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        try:
            model = make_model(f"http://127.0.0.1:{port}", retry=ONCE)
            async with asyncio.timeout(60):
                with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{port} can't be reached"):
                    await model.generate(ask())
        finally:
            for one in waiting:
                one.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ca_file": "/no/such/file.pem"}, "can't be read"),
        ({"ca_file": __file__}, "holds no certificate"),
        ({"proxy": "localhost:3128"}, "the proxy is not a usable URL"),
        ({"proxy": "http://user:secret@:80"}, "the proxy is not a usable URL"),
        ({"idle_seconds": 0}, "above 0 seconds"),
    ],
)
def test_bad_options_are_refused_before_any_call(make_model, options, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        make_model("http://localhost:1", **options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SSL_CERT_FILE", "/no/such/file.pem", "can't be read"),
        ("SSL_CERT_FILE", __file__, "holds no certificate"),
        ("HTTPS_PROXY", "http://:1", "is not a usable URL"),
        ("https_proxy", "ftp://proxy:1", "is not a usable URL"),
        ("https_proxy", "http://user:secret@:80", "is not a usable URL"),
        ("all_proxy", "proxy:99999999", "is not a URL"),
    ],
)
def test_a_bad_environment_is_refused_before_any_call(make_model, monkeypatch, variable, value, message):
    """Proxies and certificates of the environment are used; an invalid one is named in one line."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=rf"(?i){variable} .*{message}") as caught:
        make_model("https://localhost:1")
    assert "secret" not in str(caught.value)


async def test_a_good_environment_is_let_through(make_model, monkeypatch, provider_server):
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("http_proxy", provider_server.url.removeprefix("http://"))
    assert (await make_model("http://no.such.host.invalid:81").generate(ask())).text == "ok"
    monkeypatch.setenv("all_proxy", "ftp://garbage")
    monkeypatch.setenv("no_proxy", "*")
    assert (await make_model(provider_server.url).generate(ask())).text == "ok"
    assert "://" not in provider_server.requests[-1].path


async def test_a_socks_proxy_is_refused_where_it_would_be_used(make_model, monkeypatch):
    """An unsupported proxy is reported before any call, and only if the endpoint needs it."""
    monkeypatch.setenv("all_proxy", "socks5://localhost:1080")
    with pytest.raises(ConfigurationError, match="over a SOCKS proxy"):
        make_model("http://provider.example:81")
    monkeypatch.setenv("no_proxy", "provider.example")
    make_model("http://provider.example:81")
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", "http://localhost:3128")
    make_model("http://provider.example:81")
