"""`rlm models`: the providers, which keys are set, windows and prices of known models."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from rlm.cli.config import ConfigOption, facts_in_force

__all__ = ["models"]

_SAMPLE_TOKENS = 1_000
"""Tokens of the call whose price is shown. Long prompts may have a higher rate."""


def models(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    config: ConfigOption = None,
) -> None:
    """List providers, windows and prices, and which keys are set.

    The values of keys are never shown.

    \b
    Examples:
      rlm models
      rlm models --config rlm.toml --json
    """
    from rlm.escaping import json_bytes, terminal_line
    from rlm.models import default_model
    from rlm.models.catalog.windows import known_models

    own = facts_in_force(ctx)
    variables = _list_key_variables()
    hosts = _list_key_hosts()
    keys = {variable: bool(os.environ.get(variable, "").strip()) for variable in variables.values()}
    rows = [_build_row(name, own) for name in sorted({*known_models(), *own})]
    if as_json:
        facts = {"default": default_model(os.environ), "keys": keys, "key_hosts": hosts, "models": rows}
        typer.echo(json_bytes(facts, indent=2))
        return
    for provider, variable in variables.items():
        bound = (
            f", for {', '.join(hosts[variable]) or 'no server'}" if hosts.get(variable) is not None else ""
        )
        typer.echo(f"{provider}: {variable} is {f'set{bound}' if keys[variable] else 'not set'}")
    typer.echo(f"default: {terminal_line(default_model(os.environ))}\n")
    typer.echo(f"{'model':<40} {'window':>10} {'reply':>9}   dollars per million tokens, in and out")
    for row in rows:
        cost = (
            "unknown"
            if row["input_price"] is None
            else f"{row['input_price']:g} in, {row['output_price']:g} out"
        )
        typer.echo(f"{terminal_line(row['name']):<40} {row['window']:>10,} {row['output']:>9,}   {cost}")
    typer.echo("\nSet windows and prices of other models in rlm.toml (rlm init). extractive needs no model.")


def _list_key_variables() -> dict[str, str]:
    """Return the variables that hold keys, by the form of name that uses each."""
    from rlm.models.registry import PROVIDERS

    variables = {prefix: spec.key_variable for prefix, spec in PROVIDERS.items()}
    for prefix, spec in PROVIDERS.items():
        if spec.server_key_variable is not None:
            variables[f"{prefix}:NAME@URL"] = spec.server_key_variable
    return variables


def _list_key_hosts() -> dict[str, list[str]]:
    """Return the servers to which the keys of compatible servers may go, by variable. Raises
    ConfigurationError for an entry that is no server."""
    from rlm.models.http.key_hosts import KeyHosts
    from rlm.models.registry import PROVIDERS

    return {
        spec.server_key_variable: KeyHosts.of(spec, os.environ).names
        for spec in PROVIDERS.values()
        if spec.server_key_variable is not None
    }


def _build_row(name: str, own: Any) -> dict[str, Any]:
    from rlm.models.catalog.names import parse_name
    from rlm.models.catalog.prices import price
    from rlm.models.catalog.windows import window_of
    from rlm.results import TokenUsage

    facts = own.get(name)
    window = window_of(parse_name(name).model)
    if facts is not None:
        window = facts.apply_to_window(window) or window

    def cost(usage: TokenUsage) -> float | None:
        own_price = None if facts is None else facts.price(usage)
        dollars = price(name, usage) if own_price is None else own_price
        return None if dollars is None else round(dollars * 1_000_000 / _SAMPLE_TOKENS, 6)

    return {
        "name": name,
        "window": window.context,
        "output": window.output,
        "input_price": cost(TokenUsage(input_tokens=_SAMPLE_TOKENS)),
        "output_price": cost(TokenUsage(output_tokens=_SAMPLE_TOKENS)),
    }
