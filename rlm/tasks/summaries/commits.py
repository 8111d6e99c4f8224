"""Find the commits of a `git log` in any of its formats."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

from rlm.lazy_dataclass import dataclass

__all__ = ["Commit", "commits_in", "without_diff"]

_MIN_COMMITS = 3
_COMMIT_LINES_SHARE = 0.8
_COMMIT = re.compile(r"^commit ([0-9a-f]{7,64})\b.*$", re.MULTILINE)
_COMMIT_LINE = re.compile(r"^[*|\\/ ]{0,20}([0-9a-f]{7,40}) (?=\S)", re.MULTILINE)
_COMMIT_HEAD = re.compile(r"^(Author|AuthorDate|CommitDate|Commit|Date|Merge):[ \t]*(.*)$", re.MULTILINE)
_DIFF = re.compile(r"^[ \t]*diff --git a/(\S+) b/\S+\n.*?(?=^[ \t]*diff --git |\Z)", re.MULTILINE | re.DOTALL)
_STAT = re.compile(r"^([ \t]*\S[^\n|]*?)[ \t]*\|[ \t]+(?:\d+ [+-]*|Bin [^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in a text: its span, the start of its message, author and time; "" if unknown."""

    start: int
    text: int
    end: int
    author: str = ""
    time: str = ""


def commits_in(text: str) -> list[Commit]:
    """Return the commits, oldest first, so that new commits only add to the end."""
    found = list(_COMMIT.finditer(text))
    if len(found) >= 1 and not text[: found[0].start()].strip():
        ends = [*(match.start() for match in found[1:]), len(text)]
        commits = [_commit(text, match, end) for match, end in zip(found, ends, strict=True)]
        times = [moment for one in (commits[0], commits[-1]) if (moment := _parse_time(one.time))]
        return commits if len(times) == 2 and times[0] < times[1] else commits[::-1]
    lines = [line for line in text.splitlines() if line.strip()]
    short = list(_COMMIT_LINE.finditer(text))
    if len(short) >= _MIN_COMMITS and len(short) >= _COMMIT_LINES_SHARE * len(lines):
        starts = [0, *(match.start() for match in short[1:])]
        ends = [*starts[1:], len(text)]
        return [
            Commit(start, match.start(1), end) for start, match, end in zip(starts, short, ends, strict=True)
        ][::-1]
    return []


def _parse_time(time: str) -> float | None:
    """Parse a time in any of git's formats. Returns seconds since 1970."""
    for pattern in ("%a %b %d %H:%M:%S %Y %z", "%Y-%m-%d %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z"):
        with suppress(ValueError):
            return datetime.strptime(time, pattern).timestamp()
    with suppress(ValueError):
        return datetime.fromisoformat(time).timestamp()
    return None


def _commit(text: str, match: re.Match[str], end: int) -> Commit:
    head_end = text.find("\n\n", match.end(), end)
    head_end = end if head_end < 0 else head_end
    head = {key: value.strip() for key, value in _COMMIT_HEAD.findall(text[match.end() : head_end])}
    author = re.sub(r"\s*<[^>]*>", "", head.get("Author", ""))
    time = head.get("AuthorDate") or head.get("Date") or head.get("CommitDate") or ""
    return Commit(match.start(), head_end, end, author, time)


def without_diff(message: str) -> str:
    """Return the message with the names of the changed files: no patch, and no bars of `--stat`."""
    return _STAT.sub(r"\1", _DIFF.sub(r"\1\n", message)).strip()
