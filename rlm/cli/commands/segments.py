"""`rlm segments`: the store of prompt segments."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rlm.cli.commands.assemble import read_input
from rlm.cli.console.exits import say
from rlm.cli.console.out import OutOption, write_output
from rlm.cli.options import Options, takes
from rlm.errors import UsageError
from rlm.escaping import encodable, json_bytes, terminal_text
from rlm.prompts.segments import (
    SegmentStore,
    SegmentVersion,
    StoredSegment,
    export_segments,
    import_segments,
)
from rlm.settings_table import JOURNAL

__all__ = ["edit_text", "segments_app"]

segments_app = typer.Typer(no_args_is_help=True)

_MAX_PREVIEW = 60
_ID_CHARS = 8

SegmentId = Annotated[
    str, typer.Argument(metavar="ID", help="The segment's id, or its first characters.", show_default=False)
]
Content = Annotated[str | None, typer.Option(help="The text of the segment.", show_default=False)]
File = Annotated[
    str | None, typer.Option(help="A file with the text of the segment, or - for stdin.", show_default=False)
]
Tier = Annotated[int | None, typer.Option(min=0, help="Level of detail; 0 is the base.", show_default=False)]
Note = Annotated[str, typer.Option(help="The reason for this version; stored with it.", show_default=False)]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="A number or a label.", show_default=False)]


@segments_app.callback()
def group() -> None:
    """Store prompt segments with versions and labels. `rlm assemble scoped` makes prompts of them.

    \b
    Examples:
      rlm segments import examples/segments.json --store demo.db
      rlm segments list --store demo.db
    """


def content_from(content: str | None, file: str | None) -> str | None:
    """Return the text of --content or --file, None if neither is given. Raises UsageError."""
    if content is not None and file is not None:
        raise UsageError("--content cannot be combined with --file: give one of them")
    return content if file is None else read_text(file)


def read_text(file: str) -> str:
    """Read a file, or stdin for `-`. Raises UsageError if it is unreadable or not UTF-8."""
    name = "stdin" if file == "-" else file
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text: convert it first") from None


def number_or_label(version: str) -> int | str:
    """Return the version's number if it is one, else the label."""
    return int(version) if version.isascii() and version.isdigit() else version


@segments_app.command("list")
@takes(JOURNAL, "json")
def list_segments(
    scope: Annotated[str | None, typer.Option(help="Only this scope.", show_default=False)] = None,
    ref_id: Annotated[str | None, typer.Option(help="Only this entity.", show_default=False)] = None,
    inactive: Annotated[bool, typer.Option("--inactive", help="Those that are in no prompt.")] = False,
    *,
    options: Options,
) -> None:
    """List segments in the order of a prompt, or those in no prompt: deactivated, or of a retired scope.

    \b
    Examples:
      rlm segments list --scope npc --ref-id gandalf
    """
    with SegmentStore.open(options.store) as opened:
        found = opened.list(scope, ref_id, active=not inactive)
    if options.json:
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


@segments_app.command("show")
@takes(JOURNAL, "json")
def show_segment(
    name: SegmentId,
    version: Annotated[
        str | None, typer.Option(help="Show this version (a number or a label).", show_default=False)
    ] = None,
    content: Annotated[bool, typer.Option("--content", help="Print the text only, unchanged.")] = False,
    *,
    options: Options,
) -> None:
    """Show the text, versions and labels of a segment.

    \b
    Examples:
      rlm segments show 3f2a
      rlm segments show 3f2a --version production --content > core.md
    """
    with SegmentStore.open(options.store) as opened:
        name = opened.resolve(name)
        found, history = opened.get(name), opened.history(name)
        chosen = None if version is None else opened.version(name, number_or_label(version))
    text = found.segment.content if chosen is None else chosen.content
    if content:
        if sys.stdout.isatty():
            typer.echo(terminal_text(text))
        else:
            typer.echo(encodable(text).encode(), nl=False)
    elif options.json:
        data = segment_json(found) if chosen is None else version_json(chosen)
        if chosen is None:
            data["versions"] = [version_json(one) for one in history]
        typer.echo(json_bytes(data, indent=2))
    else:
        typer.echo(terminal_text(segment_text(found, history, text)))


