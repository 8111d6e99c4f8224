"""`rlm segments`: the store of prompt segments."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.exits import say
from rlm.cli.console.render_result import json_bytes, printable
from rlm.cli.console.segment_view import say_version, segment_json, told, version_json
from rlm.errors import UsageError

if TYPE_CHECKING:
    from rlm.prompts.segments import SegmentStore

__all__ = ["SegmentStoreOption", "segments_app"]

_SHOWN = 60
_ID_SHOWN = 8

SegmentStoreOption = Annotated[
    str | None,
    typer.Option(
        envvar="RLM_STORE",
        metavar="URL",
        help="A SQLite file, or postgresql://user@host/name.",
        show_default="in the state folder",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
_Id = Annotated[
    str, typer.Argument(metavar="ID", help="The segment, or the start of its id.", show_default=False)
]
_Content = Annotated[str | None, typer.Option(help="What it says.", show_default=False)]
_File = Annotated[
    str | None, typer.Option(help="A file with what it says, or - for stdin.", show_default=False)
]
_Tier = Annotated[int | None, typer.Option(min=0, help="Level of detail, the base is 0.", show_default=False)]
_Note = Annotated[str, typer.Option(help="Why; kept with the version.", show_default=False)]
_IfVersion = Annotated[
    int | None,
    typer.Option(help="Only if this is still its version; else nothing is written.", show_default=False),
]
_Version = Annotated[str, typer.Argument(metavar="VERSION", help="A number, or a label.", show_default=False)]

segments_app = typer.Typer(no_args_is_help=True)


@segments_app.callback()
def group() -> None:
    """Prompt segments: stored, versioned, labelled. `rlm assemble scoped` makes prompts of them."""


@segments_app.command("list")
def list_(
    scope: Annotated[str | None, typer.Option(help="Only this scope.", show_default=False)] = None,
    ref_id: Annotated[str | None, typer.Option(help="Only of this entity.", show_default=False)] = None,
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Those that are never assembled: deactivated, or put aside.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Active and inactive ones.")] = False,
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """List segments in the order they stand in a prompt.

    \b
    Examples:
      rlm segments list --scope npc --ref-id gandalf
      rlm segments list --inactive
    """
    with _opened(store) as opened:
        found = opened.list(scope, ref_id, active=None if all_ else not inactive)
    if as_json:
        typer.echo(json_bytes([segment_json(one) for one in found], indent=2))
        return
    if not found:
        typer.echo("no such segments" if scope or ref_id or inactive else "no segments yet", err=True)
    for one in found:
        segment = one.segment
        words = " ".join(segment.content.split())
        shown = words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
        facts = [f"v{segment.version}", *(f"{label}=v{version}" for label, version in one.labels)]
        if segment.tier is not None:
            facts.append(f"tier {segment.tier}")
        if not segment.active:
            facts.append("inactive")
        place = segment.scope + (f" {segment.ref_id}" if segment.ref_id else "")
        typer.echo(printable(f"{segment.id[:_ID_SHOWN]}  {place:<24}  {' '.join(facts):<20}  {shown}"))


@segments_app.command()
def show(
    name: _Id,
    version: Annotated[
        str | None, typer.Option(help="This version (a number or a label).", show_default=False)
    ] = None,
    content: Annotated[bool, typer.Option("--content", help="Print only what it says, as it is.")] = False,
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """Show a segment: what it says, its versions and labels.

    \b
    Examples:
      rlm segments show 3f2a
      rlm segments show 3f2a --version production --content > core.md
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        found, history = opened.get(name), opened.history(name)
        chosen = None if version is None else opened.version(name, _number(version))
    text = found.segment.content if chosen is None else chosen.content
    if content:
        typer.echo(printable(text) if sys.stdout.isatty() else text, nl=sys.stdout.isatty())
    elif as_json:
        data = segment_json(found) if chosen is None else version_json(chosen)
        if chosen is None:
            data["versions"] = [version_json(one) for one in history]
        typer.echo(json_bytes(data, indent=2))
    else:
        typer.echo(printable(told(found, history, text)))


