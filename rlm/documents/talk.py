"""Recognizes and writes talk that programs export as text: WhatsApp, Telegram, Discord, Slack, IRC, git.

A message begins with a line that holds a time and a name in one of their forms. The text of a message stays
as it is; its time and name become the message's header. What belongs to no message stays, too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.place_index import MessageHeader

__all__ = ["DATE", "LEVELS", "MOMENT", "NAME", "TIME", "TalkForm", "lines_of", "talk_form", "write_talk"]

TalkForm: TypeAlias = Literal["chat", "commits"]

_MONTH = (
    r"(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
    # German, French, Spanish, Portuguese, Italian, Dutch, Russian
    r"|(?i:j[aä]n(?:uar|v(?:ier|\.?)|eiro)|f[eé]v(?:rier|ereiro|\.)|märz|mars|maart|avr(?:il|\.)|abr(?:il|\.)|mai|mei|maio"
    r"|juin|juil(?:let|\.)|okt(?:ober|\.)|oct(?:obre|\.)|août|dez(?:ember|embro|\.)|déc(?:embre|\.)|dic(?:iembre|embre|\.)"
    r"|enero|febrero|marzo|mayo|junio|julio|agosto|septiembre|setembro|outubro|novembro|noviembre|gennaio|febbraio"
    r"|aprile|maggio|giugno|luglio|settembre|ottobre|março|junho|julho"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря))"
)
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ ])?"

DATE = (
    rf"(?:{_DAY}(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}|\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}"
    r"|\d{4}年\d{1,2}月\d{1,2}日"
    rf"|\d{{1,2}}\.? (?:de )?{_MONTH},?(?: de)? \d{{4}}(?: г\.)?|{_MONTH}[ ]{{1,2}}\d{{1,2}}(?:,? \d{{4}})?))"
)
"""`2026-05-01`, `1/5/26`, `1 May 2026`, `May  1`."""

TIME = (
    r"(?:\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?(?:[ \u202f]?[aApP]\.?[mM]\b\.?)?"
    r"(?:[ ]?(?:Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}))?)"
)
"""`10:00`, `10:00:05.123Z`, `4:04 pm`."""

MOMENT = (
    rf"(?:{DATE}(?:(?:T|,?[ ]|[ ](?:at|um|à|a las|às|alle|om|в)[ ]|[ ]-[ ]){TIME}(?: Uhr)?)?"
    rf"|{TIME}(?:,?[ ](?:on[ ])?{DATE})?)"
)
"""A date, a time, or both in either order."""

NAME = r"[^\W\d_](?:[\w.'’@&/+-]|[ ](?=[\w(@])){0,38}(?: \([^()\n]{1,20}\))?"
"""`Anna`, `Anna de Vries (she/her)`."""

_LEVEL_WORDS = "trace debug info notice warn warning error err fatal critical panic"
LEVELS = frozenset(_LEVEL_WORDS.split())
"""Names before a colon that are no authors, but the levels of a program's log."""

