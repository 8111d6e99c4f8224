"""`rlm models`: the providers, which keys are set, servers on this machine, windows and prices."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import typer

from rlm.cli.options import Options, takes
from rlm.escaping import json_bytes, terminal_line
from rlm.models import default_model
from rlm.models.catalog.info import price, window_of
from rlm.models.catalog.names import parse_name
from rlm.models.http.endpoint import KeyHosts
from rlm.models.local_servers import LocalServer, find_local_servers
from rlm.models.plugins import load_plugins, plugin_package
from rlm.models.registry import PROVIDERS, known_models
from rlm.results import TokenUsage

__all__ = ["describe_server", "models"]

_MOST_NAMES = 5

_SAMPLE_TOKENS = 1_000
"""Tokens of the call whose price is shown. Long prompts may have a higher rate."""


@takes("json", tables=("models",))
def models(
    *,
    options: Options,
) -> None:
    """List providers, windows and prices, which keys are set, and servers on this machine.

    The values of keys are never shown. The usual ports of this machine are asked for their models.

    \b
    Examples:
      rlm models
      rlm models --config rlm.toml --json
    """
    own = options.files.models
    broken = load_plugins()
    hosts = _list_key_hosts()
    providers = _list_providers()
    servers = find_local_servers(os.environ)
    rows = [_build_row(name, own) for name in sorted({*known_models(), *own})]
    default = default_model(os.environ)
    if options.json:
        facts = {
            "default": default,
            "keys": {variable: _is_set(variable) for variable in [*_key_variables(), *hosts]},
            "key_hosts": hosts,
            "providers": providers,
            "servers": [asdict(server) for server in servers],
            "broken": broken,
            "models": rows,
        }
        typer.echo(json_bytes(facts, indent=2))
        return
    typer.echo("Providers: name their models PROVIDER:NAME or PROVIDER/NAME")
    for provider in providers:
        typer.echo(_describe_provider(provider))
    for variable, bound in hosts.items():
        state = f"set, for {', '.join(bound) or 'no server'}" if _is_set(variable) else "not set"
        typer.echo(f"openai:NAME@URL: {variable} is {state}")
    for fault in broken:
        typer.echo(terminal_line(fault))
    typer.echo("\nServers on this machine: they cost nothing")
    for server in servers:
        typer.echo(terminal_line(describe_server(server)))
    answered = {server.provider for server in servers}
    silent = [f"{one['provider']} ({one['port']})" for one in providers if one["port"] is not None]
    silent = [name for name in silent if name.partition(" ")[0] not in answered]
    if silent:
        typer.echo(f"no answer from {', '.join(silent)}")
    typer.echo(f"\ndefault: {terminal_line(default)}\n")
    typer.echo(f"{'model':<32} {'window':>9} {'reply':>7}  dollars for a million tokens")
    for row in rows:
        cost = (
            "unknown"
            if row["input_price"] is None
            else f"{row['input_price']:g} in, {row['output_price']:g} out"
        )
        window = f"{row['window']:,}{'?' if 'guessed' in row else ''}"
        typer.echo(f"{terminal_line(row['name']):<32} {window:>9} {row['output']:>7,}  {cost}")
    typer.echo("\nSet windows and prices of other models in rlm.toml (rlm init).")


def describe_server(server: LocalServer) -> str:
    """Return one line about a server on this machine: what to type for its models."""
    shown = ", ".join(server.models[:_MOST_NAMES])
    more = f", and {len(server.models) - _MOST_NAMES} more" if len(server.models) > _MOST_NAMES else ""
    names = f"{shown}{more}" if server.models else "it has no model yet"
    return f"{server.title} at {urlsplit(server.base_url).netloc}: {names}"


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _key_variables() -> list[str]:
    return list(dict.fromkeys(name for spec in PROVIDERS.values() for name in spec.key_variables))


def _list_providers() -> list[dict[str, Any]]:
    """Return the facts of each provider: its variables, and whether all that it needs is set."""
    listed = []
    for prefix, spec in PROVIDERS.items():
        needed = [spec.settings[name] for name in spec.required]
        needed += [] if spec.base_url else [(spec.base_url_variable,)]
        missing = [names[0] for names in needed if not any(map(_is_set, names))]
        listed.append(
            {
                "provider": prefix,
                "title": spec.title or prefix,
                "key_variables": list(spec.key_variables),
                "key_set": any(map(_is_set, spec.key_variables)),
                "needs_key": spec.needs_key,
                "missing": missing,
                "base_url_variable": spec.base_url_variable,
                "base_url_set": _is_set(spec.base_url_variable),
                "port": spec.port,
                "extra": spec.extra or None,
                "package": plugin_package(prefix),
            }
        )
    return listed


def _describe_provider(provider: dict[str, Any]) -> str:
    names = provider["key_variables"]
    name = next((one for one in names if _is_set(one)), names[0])
    optional = "" if provider["needs_key"] else " (optional)"
    line = f"{provider['provider']}: {name} is {'set' if provider['key_set'] else f'not set{optional}'}"
    if provider["missing"] and not provider["needs_key"]:
        line = f"{provider['provider']}: set {' and '.join(provider['missing'])}"
    elif provider["missing"]:
        line += f"; set {' and '.join(provider['missing'])}"
    if provider["base_url_set"]:
        line += f"; goes to {provider['base_url_variable']}"
    if provider["package"] is not None:
        line += f"; from the package {provider['package']}"
    return line


def _list_key_hosts() -> dict[str, list[str]]:
    """Return the servers to which the keys of compatible servers may go, by variable. Raises
    ConfigurationError for an entry that is no server."""
    return {
        spec.server_key_variable: KeyHosts.of(spec, os.environ).names
        for spec in PROVIDERS.values()
        if spec.server_key_variable is not None
    }


def _build_row(name: str, own: Any) -> dict[str, Any]:
    facts = own.get(name)
    parsed = parse_name(name)
    window = window_of(parsed.model, parsed.provider)
    if facts is not None:
        window = facts.apply_to_window(window)

    def cost(usage: TokenUsage) -> float | None:
        dollars = price(name, usage, own)
        return None if dollars is None else round(dollars * 1_000_000 / _SAMPLE_TOKENS, 6)

    return {
        "name": name,
        "window": window.context,
        "output": window.output,
        "input_price": cost(TokenUsage(input_tokens=_SAMPLE_TOKENS)),
        "output_price": cost(TokenUsage(output_tokens=_SAMPLE_TOKENS)),
        **({} if window.known else {"guessed": True}),
    }
