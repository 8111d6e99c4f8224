"""Reads subtitles and transcripts with times (SRT, WebVTT): a line for each cue, with its time."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import dropwhile, pairwise
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
    speaker, before = "", [""]
    for start, end in pairwise([*starts, len(lines)]):
        found = _CUE.fullmatch(lines[start])
        assert found is not None
        given = lines[start + 1 : end] if end == len(lines) else _without_name(lines[start + 1 : end])
        after = next((at for at, line in enumerate(given) if _BLOCK.fullmatch(line)), len(given))
        shown = [line for raw in given[:after] if (line := " ".join(_MARK.sub("", raw).split()))]
        fresh = list(dropwhile(before.__contains__, shown))
        if not fresh and len(" ".join(shown)) <= _ROLLED:
            fresh = shown
        before = shown
        if fresh:
            voice = _VOICE.match("".join(given[:after]).lstrip())
            who = html.unescape(" ".join(voice[1].split())) if voice else ""
            said = f"{who}: " if who != speaker and who else ""
            time = f"{int(found['hours'] or 0):02}:{int(found['minutes']):02}:{int(found['seconds']):02}"
            yield Text(f"[{time}] {said}{html.unescape(' '.join(fresh))}\n")
            speaker = who
        yield from _notes(given[after:])
    faulty = sum(bool(_TIMED.match(line)) for line in lines) - len(starts)
    if faulty > 0:
        what = f"{faulty:,} times cannot be read, and stand as text"
        yield Problem(what, "correct them if they matter", "remark")
    yield Ended(replaced, guessed)


def _without_name(lines: list[str]) -> list[str]:
    """Return the lines above a cue without its number, or its name: one word below a blank line."""
    if not lines:
        return lines
    is_name = len(lines) > 1 and not lines[-2].strip() and len(lines[-1].split()) == 1
    return lines[:-1] if is_name or _NUMBER.fullmatch(lines[-1].strip()) else lines


def _notes(lines: list[str]) -> Iterator[Piece]:
    """Yield the text between cues: notes of a WebVTT file, and what stands before the first cue."""
    for block in "\n".join(lines).split("\n\n"):
        text = " ".join(block.split()).removeprefix("WEBVTT").lstrip(" -")
        if text and not text.startswith(("STYLE", "REGION")):
            yield Text(f"{text}\n")
