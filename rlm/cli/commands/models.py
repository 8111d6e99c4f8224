"""`rlm models`: the providers, which keys are set, and what the models known by name take and cost."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from rlm.cli.config import ConfigOption, settings_in_force

__all__ = ["models"]

_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai:NAME@URL": "RLM_OPENAI_COMPATIBLE_KEY",
}
_A_THOUSAND = 1_000
"""Tokens a price is asked for: long prompts may have another rate."""


def models(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    config: ConfigOption = None,
) -> None:
    """List providers, which keys are set (never their values), and models with windows and prices.

    \b
    Examples:
      rlm models
      rlm models --config rlm.toml --json
    """
    from rlm.cli.console.render_result import json_bytes
    from rlm.models import default_model

    own = settings_in_force(ctx).models
    keys = {variable: bool(os.environ.get(variable, "").strip()) for variable in _KEYS.values()}
    rows = [_row(name, own) for name in sorted({*_known(), *own})]
    if as_json:
        typer.echo(json_bytes({"default": default_model(os.environ), "keys": keys, "models": rows}, indent=2))
        return
    for provider, variable in _KEYS.items():
        typer.echo(f"{provider}: {variable} is {'set' if keys[variable] else 'not set'}")
    typer.echo(f"default: {default_model(os.environ)}\n")
    typer.echo(f"{'model':<40} {'window':>10} {'reply':>9}   dollars for a million tokens, in and out")
    for row in rows:
        cost = (
            "not known"
            if row["input_price"] is None
            else f"{row['input_price']:g} in, {row['output_price']:g} out"
        )
        typer.echo(f"{row['name']:<40} {row['window']:>10,} {row['output']:>9,}   {cost}")
    typer.echo("\nOthers: tell their windows and prices in rlm.toml (rlm init). extractive needs no model.")


def _known() -> list[str]:
    from rlm.models.catalog.windows import known_models

    return [f"{'anthropic' if name.startswith('claude') else 'openai'}:{name}" for name in known_models()]


def _row(name: str, own: Any) -> dict[str, Any]:
    from rlm.models.catalog.names import parse_name
    from rlm.models.catalog.prices import price
    from rlm.models.catalog.windows import window_of
    from rlm.results import TokenUsage

    facts = own.get(name)
    window = window_of(parse_name(name).model)
    if facts is not None:
        window = facts.window_beside(window) or window

    def cost(usage: TokenUsage) -> float | None:
        told = None if facts is None else facts.price(usage)
        found = price(name, usage) if told is None else told
        return None if found is None else round(found * 1_000_000 / _A_THOUSAND, 6)

    return {
        "name": name,
        "window": window.context,
        "output": window.output,
        "input_price": cost(TokenUsage(input_tokens=_A_THOUSAND)),
        "output_price": cost(TokenUsage(output_tokens=_A_THOUSAND)),
    }