# These are compiled where they are used: most inputs hold no talk, and compiling takes 20 ms.
# Of WhatsApp, and of IRC and its like: time and name in one line, with a mark around or behind the time.
_MARKED = rf"(?:\[(?P<time>{MOMENT})\]|(?P<moment>{DATE},?[ \u202f]{TIME})[ ][-–—])"
_NICK = r"<[@+%&~! ]?(?P<nick>[^\s<>]{1,40})>"
_PHONE = r"\+[\d \u00a0()-]{6,24}"
_PERSON = rf"[\u200e\u200f]?(?P<name>(?:~[ \u202f]?)?(?:{NAME}|{_PHONE}|[^\x00-\x7f][^:\n]{{0,30}})):"
_SAID = rf"[\u200e\u200f]?{_MARKED}[ \t]+(?:{_NICK}|{_PERSON})(?:[ \t]+|$)"
_SAID_BARE = rf"(?P<time>{MOMENT})[ \t]+{_NICK}(?:[ \t]+|$)"
_EVENT = rf"[\u200e\u200f]?(?:{_MARKED}|(?P<when>{TIME})(?=[ \t]+[-*]))[ \t]+(?=\S)"
# Of Telegram, Discord, Slack and Teams: time and name have a line of their own.
_HEADED = (
    rf"(?:(?P<name>{NAME}),?[ \t]{{1,4}}(?:[—–-][ \t]|\[)(?P<time>{MOMENT})\]?"
    rf"|\[(?P<when>{MOMENT})\][ \t]+(?P<who>{NAME}(?:, {NAME})?))[ \t]*$"
)
_DAY_LINE = rf"[ \t]*[-=*#_~—–]{{2,}}[^\n\d]{{0,40}}?(?P<day>{DATE})[^\n]{{0,40}}$"
_COMMIT = re.compile(r"commit [0-9a-f]{7,64}\b")
_SHORT_COMMIT = re.compile(r"[*|\\/ ]{0,20}[0-9a-f]{7,40} (?=\S)")
_COMMIT_HEAD = re.compile(r"(Author|AuthorDate|CommitDate|Commit|Date|Merge|Refs):[ \t]*(.*)")
_MAY_BE = re.compile(r"\d:\d\d|^(?:commit|[*|\\/ ]{0,20}(?=[0-9a-f]{7,40} )) ?[0-9a-f]{7}", re.M)
_SAMPLE = 32_000
_MIN_MESSAGES = 3
_MIN_SPEAKERS = 2
_SAID_SHARE = 0.2
"""Of the lines that are not blank. A long message has many lines."""
_HEADED_SHARE = 0.15
_SAID_OF_EVENTS = 0.5
"""A log that names hardly anybody is no talk."""
_SHORT_SHARE = 0.8
"""Of the lines of `git log --oneline`."""
_LONGEST_LINE = 8_000_000
_MOST_HEAD = 20


def talk_form(head: str) -> TalkForm | None:
    """Return the form of the talk that begins with `head`; None for any other text."""
    if not _MAY_BE.search(head, 0, 4_000):
        return None
    lines = [line for line in head[:_SAMPLE].split("\n")[:-1] or [head] if line.strip()]
    if not lines:
        return None
    if _COMMIT.match(lines[0]) and any(line.startswith("Author: ") for line in lines[1:4]):
        return "commits"
    if sum(1 for line in lines if _SHORT_COMMIT.match(line)) >= max(_MIN_MESSAGES, _SHORT_SHARE * len(lines)):
        return "commits"
    said = [found for line in lines if (found := _said(line))]
    names = [_speaker(found).casefold() for found in said]
    if any(not LEVELS.isdisjoint(re.split(r"[\W_]+", name)) for name in names):
        return None
    # Who joins and leaves a channel of IRC is no sign of another log.
    events = (
        sum(1 for line in lines if (found := re.match(_EVENT, line)) and not found["when"]) if said else 0
    )
    is_first = bool(_said(lines[0]) or re.match(_EVENT, lines[0]) or re.match(_DAY_LINE, lines[0]))
    is_said = is_first and len(said) >= _SAID_OF_EVENTS * events
    headed = [found for line in lines if (found := re.match(_HEADED, line)) and ":" in line]
    speakers = {found["name"] or found["who"] for found in headed}
    for share, count, known, is_begun in (
        (_SAID_SHARE, len(said), set(names), is_said),
        (_HEADED_SHARE, len(headed), speakers, bool(re.match(_HEADED, lines[0]))),
    ):
        if is_begun and count >= max(_MIN_MESSAGES, share * len(lines)) and len(known) >= _MIN_SPEAKERS:
            return "chat"
    return None


def write_talk(texts: Iterator[str], form: TalkForm, writer: ContextFileWriter) -> None:
    """Write a talk into the open document of `writer`."""
    talk = _Talk(writer)
    if form == "commits":
        _write_commits(texts, talk)
    else:
        _write_chat(texts, talk)
    talk.end()


