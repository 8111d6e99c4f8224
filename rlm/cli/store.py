"""The journal that a command works on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rlm.journal import Journal

__all__ = ["RunArgument", "StoreOption", "with_journal"]

_T = TypeVar("_T")

StoreOption = Annotated[
    str | None,
    typer.Option(
        envvar="RLM_STORE",
        help="The journal: a file, or postgresql://USER@HOST/NAME.",
        show_default="in the state folder",
    ),
]
RunArgument = Annotated[str, typer.Argument(help="The run, or the start of its name.", show_default=False)]


def with_journal(store: str | None, work: Callable[[Journal], Coroutine[Any, Any, _T]]) -> _T:
    """What `work` gives, over the journal open."""
    from rlm.journal import Journal, default_store

    async def whole() -> _T:
        async with Journal.open(store or default_store(os.environ)) as journal:
            return await work(journal)

    return asyncio.run(whole())
