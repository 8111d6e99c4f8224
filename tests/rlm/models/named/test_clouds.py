"""Test Azure, Bedrock and Vertex: requests as their SDKs make and sign them, with our retries and bounds."""

from __future__ import annotations

import base64
import binascii
import json
import struct

import pytest
from provider_server import Answer, anthropic_events, openai_events

from rlm.errors import ConfigurationError, ModelProtocolError, ModelRejected
from rlm.models import Message, ModelOptions, Request, RetryPolicy, resolve
from rlm.models.http.reply_limits import ReplyTooLarge
from rlm.models.providers.clouds import EventStreamDecoder

REQUEST = Request("child", (Message("system", "S"), Message("user", "Hi")), 100, task="")
QUICK = ModelOptions(retry=RetryPolicy(base=0.001, cap=0.002, attempts=3))
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


async def ask(name: str, env: dict[str, str]):
    model = resolve(name, env, QUICK)
    try:
        return await model.generate(REQUEST)
    finally:
        await model.aclose()


def chat(text: str = "ok") -> bytes:
    return b"".join(openai_events(Answer(text, usage=(7, 2, 0))))


def messages_events(text: str = "ok") -> list[dict]:
    stream = b"".join(anthropic_events(Answer(text, usage=(9, 4, 0))))
    return [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: ")]


def frame(payload: bytes, **headers: str) -> bytes:
    """Return one frame of AWS's event stream, as Bedrock sends it."""
    named = {
        ":event-type": "chunk",
        ":content-type": "application/json",
        ":message-type": "event",
        **{f":{name.replace('_', '-')}": value for name, value in headers.items()},
    }
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in named.items()
    )
    total = 12 + len(head) + len(payload) + 4
    prelude = struct.pack(">II", total, len(head))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    body = prelude + head + payload
    return body + struct.pack(">I", binascii.crc32(body))


def chunk(event: dict) -> bytes:
    data = base64.b64encode(json.dumps(event).encode()).decode()
    return frame(json.dumps({"bytes": data, "p": "abcdef"}).encode())


def bedrock_stream(*events: dict) -> bytes:
    return b"".join(map(chunk, events or messages_events()))


AZURE = {"AZURE_OPENAI_API_KEY": "azure-key-0123456789"}


