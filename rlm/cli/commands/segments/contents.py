"""`rlm segments list`, `show`, `add`, `edit` and `deactivate`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from rlm.cli.commands.segments.options import (
    Content,
    File,
    IfVersion,
    Json,
    Note,
    SegmentId,
    Tier,
    content_from,
    number_or_label,
    open_store,
)
from rlm.cli.commands.segments.view import report_version, segment_json, segment_text, version_json
from rlm.cli.console.exits import say
from rlm.cli.store import StoreOption
from rlm.errors import UsageError
from rlm.escaping import encodable, json_bytes, terminal_text

__all__ = ["add_segment", "deactivate", "edit_segment", "edit_text", "list_segments", "show_segment"]

_MAX_PREVIEW = 60
_ID_CHARS = 8


def list_segments(
    scope: Annotated[str | None, typer.Option(help="Only this scope.", show_default=False)] = None,
    ref_id: Annotated[str | None, typer.Option(help="Only this entity.", show_default=False)] = None,
    inactive: Annotated[
        bool,
        typer.Option("--inactive", help="Only inactive segments: deactivated, or of a retired scope."),
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Active and inactive segments.")] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """List segments in the order of a prompt.

    \b
    Examples:
      rlm segments list --scope npc --ref-id gandalf
      rlm segments list --inactive
    """
    with open_store(store) as opened:
        found = opened.list(scope, ref_id, active=None if all_ else not inactive)
    if as_json:
        typer.echo(json_bytes([segment_json(one) for one in found], indent=2))
        return
    if not found:
        typer.echo("no segment matches" if scope or ref_id or inactive else "no segments yet", err=True)
    for one in found:
        segment = one.segment
        words = " ".join(segment.content.split())
        preview = words if len(words) <= _MAX_PREVIEW else words[: _MAX_PREVIEW - 1] + "…"
        facts = [f"v{segment.version}", *(f"{label}=v{version}" for label, version in one.labels)]
        if segment.tier is not None:
            facts.append(f"tier {segment.tier}")
        if not segment.active:
            facts.append("inactive")
        place = segment.scope + (f" {segment.ref_id}" if segment.ref_id else "")
        typer.echo(terminal_text(f"{segment.id[:_ID_CHARS]}  {place:<24}  {' '.join(facts):<20}  {preview}"))


def show_segment(
    name: SegmentId,
    version: Annotated[
        str | None, typer.Option(help="Show this version (a number or a label).", show_default=False)
    ] = None,
    content: Annotated[bool, typer.Option("--content", help="Print the text only, unchanged.")] = False,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Show the text, versions and labels of a segment.

    \b
    Examples:
      rlm segments show 3f2a
      rlm segments show 3f2a --version production --content > core.md
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        found, history = opened.get(name), opened.history(name)
        chosen = None if version is None else opened.version(name, number_or_label(version))
    text = found.segment.content if chosen is None else chosen.content
    if content:
        if sys.stdout.isatty():
            typer.echo(terminal_text(text))
        else:
            typer.echo(encodable(text).encode(), nl=False)
    elif as_json:
        data = segment_json(found) if chosen is None else version_json(chosen)
        if chosen is None:
            data["versions"] = [version_json(one) for one in history]
        typer.echo(json_bytes(data, indent=2))
    else:
        typer.echo(terminal_text(segment_text(found, history, text)))


def add_segment(
    scope: Annotated[str, typer.Option(help="core, ruleset, world, entry, entry_start or npc.")],
    ref_id: Annotated[
        str | None, typer.Option(help="The entity it belongs to; core has none.", show_default=False)
    ] = None,
    content: Content = None,
    file: File = None,
    tier: Tier = None,
    note: Note = "",
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Add a segment and print its id.

    \b
    Examples:
      rlm segments add --scope core --content "You are the game master."
      rlm segments entity npc gandalf
      rlm segments add --scope npc --ref-id gandalf --file gandalf.md --tier 1
    """
    text = content_from(content, file)
    if text is None:
        raise UsageError("the segment has no text: give --content or --file")
    metadata = {} if tier is None else {"tier": tier}
    with open_store(store) as opened:
        made = opened.add(scope, text, ref_id=ref_id, metadata=metadata, note=note)
    typer.echo(json_bytes(segment_json(made), indent=2) if as_json else made.segment.id)


def edit_segment(
    name: SegmentId,
    content: Content = None,
    file: File = None,
    tier: Tier = None,
    no_tier: Annotated[bool, typer.Option("--no-tier", help="Remove the tier.")] = False,
    note: Note = "",
    if_version: IfVersion = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Store a new version of a segment. Opens $EDITOR if no change is given.

    If somebody else has stored a version meanwhile, nothing is written and the command fails.

    \b
    Examples:
      rlm segments edit 3f2a
      rlm segments edit 3f2a --file core.md --note "shorter" --if-version 4
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment
        text = content_from(content, file)
        if text is None and tier is None and not no_tier:
            text = _edit_in_editor(before.content)
        metadata = dict(before.metadata)
        if tier is not None:
            metadata["tier"] = tier
        elif no_tier:
            metadata.pop("tier", None)
        expected = before.version if if_version is None else if_version
        made = opened.edit(name, content=text, metadata=metadata, expected=expected, note=note)
    report_version(made, before.version, as_json=as_json)


def deactivate(
    name: SegmentId,
    undo: Annotated[bool, typer.Option("--undo", help="Activate it again.")] = False,
    store: StoreOption = None,
) -> None:
    """Remove a segment from all prompts. Its text and versions stay in the store.

    \b
    Examples:
      rlm segments deactivate 3f2a
      rlm segments deactivate 3f2a --undo
    """
    with open_store(store) as opened:
        name = opened.resolve(name)
        opened.set_active(name, undo)
    say(f"{name} is {'active' if undo else 'inactive'}")


def _edit_in_editor(text: str) -> str:
    """Return the text as the user saves it without the line end that editors add."""

    found = edit_text(text, "segment.md", os.environ)
    return found.removesuffix("\n") if not text.endswith("\n") else found


def edit_text(text: str, name: str, env: Mapping[str, str]) -> str:
    """Return `text` as the user saves it in `$VISUAL` or `$EDITOR`. The file `name` is private to the user.

    Raises UsageError if no editor is set, or if it fails.
    """
    command = shlex.split(env.get("VISUAL") or env.get("EDITOR") or "")
    if not command:
        raise UsageError("no editor is set: give --content or --file, or set EDITOR")
    with tempfile.TemporaryDirectory(prefix="rlm-edit-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8", newline="")
        try:
            done = subprocess.run([*command, os.fspath(file)], check=False)
        except OSError as error:
            raise UsageError(f"cannot start the editor {command[0]}: {error.strerror}; set EDITOR") from error
        if done.returncode:
            raise UsageError(f"the editor exited with code {done.returncode}: nothing was saved")
        try:
            return file.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("the edited text is not UTF-8: nothing was saved; save it as UTF-8") from error
