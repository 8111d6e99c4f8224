"""Turn a model's name into a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from rlm.errors import ConfigurationError
from rlm.models.base import EXTRACTIVE, Model
from rlm.models.catalog.addresses import gateway_of
from rlm.models.catalog.names import ModelName, check_base_url, parse_name
from rlm.models.http.endpoint import Endpoint, KeyHosts
from rlm.models.options import ModelOptions
from rlm.models.registry import PROVIDERS, ProviderSpec

__all__ = ["default_model", "resolve"]

# Stands in for the key of a server that needs none.
_NO_KEY = "no-key-set"


# What a setting may put into the host of a URL: a key must not go to another one.
_HOST_PART = re.compile(r"[A-Za-z0-9-]{1,63}")


def default_model(env: Mapping[str, str]) -> str:
    """Return the name to use where the user gave none: that of the first provider whose key is in `env`,
    else `extractive`. Providers of other packages come last."""
    from rlm.models.plugins import load_plugins

    found = _find_default(env)
    if found is None:
        load_plugins()
        found = _find_default(env)
    return found or EXTRACTIVE


def _find_default(env: Mapping[str, str]) -> str | None:
    for prefix, spec in PROVIDERS.items():
        if spec.default_model and env.get(spec.key_variable, "").strip():
            return f"{prefix}:{spec.default_model}"
    return None


def resolve(
    name: str | None,
    env: Mapping[str, str],
    options: ModelOptions | None = None,
    *,
    store: str | Path | None = None,
) -> Model:
    """Return the model called `name`, not yet connected. None means `default_model(env)`.

    Keys and gateways come from `env`, from the variables that the provider's entry in `PROVIDERS` names. A
    name with `@BASE_URL` uses `server_key_variable` alone, and only if `server_host_variable` names the
    server: no key goes to another one.
    `replay:RUN` is read at once from the journal `store`; None means that of RLM_STORE, else the default one.
    Raises ConfigurationError, whose one line says what to set, and JournalError.
    """
    options = options or ModelOptions()
    parsed = parse_name(default_model(env) if name is None else name)
    spec = PROVIDERS.get(parsed.provider)
    if spec is not None:
        module, _, factory = spec.factory.partition(":")
        make: Callable[..., Model] = getattr(import_module(module), factory)
        return make(parsed.model, _find_endpoint(parsed, spec, env), name=parsed.text, options=options)
    if parsed.provider == "scripted":
        from rlm.models.offline.scripted import DEFAULT_SIZES, ScriptedModel

        return ScriptedModel.from_file(parsed.model, window=options.info.apply_to_window(DEFAULT_SIZES))
    if parsed.provider == "replay":
        from rlm.journal import default_store
        from rlm.models.offline.journal_replay import ReplayModel

        return ReplayModel.of(parsed.model, store or env.get("RLM_STORE") or default_store(env))
    from rlm.models.offline.extractive import ExtractiveModel

    return ExtractiveModel()


def _find_endpoint(parsed: ModelName, spec: ProviderSpec, env: Mapping[str, str]) -> Endpoint:
    """Return the server that the name selects, else the gateway of `env`, else the provider itself."""
    if parsed.base_url is not None:
        return _find_server(parsed.text, parsed.base_url, spec, env)
    variable = next((name for name in spec.key_variables if env.get(name, "").strip()), None)
    if variable is None and spec.needs_key:
        raise ConfigurationError(
            f"{parsed.text} needs a key: set {spec.key_variable}, or use --model extractive, which needs none"
        )
    settings = _read_settings(parsed, spec, env)
    gateway = gateway_of(spec, env)
    if gateway:
        check_base_url(gateway, spec.base_url_variable, spec.key_variable)
    elif not spec.base_url:
        raise ConfigurationError(f"{parsed.text} needs the URL of its server: set {spec.base_url_variable}")
    return Endpoint(
        gateway or spec.base_url.format(**settings),
        _NO_KEY if variable is None else env[variable].strip(),
        variable or spec.key_variable,
        private=not spec.own_sdk,
        key_remedy="" if variable else f"set {spec.key_variable}",
        settings=tuple(settings.items()),
        self_run=spec.port is not None,
        takes_v1=spec.base_url.endswith("/v1"),
    )


def _read_settings(parsed: ModelName, spec: ProviderSpec, env: Mapping[str, str]) -> dict[str, str]:
    """Return what a provider needs besides its key."""
    settings = {}
    for name, variables in spec.settings.items():
        variable = next((one for one in variables if env.get(one, "").strip()), None)
        if variable is not None:
            settings[name] = env[variable].strip()
            if f"{{{name}}}" in spec.base_url and not _HOST_PART.fullmatch(settings[name]):
                raise ConfigurationError(f"{variable} is no {name}: use letters, digits and hyphens")
        elif name in spec.required:
            raise ConfigurationError(f"{parsed.text} needs a {name}: set {variables[0]}")
    return settings


def _find_server(name: str, url: str, spec: ProviderSpec, env: Mapping[str, str]) -> Endpoint:
    """Return the server at `url`, with the key of `server_key_variable` if that key is bound to this server.

    Anybody may name a URL: a model's name can come from a file, a stored run or a prompt of the user's team.
    So a key that is bound to no server goes to none.
    """
    assert spec.server_key_variable is not None, "parse_name takes a URL from no other name"
    variable, hosts = spec.server_key_variable, spec.server_host_variable
    url = url.removesuffix(spec.strip_from_gateway)
    key = env.get(variable, "").strip()
    server = Endpoint(url, key or _NO_KEY, variable, private=True, self_run=True)
    if spec.port is not None:
        server = replace(server, takes_v1=spec.base_url.endswith("/v1"))
    if not key:
        return replace(server, key_remedy=f"set {variable}, and {hosts}={server.address}")
    bound = KeyHosts.of(spec, env)
    if not bound:
        remedy = f"set {hosts}={server.address} if {variable} is its key"
        note = f"{name} is asked without {variable}, which is bound to no server: {remedy}"
        return replace(server, key=_NO_KEY, key_remedy=remedy, note=note)
    if server.base_url not in bound:
        remedy = f"add {server.address} to {hosts} if {variable} is its key"
        return replace(server, key=_NO_KEY, key_remedy=remedy)
    return server
