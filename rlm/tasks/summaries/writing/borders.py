"""Find where a history may be cut: at scenes, days and pauses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.tasks.summaries.entries import DATE, TIME, Entry

__all__ = ["borders_of"]

_SCENE, _DAY, _MARK = 30_000.0, 20_000.0, 10_000.0
_MIN_PAUSE = 5.0  # minutes
_MINUTES_A_DAY = 24 * 60
_DATE = re.compile(DATE, re.IGNORECASE)
_TIME = re.compile(TIME)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?(?:[.,]\d+)?[ \u202f]?([ap])?", re.IGNORECASE)
_RULE = re.compile(
    r"^[ \t]*(?:[*#~=_-][ \t]*){3,}$|^[ \t]*\W*(?:scene|act|chapter|part|break)\b[^\n]{0,40}$",
    re.IGNORECASE | re.MULTILINE,
)


def borders_of(entries: Sequence[Entry]) -> list[float]:
    """Return for each entry how good a place to cut is before it: 0 for none, else more for a new document or
    heading than for a new day, a rule or a break, and a pause (its minutes)."""
    found = [0.0] * len(entries)
    for at in range(1, len(entries)):
        before, entry = entries[at - 1], entries[at]
        if (before.document, before.heading) != (entry.document, entry.heading):
            found[at] = _SCENE
            continue
        days = (_day(before), _day(entry))
        if all(days) and days[0] != days[1]:
            found[at] = _DAY
        elif _RULE.search(before.message.content[-200:]) or _RULE.search(entry.message.content[:200]):
            found[at] = _MARK
        else:
            found[at] = _pause(before, entry)
    return found


def _day(entry: Entry) -> str:
    match = _DATE.search(entry.message.created_at or "")
    return match[0].casefold() if match else ""


def _pause(before: Entry, entry: Entry) -> float:
    """Return the minutes between two entries of a day, by the clock times that they are written with."""
    times = [_minutes(one.message.created_at or "") for one in (before, entry)]
    if times[0] is None or times[1] is None:
        return 0.0
    minutes = (times[1] - times[0]) % _MINUTES_A_DAY
    return float(minutes) if minutes >= _MIN_PAUSE else 0.0


def _minutes(time: str) -> int | None:
    found = _TIME.search(time)
    clock = _CLOCK.search(found[0]) if found else None
    if clock is None:
        return None
    hours = int(clock[1]) % 12 + (12 if clock[3] in ("p", "P") else 0) if clock[3] else int(clock[1])
    return hours * 60 + int(clock[2])