def lines_of(texts: Iterator[str]) -> Iterator[str]:
    """Yield lines with their ends. A line longer than any message is cut into pieces."""
    held = io.StringIO()
    size = 0
    for piece in texts:
        lines = piece.split("\n")
        for line in lines[:-1]:
            held.write(f"{line}\n")
            yield held.getvalue()
            held, size = io.StringIO(), 0
        held.write(lines[-1])
        size += len(lines[-1])
        if size > _LONGEST_LINE:
            yield held.getvalue()
            held, size = io.StringIO(), 0
    if rest := held.getvalue():
        yield rest


class _Talk:
    """Writes messages, with a blank line between them. `number` is that of the last one."""

    def __init__(self, writer: ContextFileWriter) -> None:
        self.number = 0
        self._writer = writer
        self._last = "\n"

    def begin(self, author: str, time: str, text: str) -> None:
        """Begin a message with its first line."""
        self.end()
        self.number += 1
        self._writer.begin_message(MessageHeader(self.number, "", author, time))
        if text:
            self.write(text if text.endswith("\n") else f"{text}\n")

    def write(self, line: str) -> None:
        self._writer.write(line)
        self._last = line

    def end(self) -> None:
        """End the message, if there is one."""
        if self.number and self._last.strip():
            self._writer.write("\n" if self._last.endswith("\n") else "\n\n")
            self._last = "\n"
        self._writer.end_message()


def _write_chat(texts: Iterator[str], talk: _Talk) -> None:
    day = ""
    for line in lines_of(texts):
        bare = line.rstrip("\r\n")
        if found := _said(bare):
            talk.begin(_speaker(found), _join(_time(found), day), line[found.end() :])
        elif (found := re.match(_HEADED, bare)) and ":" in bare:
            time = (found["time"] or found["when"]).strip()
            talk.begin((found["name"] or found["who"]).strip(), _join(time, day), "")
        elif found := re.match(_EVENT, bare):
            talk.begin("", _join(_time(found), day), line[found.end() :])
        elif found := re.match(_DAY_LINE, bare):
            talk.end()
            talk.write(line)
            day = found["day"]
        else:
            talk.write(line)


def _write_commits(texts: Iterator[str], talk: _Talk) -> None:
    head: list[str] = []
    is_long = False
    for line in lines_of(texts):
        if _COMMIT.match(line):
            _begin_commit(head, talk)
            head, is_long = [line], True
        elif head and _COMMIT_HEAD.match(line) and len(head) < _MOST_HEAD:
            head.append(line)
        else:
            _begin_commit(head, talk)
            head = []
            if not is_long and _SHORT_COMMIT.match(line):
                talk.begin("", "", line)
            else:
                talk.write(line)
    _begin_commit(head, talk)


def _begin_commit(head: list[str], talk: _Talk) -> None:
    if head:
        facts = {found[1]: found[2] for line in head if (found := _COMMIT_HEAD.match(line))}
        author = re.sub(r"\s*<[^>]*>", "", facts.get("Author", "")).strip()
        time = facts.get("AuthorDate") or facts.get("Date") or facts.get("CommitDate") or ""
        talk.begin(author, time.strip(), "".join(head))


def _said(line: str) -> re.Match[str] | None:
    return re.match(_SAID, line) or re.match(_SAID_BARE, line)


def _speaker(found: re.Match[str]) -> str:
    groups = found.groupdict()
    return (groups["nick"] or groups.get("name") or "").strip(" ~\u202f")


def _time(found: re.Match[str]) -> str:
    groups = found.groupdict()
    return (groups.get("time") or groups.get("moment") or groups.get("when") or "").strip()


def _join(time: str, day: str) -> str:
    """Return the time. A time of day gets the day above it."""
    has_date = re.search(r"\d{4}|[A-Za-z]{3}|/|\d\.\d", time)
    return time if has_date or not day else f"{day} {time}"
