"""Test that a key of compatible servers goes to the servers that it is bound to, and to no other."""

from __future__ import annotations

import pytest

from rlm.errors import ConfigurationError, ModelRejected
from rlm.journal.redaction import secrets_of
from rlm.models import Message, ModelOptions, Request, resolve

VARIABLE = "RLM_OPENAI_COMPATIBLE_KEY"
KEY = "sk-bound-0123456789"


def env(hosts: str) -> dict[str, str]:
    return {VARIABLE: KEY, f"{VARIABLE}_HOST": hosts}


def sent(url: str, hosts: str) -> bool:
    """Return whether a model at `url` would get the key."""
    return resolve(f"openai:m@{url}", env(hosts))._endpoint.key == KEY  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://openrouter.ai/api/v1", "openrouter.ai"),
        ("https://OpenRouter.ai./api/v1", "openrouter.ai"),
        ("https://openrouter.ai:443/api/v1", "openrouter.ai"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/api/v1", "127.0.0.1:8000, openrouter.ai"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("http://localhost:8000/v1", "localhost:8000"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("http://gpu.lan/v1", "gpu.lan:80"),
    ],
)
def test_a_bound_key_goes_to_its_server(url: str, hosts: str) -> None:
    assert sent(url, hosts)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://openrouter.ai.evil.org/v1", "openrouter.ai"),
        ("https://evil-openrouter.ai/v1", "openrouter.ai"),
        ("https://api.openrouter.ai/v1", "openrouter.ai"),
        ("http://openrouter.ai/v1", "openrouter.ai"),
        ("http://openrouter.ai:443/v1", "openrouter.ai"),
        ("https://openrouter.ai:8443/v1", "openrouter.ai"),
        ("https://ｏpenrouter.ai/v1", "openrouter.ai"),
        ("http://127.0.0.1:8001/v1", "127.0.0.1:8000"),
        ("http://localhost:8000/v1", "127.0.0.1:8000"),
        ("http://gpu.lan:8000/v1", "https://gpu.lan:8000"),
        ("https://evil.org/openrouter.ai", "openrouter.ai"),
    ],
)
def test_it_goes_to_no_other(url: str, hosts: str) -> None:
    assert not sent(url, hosts)


@pytest.mark.parametrize("hosts", ["", "  ", ","])
async def test_a_key_that_is_bound_to_no_server_is_not_sent_and_told_once(provider_server, hosts) -> None:
    """A server of this machine that wants no key is asked all the same."""
    notes: list[str] = []
    url = f"{provider_server.url}/v1"
    model = resolve(f"openai:m@{url}", env(hosts), ModelOptions(on_refused=notes.append))
    for _ in range(2):
        assert (await model.generate(Request("child", (Message("user", "Hi"),), 100, task=""))).text == "ok"
    await model.aclose()
    assert all(KEY not in str(received.headers) for received in provider_server.requests)
    (note,) = notes
    assert f"set {VARIABLE}_HOST=127.0.0.1:{provider_server.port}" in note
    assert KEY not in note


@pytest.mark.parametrize(
    "hosts", ["*", "*.openrouter.ai", "me:pw@host", "ftp://host", "host:99999", "http://"]
)
def test_an_entry_that_is_no_server_is_an_error(hosts: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{VARIABLE}_HOST holds an entry that is no server"
    ) as caught:
        resolve("openai:m@http://127.0.0.1:8000/v1", env(hosts))
    assert "pw" not in str(caught.value)


async def test_a_server_it_is_not_bound_to_gets_none_and_a_refusal_says_so(
    provider_server, providers
) -> None:
    """A local server that needs no key works beside the key of another one."""
    request = Request("child", (Message("user", "Hi"),), 100, task="")
    model = resolve(f"openai:m@{provider_server.url}/v1", env("openrouter.ai"))
    assert (await model.generate(request)).text == "ok"
    provider_server.play(providers.Status(401, "who are you?"))
    with pytest.raises(ModelRejected, match=rf"add 127.0.0.1:\d+ to {VARIABLE}_HOST") as caught:
        await model.generate(request)
    await model.aclose()
    assert KEY not in str(caught.value)
    assert all(KEY not in str(received.headers) for received in provider_server.requests)


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"])
@pytest.mark.parametrize("url", ["http://me:hunter2@gateway/v1", "http://hunter2@gateway/v1"])
def test_a_password_in_the_url_of_a_gateway_is_refused_by_name(variable: str, url: str) -> None:
    provider = variable.partition("_")[0]
    with pytest.raises(
        ConfigurationError, match=f"{variable} holds a user name or password: .*{provider}_API_KEY"
    ) as caught:
        resolve(f"{provider.lower()}:m", {f"{provider}_API_KEY": "sk-0123456789", variable: url})
    assert "hunter2" not in str(caught.value)


def test_the_server_of_a_key_is_no_secret() -> None:
    """Blanking it would blank the server in the model's name, and the run could not be resumed."""
    assert secrets_of(env("127.0.0.1:8000")) == [KEY]