async def test_azure_with_a_version_addresses_the_deployment(pages, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: openai-only")
    pages.pages["/openai/deployments/my-gpt/chat/completions"] = lambda _: (200, "text/event-stream", chat())
    env = AZURE | {"AZURE_OPENAI_ENDPOINT": f"{pages.url}/", "OPENAI_API_VERSION": "2024-10-21"}
    reply = await ask("azure:my-gpt", env)
    assert (reply.text, reply.usage.input_tokens) == ("ok", 7)
    (asked,) = pages.asked
    assert asked.path == "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    assert asked.headers["api-key"] == AZURE["AZURE_OPENAI_API_KEY"]
    assert "max_completion_tokens" in asked.json
    assert "authorization" not in asked.headers
    assert "openai-organization" not in asked.headers
    assert "x-secret" not in asked.headers


@pytest.mark.parametrize("ending", ["", "/", "/openai", "/openai/v1/"])
async def test_azure_without_a_version_uses_its_newer_api(pages, ending: str) -> None:
    pages.pages["/openai/v1/chat/completions"] = lambda _: (200, "text/event-stream", chat())
    reply = await ask("azure/my-gpt", AZURE | {"AZURE_OPENAI_ENDPOINT": f"{pages.url}{ending}"})
    assert reply.text == "ok"
    assert pages.asked[0].json["model"] == "my-gpt"
    assert pages.asked[0].headers["authorization"] == "Bearer azure-key-0123456789"


async def test_azure_takes_a_token_of_entra(pages) -> None:
    pages.pages["/openai/deployments/d/chat/completions"] = lambda _: (200, "text/event-stream", chat())
    env = {"AZURE_OPENAI_AD_TOKEN": "entra-token-1", "AZURE_OPENAI_ENDPOINT": pages.url}
    await ask("azure:d", env | {"OPENAI_API_VERSION": "2024-10-21"})
    assert pages.asked[0].headers["authorization"] == "Bearer entra-token-1"
    assert "api-key" not in pages.asked[0].headers


@pytest.mark.parametrize(
    ("name", "env", "message"),
    [
        ("azure:d", {}, "azure:d needs a key: set AZURE_OPENAI_API_KEY"),
        ("azure:d", AZURE, "azure:d needs the URL of its server: set AZURE_OPENAI_ENDPOINT"),
        ("bedrock:x", {}, "bedrock:x needs a region: set AWS_REGION"),
        ("bedrock:x", {"AWS_REGION": "eu.evil.org/x"}, "AWS_REGION is no region: use letters"),
        (
            "bedrock:x",
            {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIA1"},
            "needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        ("vertex:x", {"GOOGLE_CLOUD_PROJECT": "p"}, "vertex:x needs a location: set GOOGLE_CLOUD_LOCATION"),
    ],
)
def test_what_is_missing_is_named(name: str, env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(name, env)
    assert message in str(caught.value)


AWS = {
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "session-token-1",
}


def sign_again(asked, url: str) -> str:
    """Return the signature that AWS would compute from what it received."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    credentials = Credentials(
        AWS["AWS_ACCESS_KEY_ID"], AWS["AWS_SECRET_ACCESS_KEY"], AWS["AWS_SESSION_TOKEN"]
    )
    signed = asked.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest(
        "POST", f"{url}{asked.path}", {name: asked.headers[name] for name in signed}, asked.body
    )
    request.context["timestamp"] = asked.headers["x-amz-date"]
    signer = SigV4Auth(credentials, "bedrock", "eu-west-1")
    canonical = signer.canonical_request(request)
    return signer.signature(signer.string_to_sign(request, canonical), request)


async def test_bedrock_signs_each_request_and_its_frames_are_read(pages, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Secret: anthropic-only")
    path = f"/model/{CLAUDE}/invoke-with-response-stream"
    stream = bedrock_stream()
    pages.pages[path] = lambda _: (200, "application/vnd.amazon.eventstream", stream)
    reply = await ask(f"bedrock:{CLAUDE}", AWS | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url})
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("ok", 9, 4)
    (asked,) = pages.asked
    assert asked.json["anthropic_version"]
    assert "model" not in asked.json
    assert "stream" not in asked.json
    assert asked.headers["x-amz-security-token"] == "session-token-1"
    assert "x-secret" not in asked.headers
    # The signature covers what was really sent, whatever our transport changes.
    signature = asked.headers["authorization"].partition("Signature=")[2]
    assert signature == sign_again(asked, pages.url)


async def test_bedrock_takes_a_bearer_token(pages) -> None:
    stream = bedrock_stream()
    pages.pages[f"/model/{CLAUDE}/invoke-with-response-stream"] = lambda _: (
        200,
        "application/vnd.amazon.eventstream",
        stream,
    )
    env = {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-token-1"}
    await ask(f"bedrock/{CLAUDE}", env | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url})
    assert pages.asked[0].headers["authorization"] == "Bearer bedrock-token-1"


async def test_other_models_of_bedrock_speak_chat_completions(pages) -> None:
    pages.pages["/openai/v1/chat/completions"] = lambda _: (200, "text/event-stream", chat("hey"))
    env = {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-token-1"}
    env |= {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url}
    assert (await ask("bedrock:openai.gpt-oss-120b-1:0", env)).text == "hey"
    assert pages.asked[0].json["model"] == "openai.gpt-oss-120b-1:0"
    assert pages.asked[0].headers["authorization"] == "Bearer bedrock-token-1"
    signed = AWS | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url}
    assert (await ask("bedrock:openai.gpt-oss-120b-1:0", signed)).text == "hey"
    assert "AWS4-HMAC-SHA256" in pages.asked[1].headers["authorization"]


async def test_bedrock_without_credentials_says_what_to_set_and_is_not_retried(pages) -> None:
    env = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url}
    with pytest.raises(ModelRejected, match=r"no credentials for .*; set AWS_BEARER_TOKEN_BEDROCK, or"):
        await ask(f"bedrock:{CLAUDE}", env)
    assert pages.asked == []


async def test_an_exception_amid_bedrocks_stream_is_retried(pages) -> None:
    throttled = frame(
        b'{"message": "Too many tokens, please wait before trying again."}',
        message_type="exception",
        exception_type="throttlingException",
    )
    answers = [bedrock_stream(*messages_events()[:4]) + throttled, bedrock_stream(*messages_events("fine"))]
    pages.pages[f"/model/{CLAUDE}/invoke-with-response-stream"] = lambda _: (
        200,
        "application/vnd.amazon.eventstream",
        answers.pop(0),
    )
    reply = await ask(f"bedrock:{CLAUDE}", AWS | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url})
    assert reply.text == "fine"
    assert reply.usage.input_tokens == 18


async def test_a_damaged_frame_is_no_reply(pages) -> None:
    damaged = bytearray(bedrock_stream())
    damaged[40] ^= 0xFF
    pages.pages[f"/model/{CLAUDE}/invoke-with-response-stream"] = lambda _: (
        200,
        "application/vnd.amazon.eventstream",
        bytes(damaged),
    )
    with pytest.raises(ModelProtocolError):
        await ask(f"bedrock:{CLAUDE}", AWS | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": pages.url})


def test_frames_are_decoded_in_any_pieces_and_bounded() -> None:
    stream = bedrock_stream()
    whole = EventStreamDecoder().feed(stream)
    decoder = EventStreamDecoder()
    pieces = [event for start in range(len(stream)) for event in decoder.feed(stream[start : start + 1])]
    assert pieces == whole
    assert [json.loads(event)["type"] for event in whole] == [event["type"] for event in messages_events()]
    with pytest.raises(ReplyTooLarge):
        EventStreamDecoder().feed(struct.pack(">III", 2**31, 0, 0))
    with pytest.raises(ValueError, match="shorter"):
        EventStreamDecoder().feed(struct.pack(">III", 4, 0, 0))


GOOGLE = {"GOOGLE_CLOUD_PROJECT": "my-project", "GOOGLE_CLOUD_LOCATION": "europe-west1"}


async def test_claude_on_vertex(pages) -> None:
    root = "/v1/projects/my-project/locations/europe-west1/publishers/anthropic/models"
    stream = b"".join(anthropic_events(Answer()))
    pages.pages[f"{root}/claude-sonnet-4-5@20250929:streamRawPredict"] = lambda _: (
        200,
        "text/event-stream",
        stream,
    )
    env = GOOGLE | {"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.token", "VERTEX_BASE_URL": f"{pages.url}/v1"}
    reply = await ask("vertex:claude-sonnet-4-5@20250929", env)
    assert reply.text == "ok"
    (asked,) = pages.asked
    assert asked.headers["authorization"] == "Bearer ya29.token"
    assert "model" not in asked.json
    assert asked.json["anthropic_version"]


async def test_gemini_on_vertex_with_a_service_account(pages, monkeypatch, tmp_path) -> None:
    """Google's own library gets the token from the account's file, here from a server of this machine."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "other",
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "me@my-project.iam.gserviceaccount.com",
        "token_uri": f"{pages.url}/token",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    pages.pages["/token"] = {"access_token": "ya29.fresh", "expires_in": 3600, "token_type": "Bearer"}
    root = "/v1/projects/my-project/locations/europe-west1"
    pages.pages[f"{root}/endpoints/openapi/chat/completions"] = lambda _: (200, "text/event-stream", chat())
    model = resolve("vertex:gemini-2.5-pro", GOOGLE | {"VERTEX_BASE_URL": f"{pages.url}/v1"}, QUICK)
    for _ in range(2):
        assert (await model.generate(REQUEST)).text == "ok"
    await model.aclose()
    assert [asked.path for asked in pages.asked].count("/token") == 1
    assert pages.asked[-1].headers["authorization"] == "Bearer ya29.fresh"
    assert pages.asked[-1].json["model"] == "google/gemini-2.5-pro"


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gemini-2.5-pro"])
async def test_vertex_without_credentials_says_what_to_do(pages, monkeypatch, tmp_path, model: str) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ModelRejected, match=r"no credentials for .*; run `gcloud auth application-default"):
        await ask(f"vertex:{model}", GOOGLE | {"VERTEX_BASE_URL": f"{pages.url}/v1"})
    assert pages.asked == []


def test_locations_that_are_no_region_have_servers_of_their_own() -> None:
    def url(location: str) -> str:
        env = GOOGLE | {"GOOGLE_CLOUD_LOCATION": location, "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.token"}
        return resolve("vertex:gemini-2.5-pro", env)._endpoint.base_url  # type: ignore[attr-defined]

    assert url("europe-west1") == "https://europe-west1-aiplatform.googleapis.com/v1"
    assert url("global") == "https://aiplatform.googleapis.com/v1"
    assert url("eu") == "https://aiplatform.eu.rep.googleapis.com/v1"
