"""`rlm serve`: the HTTP server, and the keys of its users."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.console.exits import say
from rlm.cli.options import RunOptions, takes_run_options
from rlm.cli.store import StoreOption, with_journal
from rlm.errors import ConfigurationError
from rlm.escaping import json_bytes

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.journal.served import ServedKey
    from rlm.server.config import ServerConfig

__all__ = ["serve_app"]

EXAMPLES = """\b
Examples:
  rlm serve --model openai:gpt-5 --sub-model openai:gpt-5-mini
  rlm serve keys add alice --day-usd 5
  rlm serve --host 0.0.0.0 --host-name rlm.example.org --store postgresql://rlm@db/rlm

On this machine, a key is made and printed at the start, unless the store has keys. Elsewhere the server needs
keys. The limits are those of each run: requests can only lower them. On SIGTERM, runs may finish for
--drain-seconds; the others are interrupted, and resume at the next start. docs/server.md says how to run it
for a team.
"""

serve_app = typer.Typer(invoke_without_command=True)
keys_app = typer.Typer(no_args_is_help=True)


@takes_run_options(
    each="each run",
    refused={
        "schema": "a request gives its own",
        "dry_run": "nothing is asked before a request comes",
        "trace": "each run has its events in the journal",
        "cache": "answers are not shared between users",
        "exclude": "requests name what is read",
        "as_json": "replies are JSON",
        "verbose": "requests are counted at /metrics",
    },
)
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 8080,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name under which it is reached. Repeatable.", show_default=False
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="A web origin whose pages may call it. Repeatable.", show_default=False
        ),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no key. Only at an address of this machine.")
    ] = False,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder below which requests may name paths, all users alike. Repeatable.",
            show_default=False,
        ),
    ] = None,
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Requests may name public URLs as contexts.")
    ] = False,
    runs_at_once: Annotated[int, typer.Option(min=1, help="Maximum runs at a time.")] = 4,
    runs_per_user: Annotated[int, typer.Option(min=1, help="Maximum runs at a time of one user.")] = 2,
    queue: Annotated[int, typer.Option(min=0, help="Maximum runs that wait, of one user.")] = 100,
    body_mb: Annotated[int, typer.Option(min=1, help="Maximum size of a request in MB.")] = 32,
    upload_mb: Annotated[int, typer.Option(min=1, help="Maximum size of an uploaded file in MB.")] = 512,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long runs may take to finish when the server stops.")
    ] = 30.0,
    *,
    options: RunOptions,
) -> None:
    """Serve questions over HTTP, also as a drop-in for OpenAI's API."""
    if ctx.invoked_subcommand is not None:
        return
    if options.no_document_cache:
        raise ConfigurationError(
            "--no-document-cache cannot be used here: runs resume from the input in the journal"
        )
    config = _config(
        host=host,
        port=port,
        host_names=tuple(host_name or ()),
        origins=tuple(origin or ()),
        needs_key=not no_auth,
        roots=tuple(root or ()),
        allow_urls=allow_urls,
        allow_hosts=tuple(options.allow_host or ()),
        at_once=runs_at_once,
        per_user=runs_per_user,
        waiting_per_user=queue,
        body_mb=body_mb,
        upload_mb=upload_mb,
        drain_seconds=drain_seconds,
    )
    from rlm.server.serving import serve as serve_until_stopped

    asyncio.run(serve_until_stopped(options.rlm(ctx, []), config, say))


serve.__doc__ = f"{serve.__doc__}\n\n{EXAMPLES}"
serve_app.callback()(serve)
serve_app.add_typer(keys_app, name="keys")


def _config(**values: Any) -> ServerConfig:
    """Return the settings. Raises ConfigurationError if the extra is missing, or a setting is wrong."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import sse_starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"rlm serve needs {error.name}: install the extra server (pip install 'rlm-kernel[server]')"
        ) from None
    from rlm.server.config import ServerConfig

    return ServerConfig(**values)


@keys_app.callback()
def keys() -> None:
    """Make, list and revoke the keys of users.

    \b
    Examples:
      rlm serve keys add alice --day-usd 5 --month-usd 50
      rlm serve keys add prometheus --metrics
      rlm serve keys list
      rlm serve keys revoke key-1f2e3d4c
    """


@keys_app.command("add")
def add_key(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)],
    day_usd: Annotated[
        float | None,
        typer.Option(min=0, help="Maximum cost of the user's runs in a day (UTC).", show_default=False),
    ] = None,
    month_usd: Annotated[
        float | None,
        typer.Option(min=0, help="Maximum cost of the user's runs in a month (UTC).", show_default=False),
    ] = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="The key may read /metrics, and nothing else.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Make a key, and print it. It is shown this once: the store holds its hash.

    Keys with the same USER are of one user, with the same runs and files. A server that runs knows the key
    at once.

    \b
    Example:
      rlm serve keys add alice --day-usd 5
    """

    async def add(journal: Journal) -> tuple[ServedKey, str]:
        from rlm.journal.served import KeyStore

        role = "metrics" if metrics else "user"
        return await KeyStore(journal).add(user, role=role, day_usd=day_usd, month_usd=month_usd)  # type: ignore[arg-type]

    key, secret = with_journal(store, add)
    say(f"{key.key_id} of {key.user_name} (rlm serve keys revoke {key.key_id} ends it):")
    typer.echo(secret)


@keys_app.command("list")
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, store: StoreOption = None
) -> None:
    """List the keys, without their secrets.

    \b
    Example:
      rlm serve keys list --json
    """

    async def read(journal: Journal) -> list[dict[str, Any]]:
        from rlm.journal.served import KeyStore, RunStore

        spending = RunStore(journal)
        return [
            {**asdict(key), **await spending.usage(key.user_name)} | _budgets(key)
            for key in await KeyStore(journal).all()
        ]

    found = with_journal(store, read)
    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    for key in found:
        state = "revoked" if key["revoked_at"] else key["role"]
        made = time.strftime("%Y-%m-%d", time.localtime(key["created_at"]))
        spent = ", ".join(
            f"${key[f'{name}_usd']:.2f} this {name}" + ("" if budget is None else f" of ${budget:.2f}")
            for name in ("day", "month")
            for budget in [key[f"{name}_budget_usd"]]
        )
        typer.echo(f"{key['key_id']}  {key['user_name']}  {state}  {made}  {spent}")


def _budgets(key: ServedKey) -> dict[str, float | None]:
    return {"day_budget_usd": key.day_usd, "month_budget_usd": key.month_usd}


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="The key's id, as `rlm serve keys list` shows it.", show_default=False
        ),
    ],
    store: StoreOption = None,
) -> None:
    """Revoke a key. Requests with it are refused from now on; runs that it started go on.

    \b
    Example:
      rlm serve keys revoke key-1f2e3d4c
    """

    async def revoke(journal: Journal) -> ServedKey:
        from rlm.journal.served import KeyStore

        return await KeyStore(journal).revoke(key)

    revoked = with_journal(store, revoke)
    say(f"{revoked.key_id} of {revoked.user_name} is revoked")
