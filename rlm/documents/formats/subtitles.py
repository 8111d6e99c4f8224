"""Reads subtitles and transcripts with times (SRT, WebVTT): a line for each cue, with its time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.piece import Ended, Fault, Piece, Problem, Text

__all__ = ["read_subtitles"]

_TIME = r"(?:(?P<hours>\d{1,3}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d{1,2})(?:[.,]\d{1,3})?"
_CUE = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*[\d:.,]+[^\n]*")
_TIMED = re.compile(r"[ \t]*[\d:.,]+[ \t]*-->")
_VOICE = re.compile(r"<v(?:\.[\w.-]*)?[ \t]+([^>\n]{1,200})>")
# The marks of both formats. Another `<word>` is text.
_MARK = re.compile(
    r"</?(?:i|b|u|s|c|v|lang|ruby|rt|font)(?:[. \t][^>\n]{0,200})?>|<[\d:.,]+>|\{\\[^}\n]{1,200}\}", re.I
)
_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?:[ \t][^\n]*)?")
_ROLLED = 20
"""Characters of a cue that are no chance if the next cue has the same ones."""
_NUMBER = re.compile(r"\d{1,7}")


def read_subtitles(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a line `[00:12:05] text` for each cue. A speaker is named where he begins (`[00:12:05] Ann: …`),
    so that a sentence can be quoted over several cues. Raises Fault for a text without cues.

    A line that a cue repeats of the one before is left out: captions that roll up show each line twice.
    """
    text, replaced, guessed = decode_whole(file.read())
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    starts = [at for at, line in enumerate(lines) if _CUE.fullmatch(line)]
    if not starts:
        raise Fault("foreign", "it has no time", "rename it to .txt to have it read as text")
    yield from _notes(_without_name(lines[: starts[0]]))
    speaker, shown = "", [""]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        found = _CUE.fullmatch(lines[start])
        assert found is not None
        told, after = _split(lines[start + 1 : end], is_last=end == len(lines))
        before, shown = shown, told
        if _plain(told) == _plain(before) and len(" ".join(told)) > _ROLLED:
            continue
        fresh = told[_overlap(before, told) :]
        words = " ".join(fresh)
        named = _VOICE.match(words)
        who = " ".join(named[1].split()) if named else ""
        words = " ".join(html.unescape(_MARK.sub("", _VOICE.sub("", words))).split())
        if words:
            said = f"{html.unescape(who)}: " if who and who != speaker else ""
            time = f"{int(found['hours'] or 0):02}:{int(found['minutes']):02}:{int(found['seconds']):02}"
            yield Text(f"[{time}] {said}{words}\n")
            speaker = who
        yield from _notes(after)
    faulty = sum(bool(_TIMED.match(line)) for line in lines) - len(starts)
    if faulty > 0:
        yield Problem(
            f"{faulty:,} times cannot be read, and stand as text", "correct them if they matter", "remark"
        )
    yield Ended(replaced, guessed)


def _split(lines: list[str], *, is_last: bool) -> tuple[list[str], list[str]]:
    """Return the lines of a cue, and those between it and the next, without that one's number or name."""
    begins = next((at for at, line in enumerate(lines) if line.strip()), 0)
    ends = next(
        (at for at in range(begins, len(lines)) if not lines[at].strip() and _ends(lines[at:])), len(lines)
    )
    told, after = lines[:ends], lines[ends:]
    if not is_last:
        after = _without_name(after)
        if not after and told and _NUMBER.fullmatch(told[-1].strip()):
            told = told[:-1]
    return [line.strip() for line in told if line.strip()], after


def _without_name(lines: list[str]) -> list[str]:
    """Return the lines above a cue without its number or name: one word below a blank line."""
    is_name = len(lines) > 1 and not lines[-2].strip() and len(lines[-1].split()) == 1
    return lines[:-1] if is_name else lines


def _ends(lines: list[str]) -> bool:
    """Return whether a blank line ends the cue: what follows is nothing, one line, or a block."""
    rest = [line for line in lines if line.strip()]
    return len(rest) <= 1 or _BLOCK.fullmatch(rest[0]) is not None


def _overlap(before: list[str], lines: list[str]) -> int:
    """Return the number of lines at the start that the cue before showed at its end."""
    before, lines = _plain(before), _plain(lines)
    for count in range(min(len(before), len(lines)), 0, -1):
        if before[-count:] == lines[:count] and len(lines) > count:
            return count
    return 0


def _plain(lines: list[str]) -> list[str]:
    return [" ".join(_MARK.sub("", line).split()) for line in lines]


def _notes(lines: list[str]) -> Iterator[Piece]:
    """Yield the text between cues: notes of a WebVTT file, and what stands before the first cue."""
    for block in "\n".join(lines).split("\n\n"):
        text = " ".join(block.split()).removeprefix("WEBVTT").lstrip(" -")
        if text and not text.startswith(("STYLE", "REGION")) and not _NUMBER.fullmatch(text):
            yield Text(f"{text}\n")
