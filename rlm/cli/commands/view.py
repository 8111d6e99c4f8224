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
from rlm.errors import UsageError
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
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="RUN2", help="Another run to compare it with.", show_default=False),
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
      rlm view latest --compare latest~1
      rlm view 20260131-142501 -o run.html
    """
    if run is None and (out is not None or compare is not None):
        raise UsageError(
            f"name a run: rlm view latest {'--out FILE' if out is not None else '--compare RUN2'}"
        )
    if out is None:
        with_journal(options.store, lambda journal: _serve(journal, run, compare, port, not no_open))
        return
    page = with_journal(options.store, lambda journal: _page(journal, run or "latest", compare))
    with open_output(out, private=True) as file:
        file.write(page)
    typer.echo(f"wrote {out} ({len(page) / 1e6:,.1f} MB). It holds text of your documents", err=True)


async def _page(journal: Journal, run: str, compare: str | None) -> bytes:
    from rlm.viewer import RunViews, export_page

    names = [await journal.resolve(one) for one in (run, compare) if one is not None]
    async with RunViews(journal) as views:
        return await export_page(views, names)


async def _serve(
    journal: Journal, run: str | None, compare: str | None, port: int, open_browser: bool
) -> None:
    from rlm.viewer import LocalServer, RunViews

    names = [quote(await journal.resolve(one), safe="") for one in (run, compare) if one is not None]
    fragment = "" if not names else f"#/{'compare' if len(names) > 1 else 'run'}/{'/'.join(names)}"
    async with RunViews(journal) as views, LocalServer.start(views, port) as server:
        typer.echo(f"{server.url}{fragment}")
        typer.echo("the address is private to you: it shows your documents. Ctrl-C ends it", err=True)
        if open_browser and not await asyncio.to_thread(webbrowser.open, server.opening_url(fragment)):
            typer.echo("no browser could be opened: open the address yourself", err=True)
        await asyncio.Event().wait()
