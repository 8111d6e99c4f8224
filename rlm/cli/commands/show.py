"""`rlm show` and `rlm export`: the events of one run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.console.out import check_out, open_output
from rlm.cli.console.render_result import plural
from rlm.cli.store import RunArgument, StoreOption, with_journal
from rlm.escaping import json_bytes, terminal_text

if TYPE_CHECKING:
    from rlm.journal import Journal, JournalEvent

__all__ = ["export", "show"]

_MAX_OUTPUT = 1_200
_MAX_NAME = 100
_MAX_PROMPT = 200


def show(
    run: RunArgument = "latest",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as JSON, one a line.")] = False,
    store: StoreOption = None,
) -> None:
    """Show the rounds, children and answer of a run, by default of the newest one.

    \b
    Examples:
      rlm show
      rlm show 20260131-142501
    """

    for event in with_journal(store, lambda journal: _events(journal, run)):
        if as_json:
            typer.echo(json_bytes(asdict(event)))
        else:
            text = _event_text(event)
            if text:
                typer.echo(terminal_text(_at_depth(event, text)))


def export(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file to write, readable by you only.",
            show_default="stdout",
            callback=check_out,
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Export all events of a run as JSON.

    Each line has run_id, seq, at (Unix seconds), kind and data. The export contains text of your documents,
    but no API key.

    \b
    Example:
      rlm export 20260131-142501 --out run.jsonl
    """
    events = with_journal(store, lambda journal: _events(journal, run))
    lines = (json_bytes(asdict(event)) for event in events)
    if out is None:
        for line in lines:
            typer.echo(line)
        return
    with open_output(out, private=True) as file:
        file.writelines(line + b"\n" for line in lines)
    typer.echo(f"wrote {len(events):,} events of {events[0].run_id} to {out}", err=True)


async def _events(journal: Journal, run: str) -> tuple[JournalEvent, ...]:
    return await journal.events(await journal.resolve(run))


def _at_depth(event: JournalEvent, text: str) -> str:
    """Indent the events of sub-RLMs, one step for each depth."""
    names = event.data.get("within", "")
    steps = names.count("/") + 1 if names else 0
    return "\n".join("  | " * steps + line for line in text.splitlines()) if steps else text


def _event_text(event: JournalEvent) -> str:
    data = event.data
    match event.kind:
        case "run_started":
            settings = data["settings"]
            return (
                f"task: {_continued(data['task'])}\n"
                f"model {settings['model']}, children {settings['sub_model']}, "
                f"{settings['context_chars']:,} characters in {settings['documents']:,} documents\n"
            )
        case "cell":
            result = data["result"]
            output = result["stdout"] or result["result"] or result["traceback"] or result["evalue"]
            return (
                f"round {data['round']}: {result['status']}, {result['seconds']:.2f} s\n"
                f"{_indented(data['code'])}\n  ->\n{_indented(output[:_MAX_OUTPUT])}\n"
            )
        case "model_call":
            thought = _thought(data)
            return f"  the {data['role']} model{thought}" if thought else ""
        case "child":
            outcome = data.get("error") or data.get("reply", "")
            pages = ", ".join(
                f"{document[:_MAX_NAME]} page {page}" for document, page, _ in data.get("pages", ())
            )
            read = f"looked at {_continued(pages)}" if pages else data.get("spans") or ""
            return f"  child {read}{_thought(data)}: {_continued(outcome[:200])}"
        case "charge":
            tokens = data["usage"]["input_tokens"] + data["usage"]["output_tokens"]
            error = _continued(data["error"][:200])
            return f"  a failed call ({data['role']}) was charged {tokens:,} tokens: {error}"
        case "compaction":
            before, after = data["tokens_before"], data["tokens_after"]
            return f"folded rounds 1 to {data['last_round']} from {before:,} to {after:,} tokens"
        case "sub_rlm":
            return f"sub-RLM: {_continued(data['prompt'][:_MAX_PROMPT])}"
        case "sub_rlm_ended":
            return f"sub-RLM ended: {_continued(data['error'] or 'answered')}"
        case "planned":
            return f"planned {plural(len(data['questions']), 'question')}"
        case "part":
            return f"{data['name']}: {_continued(data['title'])}"
        case "part_ended":
            result = data["result"] or {}
            return f"{data['name']} ended: {_continued(data['error'] or str(result.get('stop_reason')))}\n"
        case "kernel_died":
            return f"  the kernel died in round {data['round']}: {_continued(data['reason'])}"
        case "resumed":
            return "  resumed"
        case "interrupted":
            return f"  interrupted ({data['stop_reason']})"
        case "diverged":
            return f"  round {data['round']} diverged when it was re-run"
        case "limit":
            return f"  limit: {_continued(data.get('message') or str(data.get('violation')))}"
        case "warning":
            return f"  note: {_continued(data['message'])}"
        case "finished":
            answer = data.get("answer")
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            return f"{data['stop_reason']}: {_continued(text)}"
        case _:
            return ""


def _thought(data: Mapping[str, Any]) -> str:
    """Return how much a model thought in a call, "" if it did not."""
    tokens = data.get("usage", {}).get("reasoning_tokens", 0)
    return f" thought for {tokens:,} tokens" if tokens else ""


def _continued(text: str) -> str:
    """Indent all lines but the first, so that no text can pose as the next event."""
    return "\n    ".join(text.splitlines())


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
