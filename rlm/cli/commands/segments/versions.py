"""`rlm segments diff`, `label` and `rollback`: versions compared, labelled, brought back."""

from __future__ import annotations

from typing import Annotated

import typer

from rlm.cli.commands.segments.options import (
    IfVersion,
    Json,
    Note,
    SegmentId,
    Version,
    number_or_label,
    open_store,
)
from rlm.cli.commands.segments.view import report_version
from rlm.cli.console.exits import say
from rlm.cli.store import StoreOption
from rlm.escaping import terminal_text

__all__ = ["diff", "label", "rollback"]


def diff(
    name: SegmentId,
    old: Annotated[
        str | None,
        typer.Argument(metavar="[OLD]", help="A number or a label. Default: the version before NEW."),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(metavar="[NEW]", help="A number or a label. Default: the newest version."),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Show the changes between two versions.

    \b
    Examples:
      rlm segments diff 3f2a
      rlm segments diff 3f2a production staging
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        after = opened.get(name).segment.version if new is None else number_or_label(new)
        newer = opened.version(name, after).version
        before = max(1, newer - 1) if old is None else number_or_label(old)
        text = opened.diff(name, before, after)
    if not text:
        typer.echo("no difference", err=True)
    typer.echo(terminal_text(text), nl=False)


def label(
    name: SegmentId,
    label_name: Annotated[
        str, typer.Argument(metavar="LABEL", help="production, staging, …", show_default=False)
    ],
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION]",
            help="A number or another label. Default: the newest version.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the label.")] = False,
    store: StoreOption = None,
) -> None:
    """Label a version. `rlm assemble scoped --label production` uses the labelled versions.

    \b
    Examples:
      rlm segments label 3f2a staging
      rlm segments label 3f2a production staging
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        if remove:
            opened.unlabel(name, label_name)
            say(f"{name}: removed label {label_name}")
        else:
            number = opened.label(name, label_name, None if version is None else number_or_label(version))
            say(f"{name}: {label_name} is version {number}")


def rollback(
    name: SegmentId,
    version: Version,
    note: Note = "",
    if_version: IfVersion = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Store a new version with the text of an old one.

    \b
    Example:
      rlm segments rollback 3f2a 2
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment.version
        expected = before if if_version is None else if_version
        made = opened.rollback(name, number_or_label(version), expected=expected, note=note)
    report_version(made, before, as_json=as_json)
