"""`rlm segments`: the store of prompt segments."""

from __future__ import annotations

import typer

from rlm.cli.commands.segments import contents, entities, exchange, versions

__all__ = ["segments_app"]

segments_app = typer.Typer(no_args_is_help=True)


@segments_app.callback()
def group() -> None:
    """Store prompt segments with versions and labels. `rlm assemble scoped` makes prompts of them.

    \b
    Examples:
      rlm segments import examples/segments.json --store demo.db
      rlm segments list --store demo.db
    """


segments_app.command("list")(contents.list_segments)
segments_app.command("show")(contents.show_segment)
segments_app.command("add")(contents.add_segment)
segments_app.command("edit")(contents.edit_segment)
segments_app.command("diff")(versions.diff)
segments_app.command("label")(versions.label)
segments_app.command("rollback")(versions.rollback)
segments_app.command("deactivate")(contents.deactivate)
segments_app.command("entity")(entities.entity)
segments_app.command("link")(entities.link)
segments_app.command("migrate")(exchange.migrate)
segments_app.command("import")(exchange.import_store)
segments_app.command("export")(exchange.export_store)
