"""`rlm segments migrate`, `import` and `export`: a whole store at once."""

from __future__ import annotations

from typing import Annotated

import typer

from rlm.cli.commands.assemble import read_input
from rlm.cli.commands.segments.options import open_store
from rlm.cli.console.exits import say
from rlm.cli.console.out import OutOption, write_output
from rlm.cli.store import StoreOption
from rlm.escaping import json_bytes

__all__ = ["export_store", "import_store", "migrate"]


def migrate(
    to: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="The schema version.", show_default="the newest")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Migrate the tables of a store to the newest schema, or to an older one.

    A SQLite store is migrated up whenever it is opened, unless this command migrated it down. A store on a
    server is migrated by this command only, because other programs may use it. Segments of retired scopes
    become inactive: see `rlm segments list --inactive`.

    \b
    Examples:
      rlm segments migrate --store postgresql://me@db/prompts
      rlm segments migrate --to 0001
    """
    from rlm.prompts.segments import SegmentStore
    from rlm.prompts.segments.migration import HEAD

    step = SegmentStore.migrate(store, HEAD if to is None else to)
    if step.before == step.after:
        say(f"the schema is {step.after} already")
    else:
        say(f"migrated from schema {'none' if step.before is None else step.before} to {step.after}")


def import_store(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON file, or - for stdin.", show_default=False)
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Store a new version of each segment that differs.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Import entities, rulesets and segments from JSON: an export, or a file written by hand.

    The import is one transaction: if it fails, nothing is imported.

    \b
    Examples:
      rlm segments import examples/segments.json
      rlm segments export --store old.db | rlm segments import - --store postgresql://me@db/prompts
    """
    from rlm.prompts.segments import import_segments

    data = read_input(file)
    with open_store(store) as opened:
        done = import_segments(opened, data, replace=replace)
    say(f"{done.added} added, {done.replaced} replaced, {done.unchanged} unchanged")


def export_store(out: OutOption = None, store: StoreOption = None) -> None:
    """Export all segments with all versions as JSON.

    \b
    Example:
      rlm segments export --out segments.json
    """
    from rlm.prompts.segments import export_segments

    with open_store(store) as opened:
        data = json_bytes(export_segments(opened), indent=2)
    write_output(data.decode(), out)
