"""Streaming of LaTeX into the body. The text is unchanged, comments too, and its headings are indexed."""

from __future__ import annotations

import re

from rlm.sandbox.context.writer import ContextFileWriter

__all__ = ["LatexWriter"]

_LEVELS = {
    b"part": 1, b"chapter": 1, b"section": 2, b"subsection": 3, b"subsubsection": 4, b"paragraph": 5,
    b"subparagraph": 6, b"frametitle": 5,
}  # fmt: skip
# A heading begins its line: what follows `%` is a comment.
_HEADING = re.compile(
    rb"^[ \t]{0,40}\\(?P<word>part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|frametitle)\*?[ \t]{0,9}"
    rb"(?:\[[^\]\n]{0,400}\])?[ \t]{0,9}"
    rb"\{(?P<title>(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]{0,400}\}){0,400}\}){1,400}?)(?:\}|$)",
    re.M,
)
_LONGEST = 64 * 1024
_LONGEST_TITLE = 200


class LatexWriter:
    """Writes UTF-8 into the open document of a writer and indexes the headings that begin a line
    (`\\section{…}`)."""

    def __init__(self, writer: ContextFileWriter) -> None:
        self._writer = writer
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Write the next bytes."""
        data = self._held + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > _LONGEST:
            end = len(data)  # a line this long is not a title
        self._write(data[:end])
        self._held = data[end:]

    def finish(self) -> None:
        """Write the buffered bytes."""
        self._write(self._held)
        self._held = b""

    def _write(self, data: bytes) -> None:
        at = 0
        for found in _HEADING.finditer(data):
            title = found["title"].rstrip().decode("utf-8", "replace")[:_LONGEST_TITLE]
            if not title.strip():
                continue
            self._writer.write(data[at : found.start()])
            at = found.start()
            self._writer.heading(_LEVELS[found["word"]], len(title), offset=found.start("title") - at)
        self._writer.write(data[at:])
