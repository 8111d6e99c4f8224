"""Test how model servers on this machine are found: asked little, for a short time, and not believed."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from rlm.models.local_servers import find_local_servers

TAGS = {"models": [{"name": "qwen3:8b", "size": 5}, {"name": "llama3:latest"}]}
LISTED = {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm"}]}


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return variables that send every question to a port where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    names = ("OLLAMA_HOST", "VLLM_BASE_URL", "LLAMACPP_BASE_URL", "LMSTUDIO_BASE_URL")
    return dict.fromkeys(names, url)


def test_servers_that_answer_are_found_with_the_names_to_type(make_pages, nowhere) -> None:
    ollama, vllm = make_pages({"/api/tags": TAGS}), make_pages({"/v1/models": LISTED})
    found = find_local_servers(nowhere | {"OLLAMA_HOST": ollama.url, "VLLM_BASE_URL": f"{vllm.url}/v1"})
    assert [server.provider for server in found] == ["ollama", "vllm"]
    assert found[0].models == ("ollama:qwen3:8b", "ollama:llama3:latest")
    assert found[1].models == ("vllm:Qwen/Qwen3-8B",)
    assert [(asked.method, asked.path, asked.body) for asked in ollama.asked] == [("GET", "/api/tags", b"")]
    assert [(asked.method, asked.path) for asked in vllm.asked] == [("GET", "/v1/models")]
    assert "authorization" not in vllm.asked[0].headers


def test_another_program_at_a_port_is_told_by_its_list(make_pages, nowhere) -> None:
    served = make_pages({"/v1/models": {"data": [{"id": "q.gguf", "owned_by": "llamacpp"}]}})
    (found,) = find_local_servers(nowhere | {"VLLM_BASE_URL": f"{served.url}/v1"})
    assert (found.provider, found.models) == ("llamacpp", (f"llamacpp:q.gguf@{served.url}/v1",))


def test_no_other_machine_is_asked(nowhere) -> None:
    """The guard of all tests would raise if one was."""
    there = dict.fromkeys(nowhere, "http://192.0.2.1:8000")
    assert find_local_servers(there) == ()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{"models": []}',
        b'HTTP/1.1 200 OK\r\n\r\n{"models": 5}',
    ],
)
def test_whatever_listens_may_answer_anything(nowhere, answer: bytes) -> None:
    assert find_local_servers(nowhere | {"OLLAMA_HOST": _listen(answer)}) == ()


def test_names_that_nobody_could_type_are_left_out(make_pages, nowhere) -> None:
    names = ["ok", "\x1b[31mred", "a b", "x" * 300, 5, None, "a\nb"]
    served = make_pages({"/api/tags": {"models": [{"name": name} for name in names]}})
    (found,) = find_local_servers(nowhere | {"OLLAMA_HOST": served.url})
    assert found.models == ("ollama:ok",)


def test_a_server_that_trickles_or_keeps_silent_costs_a_third_of_a_second(nowhere) -> None:
    env = nowhere | {"OLLAMA_HOST": _listen(b"H" * 1_000, step=0.05), "VLLM_BASE_URL": _listen(None)}
    began = time.monotonic()
    assert find_local_servers(env) == ()
    assert time.monotonic() - began < 0.8


def test_a_connection_that_stays_open_is_no_delay(nowhere) -> None:
    body = b'{"models": [{"name": "m"}]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    (found,) = find_local_servers(nowhere | {"OLLAMA_HOST": _listen(head + body, stays=True)})
    assert found.models == ("ollama:m",)


def _listen(answer: bytes | None, *, step: float = 0.0, stays: bool = False) -> str:
    """Answer one connection with these bytes, on a thread; None answers nothing. Return the URL."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.recv(1_000)
                    if answer is None or stays:
                        connection.sendall(answer or b"")
                        time.sleep(2)
                    elif step:
                        for byte in answer:
                            connection.sendall(bytes([byte]))
                            time.sleep(step)
                    else:
                        connection.sendall(answer)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}"
