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
    undo: Annotated[bool, typer.Option("--undo", help="Put an adopted table back as it was.")] = False,
    store: StoreOption = None,
) -> None:
    """Adopt a table prompt_segments that another program made. Opening a store does the same.

    The table is renamed to prompt_segments_adopted, and its rows are copied. Segments of retired scopes
    become inactive: see `rlm segments list --inactive`. --undo works until a segment is written.

    \b
    Examples:
      rlm segments migrate --store postgresql://me@db/prompts
      rlm segments migrate --undo --store old.db
    """
    with open_store(store) as opened:
        if undo:
            opened.undo_adoption()
            say("the table prompt_segments is as it was")
        else:
            say(f"{len(opened.list(active=None))} segments; the tables are up to date")


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