@segments_app.command()
def add(
    scope: Annotated[str, typer.Option(help="core, ruleset, world, entry, entry_start or npc.")],
    ref_id: Annotated[
        str | None, typer.Option(help="The entity it belongs to; none for core.", show_default=False)
    ] = None,
    content: _Content = None,
    file: _File = None,
    tier: _Tier = None,
    note: _Note = "",
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """Add a segment; prints its id.

    \b
    Examples:
      rlm segments add --scope core --content "You are the game master."
      rlm segments entity npc gandalf
      rlm segments add --scope npc --ref-id gandalf --file gandalf.md --tier 1
    """
    text = _given_content(content, file)
    if text is None:
        raise UsageError("a segment needs something to say: give --content or --file")
    with _opened(store) as opened:
        made = opened.add(
            scope, text, ref_id=ref_id, metadata={} if tier is None else {"tier": tier}, note=note
        )
    typer.echo(json_bytes(segment_json(made), indent=2) if as_json else made.segment.id)


@segments_app.command()
def edit(
    name: _Id,
    content: _Content = None,
    file: _File = None,
    tier: _Tier = None,
    no_tier: Annotated[bool, typer.Option("--no-tier", help="Take its tier away.")] = False,
    note: _Note = "",
    if_version: _IfVersion = None,
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """Make a new version of a segment; opens $EDITOR when nothing new is given.

    If somebody else edits it meanwhile, nothing is written and the command says so.

    \b
    Examples:
      rlm segments edit 3f2a
      rlm segments edit 3f2a --file core.md --note "shorter" --if-version 4
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment
        text = _given_content(content, file)
        if text is None and tier is None and not no_tier:
            text = _edited_content(before.content)
        metadata = dict(before.metadata)
        if tier is not None:
            metadata["tier"] = tier
        elif no_tier:
            metadata.pop("tier", None)
        expected = before.version if if_version is None else if_version
        made = opened.edit(name, content=text, metadata=metadata, expected=expected, note=note)
    say_version(made, before.version, as_json)


@segments_app.command()
def diff(
    name: _Id,
    old: Annotated[
        str | None, typer.Argument(metavar="[OLD]", help="A number, or a label; else the one before NEW.")
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="A number, or a label; else the newest.")
    ] = None,
    store: SegmentStoreOption = None,
) -> None:
    """Show what changed between two versions.

    \b
    Examples:
      rlm segments diff 3f2a
      rlm segments diff 3f2a production staging
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        after = opened.get(name).segment.version if new is None else _number(new)
        before: int | str = max(1, opened.version(name, after).version - 1) if old is None else _number(old)
        text = opened.diff(name, before, after)
    if not text:
        typer.echo("no difference", err=True)
    typer.echo(printable(text), nl=False)


@segments_app.command()
def label(
    name: _Id,
    label_name: Annotated[
        str, typer.Argument(metavar="LABEL", help="production, staging, …", show_default=False)
    ],
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[VERSION]", help="A number, or another label; else the newest.", show_default=False
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the label off.")] = False,
    store: SegmentStoreOption = None,
) -> None:
    """Put a label on a version; `rlm assemble scoped --label production` uses the labelled ones.

    \b
    Examples:
      rlm segments label 3f2a staging
      rlm segments label 3f2a production staging
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        if remove:
            opened.unlabel(name, label_name)
            say(f"{name}: {label_name} is off")
        else:
            on = opened.label(name, label_name, None if version is None else _number(version))
            say(f"{name}: {label_name} is on version {on}")


@segments_app.command()
def rollback(
    name: _Id,
    version: _Version,
    note: _Note = "",
    if_version: _IfVersion = None,
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """Make a new version that says what an old one said.

    \b
    Example:
      rlm segments rollback 3f2a 2
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        before = opened.get(name).segment.version
        expected = before if if_version is None else if_version
        made = opened.rollback(name, _number(version), expected=expected, note=note)
    say_version(made, before, as_json)


@segments_app.command()
def deactivate(
    name: _Id,
    undo: Annotated[bool, typer.Option("--undo", help="Put it back into prompts.")] = False,
    store: SegmentStoreOption = None,
) -> None:
    """Take a segment out of all prompts; nothing of it is lost.

    \b
    Examples:
      rlm segments deactivate 3f2a
      rlm segments deactivate 3f2a --undo
    """
    with _opened(store) as opened:
        name = opened.resolve(name)
        opened.set_active(name, undo)
    say(f"{name} is {'active' if undo else 'inactive'}")


@segments_app.command()
def entity(
    kind: Annotated[
        str | None, typer.Argument(help="ruleset, world, entry or npc.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id.", show_default=False)] = None,
    store: SegmentStoreOption = None,
    as_json: _Json = False,
) -> None:
    """Make a ruleset, world, entry or npc known, so that segments may belong to it; without an ID, list them.

    \b
    Examples:
      rlm segments entity world middle-earth
      rlm segments entity npc
    """
    with _opened(store) as opened:
        if kind is not None and name is not None:
            new = opened.add_entity(kind, name)
            say(f"{kind} {name} {'is known now' if new else 'was known'}")
            return
        found = opened.entities(kind)
    if as_json:
        typer.echo(json_bytes([{"kind": its_kind, "id": its_id} for its_kind, its_id in found], indent=2))
    else:
        for its_kind, its_id in found:
            typer.echo(printable(f"{its_kind:<8}{its_id}"))


@segments_app.command()
def link(
    entry: Annotated[str, typer.Argument(help="The entry.", show_default=False)],
    ruleset: Annotated[str, typer.Argument(help="The ruleset.", show_default=False)],
    order: Annotated[int, typer.Option(help="Its place among the entry's rulesets, the lowest first.")] = 0,
    remove: Annotated[bool, typer.Option("--remove", help="Take it away instead.")] = False,
    store: SegmentStoreOption = None,
) -> None:
    """Give an entry a ruleset.

    \b
    Example:
      rlm segments link the-shire dice --order 1
    """
    with _opened(store) as opened:
        if remove:
            opened.unlink(entry, ruleset)
        else:
            opened.link(entry, ruleset, order)
        links = opened.rulesets(entry)
    say(f"rulesets of {entry}: {', '.join(one.id for one in links) or 'none'}")


@segments_app.command()
def migrate(
    to: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="Not to the newest.", show_default=False)
    ] = None,
    store: SegmentStoreOption = None,
) -> None:
    """Bring the tables of a store up to date, or back.

    A SQLite store is brought up to date whenever it is opened; one on a server only here, for others use it
    too. Segments of scopes that are no longer stored are put aside: `rlm segments list --inactive`.

    \b
    Examples:
      rlm segments migrate --store postgresql://me@db/prompts
      rlm segments migrate --to 0001
    """
    from rlm.prompts.segments import SegmentStore
    from rlm.prompts.segments.migration import HEAD

    step = SegmentStore.migrate(store, HEAD if to is None else to)
    before = "none" if step.before is None else step.before
    say(f"schema {step.after} already" if step.before == step.after else f"schema {before} to {step.after}")