@segments_app.command("add")
@takes(JOURNAL, "json")
def add_segment(
    scope: Annotated[str, typer.Option(help="core, ruleset, world, entry, entry_start or npc.")],
    ref_id: Annotated[
        str | None, typer.Option(help="The entity it belongs to; core has none.", show_default=False)
    ] = None,
    content: Content = None,
    file: File = None,
    tier: Tier = None,
    note: Note = "",
    *,
    options: Options,
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
    with SegmentStore.open(options.store) as opened:
        made = opened.add(scope, text, ref_id=ref_id, metadata=metadata, note=note)
    typer.echo(json_bytes(segment_json(made), indent=2) if options.json else made.segment.id)


@segments_app.command("edit")
@takes(JOURNAL, "json")
def edit_segment(
    name: SegmentId,
    content: Content = None,
    file: File = None,
    tier: Tier = None,
    note: Note = "",
    *,
    options: Options,
) -> None:
    """Store a new version of a segment. Opens $EDITOR if no change is given.

    If somebody else has stored a version meanwhile, nothing is written and the command fails.

    \b
    Examples:
      rlm segments edit 3f2a
      rlm segments edit 3f2a --file core.md --note "shorter"
    """
    with SegmentStore.open(options.store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment
        text = content_from(content, file)
        if text is None and tier is None:
            text = _edit_in_editor(before.content)
        metadata = dict(before.metadata)
        if tier is not None:
            metadata["tier"] = tier
        made = opened.edit(name, content=text, metadata=metadata, expected=before.version, note=note)
    report_version(made, before.version, as_json=options.json)


@segments_app.command()
@takes(JOURNAL)
def deactivate(
    name: SegmentId,
    undo: Annotated[bool, typer.Option("--undo", help="Activate it again.")] = False,
    *,
    options: Options,
) -> None:
    """Remove a segment from all prompts. Its text and versions stay in the store.

    \b
    Examples:
      rlm segments deactivate 3f2a
      rlm segments deactivate 3f2a --undo
    """
    with SegmentStore.open(options.store) as opened:
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


@segments_app.command()
@takes(JOURNAL)
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
    *,
    options: Options,
) -> None:
    """Show the changes between two versions.

    \b
    Examples:
      rlm segments diff 3f2a
      rlm segments diff 3f2a production staging
    """
    with SegmentStore.open(options.store) as opened:
        name = opened.resolve(name)
        after = opened.get(name).segment.version if new is None else number_or_label(new)
        newer = opened.version(name, after).version
        before = max(1, newer - 1) if old is None else number_or_label(old)
        text = opened.diff(name, before, after)
    if not text:
        typer.echo("no difference", err=True)
    typer.echo(terminal_text(text), nl=False)


@segments_app.command()
@takes(JOURNAL)
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
    *,
    options: Options,
) -> None:
    """Label a version. `rlm assemble scoped --label production` uses the labelled versions.

    \b
    Examples:
      rlm segments label 3f2a staging
      rlm segments label 3f2a production staging
    """
    with SegmentStore.open(options.store) as opened:
        name = opened.resolve(name)
        if remove:
            opened.unlabel(name, label_name)
            say(f"{name}: removed label {label_name}")
        else:
            number = opened.label(name, label_name, None if version is None else number_or_label(version))
            say(f"{name}: {label_name} is version {number}")


