"""A stored segment as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from rlm.cli.console.exits import say
from rlm.escaping import json_bytes

if TYPE_CHECKING:
    from rlm.prompts.segments import SegmentVersion, StoredSegment

__all__ = ["report_version", "segment_json", "segment_text", "version_json"]


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
