"""Embeddings from a server that speaks OpenAI's protocol: a real HTTP server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlm.errors import ConfigurationError, ModelProtocolError, ModelRejected, UsageError
from rlm.models.resolution import resolve_embedder
from rlm.retrieval import IndexCache, Retriever
from rlm.sandbox.context.writer import ContextFileWriter

pytest.importorskip("numpy", reason="extra hybrid is not installed")

GROUPS = (("car", "automobile"), ("doctor", "physician"))


class Server(ThreadingHTTPServer):
    """`broken` is what the next requests get in place of vectors: a status, or a body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None, int]] = []
        self.broken: list[int | bytes] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], len(asked["input"])))
        broken = self.server.broken.pop(0) if self.server.broken else b""
        status = broken if isinstance(broken, int) else 200
        entries = [
            {
                "index": number,
                "embedding": [*(float(any(word in text for word in group)) for group in GROUPS), 0.1],
            }
            for number, text in enumerate(asked["input"])
        ]
        body = (
            broken
            if isinstance(broken, bytes) and broken
            else json.dumps({"data": entries[::-1], "usage": {"total_tokens": len(entries)}}).encode()
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def embedder(server: Server, env: dict[str, str] | None = None) -> Any:
    return resolve_embedder(f"openai:small@{server.url}", env or {})


def test_passages_are_embedded_once_and_a_question_each_time(server, tmp_path) -> None:
    """Vectors keep the order of the texts, whatever that of the reply."""
    text = "\n\n".join(
        f"The {word} of day {n}. {'word ' * 120}" for n in range(1_000) for word in ("tree", "river")
    )
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("a.txt", "text")
        writer.write(text + "\n\nThe automobile was repaired.\n")
        body = writer.finish().open()
    with body:
        cache = IndexCache(tmp_path / "cache")
        for count in (1, 2):
            one = embedder(server)
            with Retriever(body, cache=cache, embedder=one) as retriever:
                packs = retriever.retrieve("car", limit=1, rank="hybrid")
                assert "automobile" in packs[0].text
            assert one.tokens == (1 if count == 2 else sum(texts for *_, texts in server.requests))
    assert {path for path, *_ in server.requests} == {"/v1/embeddings"}
    assert max(texts for *_, texts in server.requests) == 32


def test_a_key_goes_only_to_the_server_it_is_bound_to(server) -> None:
    embedder(server).embed(["a"])
    host = server.url.removeprefix("http://").removesuffix("/v1")
    env = {
        "RLM_OPENAI_COMPATIBLE_KEY": "sk-mine",
        "RLM_OPENAI_COMPATIBLE_KEY_HOST": host,
        "OPENAI_API_KEY": "sk-x",
    }
    embedder(server, env).embed(["a"])
    assert [key for _, key, _ in server.requests] == [None, "Bearer sk-mine"]


def test_a_busy_server_is_asked_again_and_a_wrong_one_is_named(server) -> None:
    server.broken = [503, 429]
    assert embedder(server).embed(["car", ""]).shape == (2, 3)
    server.broken = [404]
    with pytest.raises(ModelRejected, match="knows no model 'small'"):
        embedder(server).embed(["car"])
    server.broken = [b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}'] * 9
    with pytest.raises(ModelProtocolError, match="its protocol does not allow"):
        _impatient(server).embed(["car"])


def _impatient(server: Server) -> Any:
    from rlm.models.options import ModelOptions, RetryPolicy

    return resolve_embedder(
        f"openai:small@{server.url}", {}, ModelOptions(retry=RetryPolicy(attempts=2, base=0))
    )


@pytest.mark.parametrize("name", ["anthropic:claude", "extractive", "bedrock:titan"])
def test_what_has_no_such_endpoint_is_refused(name) -> None:
    with pytest.raises(ConfigurationError, match="no embeddings"):
        resolve_embedder(name, {})


def test_search_says_what_the_embeddings_took(server, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from rlm.cli.app import app

    (tmp_path / "a.txt").write_text("The automobile was repaired.\n")
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(
        app,
        [
            "search",
            "car",
            "a.txt",
            "--rank",
            "hybrid",
            "--embeddings",
            f"openai:small@{server.url}",
            "--json",
        ],
    )
    assert ran.exit_code == 0, ran.output
    assert "the embeddings took 2 tokens" in ran.stderr
    assert json.loads(ran.stdout)["packs"][0]["text"].startswith("The automobile")
    alone = CliRunner().invoke(app, ["search", "car", "a.txt", "--rank", "hybrid"])
    assert isinstance(alone.exception, UsageError)