@segments_app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON, or - for stdin.", show_default=False)],
    replace: Annotated[bool, typer.Option("--replace", help="What differs becomes a new version.")] = False,
    store: SegmentStoreOption = None,
) -> None:
    """Import entities, rulesets and segments: an export, or a file written by hand. All of it, or nothing.

    \b
    Examples:
      rlm segments import examples/segments.json
      rlm segments export --store old.db | rlm segments import - --store postgresql://me@db/prompts
    """
    from rlm.prompts.segments import import_segments

    name = "stdin" if file == "-" else file
    try:
        data = json.loads(_read(file))
    except ValueError as error:
        raise UsageError(f"{name} is not JSON ({error}): give what `rlm segments export` writes") from None
    with _opened(store) as opened:
        done = import_segments(opened, data, replace=replace)
    say(f"{done.added} added, {done.replaced} replaced, {done.unchanged} unchanged")


@segments_app.command("export")
def export_(
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where to; else stdout.", show_default=False)
    ] = None,
    store: SegmentStoreOption = None,
) -> None:
    """Export everything, all versions too, as JSON.

    \b
    Example:
      rlm segments export --out segments.json
    """
    from rlm.prompts.segments import export_segments

    with _opened(store) as opened:
        data = json_bytes(export_segments(opened), indent=2)
    if out is None:
        typer.echo(data)
    else:
        Path(out).write_bytes(data + b"\n")


def _opened(store: str | None) -> SegmentStore:
    from rlm.prompts.segments import SegmentStore

    return SegmentStore.open(store)


def _edited_content(text: str) -> str:
    """What the user makes of it in their editor, without the line end that editors add."""
    from rlm.cli.console.editor import edited

    found = edited(text, "segment.md", os.environ)
    return found.removesuffix("\n") if not text.endswith("\n") else found


def _given_content(content: str | None, file: str | None) -> str | None:
    if content is not None and file is not None:
        raise UsageError("--content and --file are both given: give one of them")
    return content if file is None else _read(file)


def _read(file: str) -> str:
    name = "stdin" if file == "-" else file
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text: convert it first") from None


def _number(version: str) -> int | str:
    return int(version) if version.isascii() and version.isdigit() else version
