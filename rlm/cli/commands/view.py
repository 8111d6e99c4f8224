"""`rlm view`: the runs in a browser, or in one file."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from rlm.cli.console.out import check_out, open_output
from rlm.cli.options import Options, takes
from rlm.cli.store import with_journal
from rlm.settings_table import JOURNAL

if TYPE_CHECKING:
    from rlm.journal import Journal

__all__ = ["view"]


@takes(JOURNAL)
def view(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="The run's name or its first characters; latest (-1) is the newest run.",
            show_default="the list of runs",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the page with its data to this file, readable by you only.",
            show_default="a page in the browser",
            callback=check_out,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1.", show_default="any free port")
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and open no browser.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Show a run in the browser, live while it goes on, or write it to a file.

    The page shows the rounds with their code, output and children, the tree of sub-RLMs, time and dollars,
    what was read, and the place of each citation. It needs no network. Ctrl-C ends it.

    \b
    Examples:
      rlm view
      rlm view -o newest.html
      rlm view 20260131-142501 -o run.html
    """
    if out is None:
        with_journal(options.store, lambda journal: _serve(journal, run, port, not no_open))
        return
    page = with_journal(options.store, lambda journal: _page(journal, run or "latest"))
    with open_output(out, private=True) as file:
        file.write(page)
    typer.echo(f"wrote {out} ({len(page) / 1e6:,.1f} MB). It holds text of your documents", err=True)


async def _page(journal: Journal, run: str) -> bytes:
    from rlm.viewer import RunViews, export_page

    async with RunViews(journal) as views:
        return await export_page(views, await journal.resolve(run))


async def _serve(journal: Journal, run: str | None, port: int, open_browser: bool) -> None:
    from rlm.viewer import LocalServer, RunViews

    fragment = "" if run is None else f"#/run/{quote(await journal.resolve(run), safe='')}"
    async with RunViews(journal) as views, LocalServer.start(views, port) as server:
        typer.echo(f"{server.url}{fragment}")
        typer.echo("the address is private to you: it shows your documents. Ctrl-C ends it", err=True)
        if open_browser and not await asyncio.to_thread(webbrowser.open, server.opening_url(fragment)):
            typer.echo("no browser could be opened: open the address yourself", err=True)
        await asyncio.Event().wait()
