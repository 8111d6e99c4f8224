"""`rlm segments entity` and `link`: what segments belong to."""

from __future__ import annotations

from typing import Annotated

import typer

from rlm.cli.commands.segments.options import Json, open_store
from rlm.cli.console.exits import say
from rlm.cli.store import StoreOption
from rlm.escaping import json_bytes, terminal_text

__all__ = ["entity", "link"]


def entity(
    kind: Annotated[
        str | None, typer.Argument(help="ruleset, world, entry or npc.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id.", show_default=False)] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Register a ruleset, world, entry or npc, so that segments can belong to it. Without ID, list them.

    \b
    Examples:
      rlm segments entity world middle-earth
      rlm segments entity npc
    """
    with open_store(store) as opened:
        if kind is not None and name is not None:
            is_new = opened.add_entity(kind, name)
            say(f"registered {kind} {name}" if is_new else f"{kind} {name} is registered already")
            return
        found = opened.entities(kind)
    if as_json:
        typer.echo(json_bytes([{"kind": its_kind, "id": its_id} for its_kind, its_id in found], indent=2))
    else:
        for its_kind, its_id in found:
            typer.echo(terminal_text(f"{its_kind:<8}{its_id}"))


def link(
    entry: Annotated[str, typer.Argument(help="The id of the entry.", show_default=False)],
    ruleset: Annotated[str, typer.Argument(help="The id of the ruleset.", show_default=False)],
    order: Annotated[int, typer.Option(help="Position among the entry's rulesets, lowest first.")] = 0,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the link.")] = False,
    store: StoreOption = None,
) -> None:
    """Link a ruleset to an entry.

    \b
    Examples:
      rlm segments link the-shire dice --order 1
      rlm segments link the-shire dice --remove
    """
    with open_store(store) as opened:
        if remove:
            opened.unlink(entry, ruleset)
        else:
            opened.link(entry, ruleset, order)
        links = opened.rulesets(entry)
    say(f"rulesets of {entry}: {', '.join(one.id for one in links) or 'none'}")
