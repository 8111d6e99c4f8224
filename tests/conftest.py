"""Provide the guards that hold for every test, and the servers that tests talk to."""

from __future__ import annotations

import importlib.util
import ipaddress
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_SECRETS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "RLM_OPENAI_COMPATIBLE_KEY",
    "RLM_OPENAI_COMPATIBLE_KEY_HOST",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "TOGETHER_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "OLLAMA_API_KEY",
    "OLLAMA_HOST",
    "VLLM_API_KEY",
    "LLAMACPP_API_KEY",
    "LM_API_TOKEN",
)
# How long an example takes depends on the machine. benchmarks/ measures times.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell that starts a job in the background makes it ignore these signals, and the processes of a test
# inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        default = signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, default)

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def _load(name: str) -> ModuleType:
    """Load a shared module by its path. tests/ is not a package, because it would shadow the real ones."""
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_load("provider_shapes/provider_streams")
_provider_server = _load("provider_server")
for _shared in (
    "batch_server",
    "provider_shapes/recorded_traffic",
    "provider_shapes/official_sdks",
    "provider_shapes/conformance_models",
    "compound_file",
    "document_tree",
    "driver_processes",
    "handmade_pdf",
    "mcp_clients",
    "scoped_segments",
):
    _load(_shared)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture(autouse=True)
def no_paid_api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test a new home, no key and no way off this machine. Children inherit the first two."""
    for variable in (*_SECRETS, *_PROXIES):
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path / "home"
    for variable, folder in {
        "HOME": "",
        "XDG_CONFIG_HOME": ".config",
        "XDG_CACHE_HOME": ".cache",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
    }.items():
        monkeypatch.setenv(variable, str(home / folder))
    home.mkdir()
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_this_machine(address[0]):
            raise PermissionError(f"a test tried to reach {address[0]}: tests stay on this machine")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture
def providers() -> ModuleType:
    """Return the module tests/provider_server.py: `ProviderServer` and its behaviours."""
    return _provider_server


@pytest.fixture
def provider_server() -> Iterator[Any]:
    """Yield a running ProviderServer that answers `ok` in both protocols."""
    with _provider_server.ProviderServer() as server:
        yield server


@pytest.fixture
def batch_server() -> Iterator[Any]:
    """Yield a running BatchServer (tests/batch_server.py), which answers `ok` in both protocols."""
    with sys.modules["batch_server"].BatchServer() as server:
        yield server


@pytest.fixture
def otlp_collector() -> Any:
    """Return the class Collector of tests/otlp_collector.py. Needs the extra `otel`."""
    return _load("otlp_collector").Collector


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Yield the URL of a real PostgreSQL server (see tests/postgres_server.py). Skips the test if there is
    none.
    """
    with _load("postgres_server").running_server() as url:
        yield url


@pytest.fixture
def restartable_postgres() -> Iterator[Any]:
    """Yield the URL of a database on a server of this test alone, and `restart(pause)`, which stops the
    server for `pause` seconds. Skips the test if there is no PostgreSQL.
    """
    postgres = _load("postgres_server")
    with postgres.restartable_server() as (url, restart), postgres.database(url) as own:
        yield own, restart


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Yield the `postgresql://…` URL of an empty database of this test alone."""
    with sys.modules["postgres_server"].database(postgres_server) as url:
        yield url


@pytest.fixture(params=["anthropic", "openai"])
async def make_model(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Yield `make_model(url, key=..., **options)`, once for each protocol. It returns a provider's Model for
    the server at `url`. Its retries hardly wait, and it is closed after the test."""
    from rlm.models.http.endpoint import Endpoint
    from rlm.models.options import ModelOptions, RetryPolicy
    from rlm.models.providers.anthropic import AnthropicModel
    from rlm.models.providers.openai import OpenAIModel

    made: list[AnthropicModel | OpenAIModel] = []
    protocol = request.param

    def make(url: str, *, key: str = "sk-test-0123456789", **options: Any) -> AnthropicModel | OpenAIModel:
        chosen = ModelOptions(**{"retry": RetryPolicy(base=0.001, cap=0.002), **options})
        if protocol == "anthropic":
            made.append(AnthropicModel("m", Endpoint(url, key, "ANTHROPIC_API_KEY"), options=chosen))
        else:
            made.append(OpenAIModel("m", Endpoint(f"{url}/v1", key, "OPENAI_API_KEY"), options=chosen))
        return made[-1]

    make.protocol = protocol  # type: ignore[attr-defined]
    yield make
    for model in made:
        await model.aclose()
