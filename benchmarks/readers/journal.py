"""Journals as artifacts: what the models wrote, without the texts of the data sets.

A slim journal keeps every reply, all code, spans, keys, tokens and times. It leaves out prompts, the output
of cells, quotes and the question, which hold texts that their licences do not let us pass on. With the data
folder they come back: the texts are read, the code runs again, and each reply is found by its key.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm.journal import Journal, JournalEvent

__all__ = ["as_written", "declined", "discarded", "first_try", "read", "rebuild", "slim", "write"]

Event = dict[str, Any]
_EDIT = re.compile(r"^\W*L\d[\dL+,& ]*=")
_MARK = re.compile(r"\[m\d[^\]\n]*\]")
_NEXT = re.compile(r"^NEXT:.*$", re.MULTILINE)
_OUTPUTS = ("stdout", "stderr", "traceback", "evalue")


def slim(events: Sequence[JournalEvent]) -> list[Event]:
    """Return the events without texts of the input."""
    return [
        {"run_id": one.run_id, "seq": one.seq, "at": round(one.at, 1), "kind": one.kind, "data": _slim(one)}
        for one in events
    ]


def _slim(event: JournalEvent) -> dict[str, Any]:
    data = {key: value for key, value in event.data.items() if key != "report"}
    match event.kind:
        case "run_started":
            settings = dict(data["settings"])
            names = [Path(one.get("path", one.get("name", ""))).name for one in settings.get("sources", ())]
            settings["sources"] = [{"name": name} for name in names]
            data = {**data, "task": "", "settings": settings}
        case "cell":
            result = dict(data["result"])
            data["result"] = {**result, **dict.fromkeys(_OUTPUTS, ""), "result": None}
        case "helper":
            data["result"] = {}
        case _:
            pass
    if "messages" in data:
        data["messages"] = [{**one, "content": _digest(one["content"])} for one in data["messages"]]
    if "citations" in data:
        data["citations"] = _without_quotes(data["citations"])
    if isinstance(data.get("result"), dict) and "citations" in data["result"]:
        data["result"] = {**data["result"], "citations": _without_quotes(data["result"]["citations"])}
    return data


def _digest(content: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _without_quotes(citations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "quote": "", "heading_path": []} for one in citations]


def write(events: Sequence[Event], file: Path) -> None:
    """Write the events as compressed JSON lines. Raises FileExistsError: no artifact is overwritten."""
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in events)
    with file.open("xb") as stream:
        stream.write(lzma.compress(lines.encode("utf-8"), preset=9))


def read(file: Path) -> list[Event]:
    """Return the events that `write` wrote."""
    return [json.loads(line) for line in lzma.decompress(file.read_bytes()).decode("utf-8").splitlines()]


async def rebuild(
    events: Sequence[Event], store: Path, question: str, texts: Sequence[Path], *, ended: bool = True
) -> str:
    """Write a store from a slim journal, and return the name of its run.

    Without `ended` the run looks interrupted: to resume it goes through all of it again.
    """
    start = events[0]
    sources = [{"path": str(path.absolute()), "exclude": []} for path in texts]
    settings = {**start["data"]["settings"], "sources": sources}
    run_id: str = start["run_id"]
    async with Journal.open(store) as journal, journal.run(run_id, question, settings) as log:
        for event in events[1:]:
            if ended or event["kind"] not in ("finished", "part_ended"):
                await log.append(event["kind"], event["data"])
    return run_id


def first_try(events: Sequence[Event], limit: int) -> Mapping[str, int | bool] | None:
    """Return the tokens of the first whole summary that the model wrote, and whether they keep the limit."""
    from rlm.accounting.metered_model import estimate

    replies = _summaries(events)
    if not replies:
        return None
    tokens = estimate(replies[0])
    return {"tokens": tokens, "kept": tokens <= limit, "calls": len(replies)}


def _summaries(events: Sequence[Event]) -> list[str]:
    return [
        event["data"]["reply"]
        for event in events
        if event["kind"] == "model_call" and event["data"].get("role") == "summary"
    ]


def discarded(events: Sequence[Event], kind: str, answer: str) -> list[str]:
    """Return a line for each text that was paid for and then thrown away.

    A failed call that was charged is one, and so is a direct reply that says something and was refused. A
    summary is one if no line of any of its replies is in the result. Rounds and children are no texts for the
    user, and neither is a reply that says only that the text does not hold the answer (`declined`).
    """
    found = [
        f"a failed call was charged: {one['data']['error']}" for one in events if one["kind"] == "charge"
    ]
    if kind == "summarize":
        written = [reply for reply in _summaries(events) if reply.strip()]
        kept = _lines(answer)
        if written and not any(_lines(reply) & kept for reply in written):
            found.append("the summary that the model wrote is not the result")
    ended = events[-1]["data"] if events else {}
    for one, is_asked_again in _direct(events):
        if _declines(one["reply"]):
            continue
        if is_asked_again:
            found.append("a direct reply was refused, and an RLM was asked again")
        elif ended.get("answer") is None and ended.get("stop_reason") in ("unverified", "invalid_reply"):
            found.append(f"a direct reply was refused: {ended['stop_reason']}")
    return found


def declined(events: Sequence[Event]) -> int:
    """Return how many replies said that the text does not hold the answer, and were followed by a run that
    looked again."""
    return sum(is_asked_again and _declines(one["reply"]) for one, is_asked_again in _direct(events))


def as_written(events: Sequence[Event], answer: str) -> tuple[int, int]:
    """Return how many lines of a summary stand as a reply wrote them, and how many it has. The others were
    computed or corrected."""
    written = frozenset().union(*map(_lines, _summaries(events)))
    kept = _lines(answer)
    return len(kept & written), len(kept)


def _direct(events: Sequence[Event]) -> list[tuple[Event, bool]]:
    """Return the direct replies, each with whether a root was asked the same afterwards."""
    calls = [one["data"] for one in events if "role" in one["data"]]
    replies = [one for one in calls if one["role"] == "direct" and "reply" in one]
    rounds = {one.get("within", "") for one in calls if one["role"] == "root"}
    return [(one, one.get("within", "") in rounds) for one in replies]


def _declines(reply: str) -> bool:
    from rlm.prompts import is_not_found

    return is_not_found(_NEXT.sub("", reply))


def _lines(text: str) -> set[str]:
    """Return the lines of a summary, or its sentences if it is prose, without marks, to see which survived.
    `L3 = - text` is the line `text`."""
    rows = (row for line in text.splitlines() for row in _MARK.split(_EDIT.sub("", line)))
    words = ("".join(one for one in row if one.isalnum()).casefold() for row in rows)
    return {one for one in words if len(one) > 20}
