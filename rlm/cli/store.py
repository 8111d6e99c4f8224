"""The journal of a command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rlm.journal import Journal

__all__ = ["RunArgument", "with_journal"]

_T = TypeVar("_T")

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run's name or its first characters; latest (-1) is the newest run, latest~1 (-2) the one "
        "before it. Default: the newest.",
        show_default=False,
    ),
]


def with_journal(store: str | None, work: Callable[[Journal], Coroutine[Any, Any, _T]]) -> _T:
    """Return what `work` returns for the open journal."""
    from rlm.journal import Journal, default_store

    async def work_on_journal() -> _T:
        async with Journal.open(store or default_store(os.environ)) as journal:
            return await work(journal)

    return asyncio.run(work_on_journal())