@segments_app.command()
@takes(JOURNAL, "json")
def rollback(
    name: SegmentId,
    version: Version,
    note: Note = "",
    *,
    options: Options,
) -> None:
    """Store a new version with the text of an old one.

    \b
    Example:
      rlm segments rollback 3f2a 2
    """
    with SegmentStore.open(options.store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment.version
        expected = before
        made = opened.rollback(name, number_or_label(version), expected=expected, note=note)
    report_version(made, before, as_json=options.json)


@segments_app.command()
@takes(JOURNAL, "json")
def entity(
    kind: Annotated[
        str | None, typer.Argument(help="ruleset, world, entry or npc.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id.", show_default=False)] = None,
    *,
    options: Options,
) -> None:
    """Register a ruleset, world, entry or npc, so that segments can belong to it. Without ID, list them.

    \b
    Examples:
      rlm segments entity world middle-earth
      rlm segments entity npc
    """
    with SegmentStore.open(options.store) as opened:
        if kind is not None and name is not None:
            is_new = opened.add_entity(kind, name)
            say(f"registered {kind} {name}" if is_new else f"{kind} {name} is registered already")
            return
        found = opened.entities(kind)
    if options.json:
        typer.echo(json_bytes([{"kind": its_kind, "id": its_id} for its_kind, its_id in found], indent=2))
    else:
        for its_kind, its_id in found:
            typer.echo(terminal_text(f"{its_kind:<8}{its_id}"))


@segments_app.command()
@takes(JOURNAL)
def link(
    entry: Annotated[str, typer.Argument(help="The id of the entry.", show_default=False)],
    ruleset: Annotated[str, typer.Argument(help="The id of the ruleset.", show_default=False)],
    order: Annotated[int, typer.Argument(help="Position among the entry's rulesets, lowest first.")] = 0,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the link.")] = False,
    *,
    options: Options,
) -> None:
    """Link a ruleset to an entry.

    \b
    Examples:
      rlm segments link the-shire dice 1
      rlm segments link the-shire dice --remove
    """
    with SegmentStore.open(options.store) as opened:
        if remove:
            opened.unlink(entry, ruleset)
        else:
            opened.link(entry, ruleset, order)
        links = opened.rulesets(entry)
    say(f"rulesets of {entry}: {', '.join(one.id for one in links) or 'none'}")


@segments_app.command()
@takes(JOURNAL)
def migrate(
    undo: Annotated[bool, typer.Option("--undo", help="Put an adopted table back as it was.")] = False,
    *,
    options: Options,
) -> None:
    """Adopt a table prompt_segments that another program made. Opening a store does the same.

    The table is renamed to prompt_segments_adopted, and its rows are copied. Segments of retired scopes
    become inactive: see `rlm segments list --inactive`. --undo works until a segment is written.

    \b
    Examples:
      rlm segments migrate --store postgresql://me@db/prompts
      rlm segments migrate --undo --store old.db
    """
    with SegmentStore.open(options.store) as opened:
        if undo:
            opened.undo_adoption()
            say("the table prompt_segments is as it was")
        else:
            say(f"{len(opened.list(active=None))} segments; the tables are up to date")


@segments_app.command("import")
@takes(JOURNAL)
def import_store(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON file, or - for stdin.", show_default=False)
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Store a new version of each segment that differs.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Import entities, rulesets and segments from JSON: an export, or a file written by hand.

    The import is one transaction: if it fails, nothing is imported.

    \b
    Examples:
      rlm segments import examples/segments.json
      rlm segments export --store old.db | rlm segments import - --store postgresql://me@db/prompts
    """
    data = read_input(file)
    with SegmentStore.open(options.store) as opened:
        done = import_segments(opened, data, replace=replace)
    say(f"{done.added} added, {done.replaced} replaced, {done.unchanged} unchanged")


@segments_app.command("export")
@takes(JOURNAL)
def export_store(out: OutOption = None, *, options: Options) -> None:
    """Export all segments with all versions as JSON.

    \b
    Example:
      rlm segments export --out segments.json
    """

    with SegmentStore.open(options.store) as opened:
        data = json_bytes(export_segments(opened), indent=2)
    write_output(data.decode(), out)


def report_version(made: StoredSegment, before: int, *, as_json: bool) -> None:
    """Report the version after a change of version `before`."""
    version = made.segment.version
    say(
        f"{made.segment.id} is unchanged, at version {version}"
        if version == before
        else f"{made.segment.id} is at version {version}"
    )
    if as_json:
        typer.echo(json_bytes(segment_json(made), indent=2))


def segment_text(found: StoredSegment, history: tuple[SegmentVersion, ...], text: str) -> str:
    """Return the facts of a segment, its versions with their labels, and `text`."""
    segment = found.segment
    labels: dict[int, list[str]] = {}
    for label, version in found.labels:
        labels.setdefault(version, []).append(label)
    lines = [
        f"id        {segment.id}",
        f"scope     {segment.scope}" + (f" of {segment.ref_id}" if segment.ref_id else ""),
        *(
            [f"metadata  {json.dumps(dict(segment.metadata), ensure_ascii=False)}"]
            if segment.metadata
            else []
        ),
        *([] if segment.active else ["inactive  in no prompt"]),
    ]
    for one in history:
        when = one.created_at.strftime("%Y-%m-%d %H:%M")
        facts = (f"version {one.version:<3}", when, ", ".join(labels.get(one.version, [])), one.note)
        lines.append("  ".join(fact for fact in facts if fact))
    return "\n".join([*lines, "", text])


def segment_json(found: StoredSegment) -> dict[str, Any]:
    """Return a JSON-safe mapping of the newest version."""
    segment = found.segment
    return {
        "id": segment.id,
        "scope": segment.scope,
        "ref_id": segment.ref_id,
        "tier": segment.tier,
        "content": segment.content,
        "metadata": dict(segment.metadata),
        "version": segment.version,
        "active": segment.active,
        "labels": dict(found.labels),
        "created_at": found.created_at.isoformat(),
        "updated_at": found.updated_at.isoformat(),
    }


def version_json(version: SegmentVersion) -> dict[str, Any]:
    """Return a JSON-safe mapping of one version."""
    return {
        "version": version.version,
        "content": version.content,
        "metadata": dict(version.metadata),
        "note": version.note,
        "created_at": version.created_at.isoformat(),
    }
