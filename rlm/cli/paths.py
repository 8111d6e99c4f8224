"""PATH arguments of commands, and the options about them."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.errors import UsageError

if TYPE_CHECKING:
    from rlm.documents import Source

__all__ = ["PathsArgument", "read_sources"]

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="Files, folders, globs, URLs (https, s3, gs, az), REPO@REV, or - for stdin, "
        "which is also read if it is piped in.",
        show_default=False,
    ),
]

_NO_PATH = "no PATH is given: name files or folders, or pipe a text into the command"


def read_sources(
    paths: Sequence[str] | None,
    exclude: Sequence[str] | None,
    allow_hosts: Sequence[str] | None,
    *,
    no_path: str = _NO_PATH,
) -> list[Source]:
    """Return the sources that PATHs name, or standard input if there is no PATH and a text is piped in.
    Raises UsageError, with `no_path` if there is neither."""
    from rlm.cli.standard_input import piped_input
    from rlm.documents import StreamSource, sources_from_arguments
    from rlm.documents.sources.address_rules import AddressRules

    AddressRules.parse(allow_hosts or ())
    if not paths:
        piped = piped_input()
        if piped is None:
            raise UsageError(no_path)
        return [StreamSource("stdin", piped)]
    # Python has none where the descriptor is closed.
    stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
    return list(sources_from_arguments(paths, stdin, exclude=exclude or (), allow_hosts=allow_hosts or ()))
