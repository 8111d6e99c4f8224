"""Streaming of Markdown and LaTeX into the body. The text is unchanged, and its headings are indexed."""

from __future__ import annotations

import re

from rlm.sandbox.context.writer import ContextFileWriter

__all__ = ["LatexWriter", "MarkdownWriter"]

# Begins with the line end before it, so the engine skips a line of any length in one step.
_CANDIDATE = re.compile(
    rb"\n {0,3}(?:(?P<mark>#{1,6})(?P<title>[ \t][^\n]*)?"
    rb"|(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    rb"|(?P<line>=+|-+)[ \t\r]*)(?=\n|\Z)"
)
_CLOSING = re.compile(rb"(?:^|[ \t]+)#+[ \t\r]*$")
# An underlined line that is not a heading: a list, a quote, a table, or another heading.
_NO_TITLE = re.compile(rb"[ \t]*(?:[-*+>#|]|\d+[.)])|[ ]{4}|\t")
_LATEX = re.compile(
    rb"\n[ \t]{0,40}\\(?P<word>part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|frametitle)\*?[ \t]{0,9}"
    rb"(?:\[[^\]\n]{0,400}\])?[ \t]{0,9}"
    rb"\{(?P<title>(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]{0,400}\}){0,400}\}){1,400}?)(?:\}|(?=\n|\Z))"
)
_LEVELS = {
    b"part": 1, b"chapter": 1, b"section": 2, b"subsection": 3, b"subsubsection": 4, b"paragraph": 5,
    b"subparagraph": 6, b"frametitle": 5,
}  # fmt: skip
_LONGEST = 64 * 1024
_LONGEST_TITLE = 200


class MarkdownWriter:
    """Writes UTF-8 into the open document of a writer and indexes its headings, both `#` and underlined ones.

    Lines within fenced code are not headings. The last line is buffered, because the next one may underline
    it; the line above it is kept to check that it is blank.
    """

    candidate = _CANDIDATE

    def __init__(self, writer: ContextFileWriter) -> None:
        self._writer = writer
        self._held = b"\n"
        self._written = 1
        """The bytes held that are already written: the line above and the line end before it. At the start
        of the document that line end was never there."""
        self._judged = 0
        """The offset in the bytes held from which lines are still to be checked for headings."""
        self._fence = b""

    def feed(self, data: bytes) -> None:
        """Write the next bytes."""
        data = self._held + data
        last = data.rfind(b"\n")
        if last > 0:
            held = data.rfind(b"\n", 0, last)
            kept = max(held if held <= 0 else data.rfind(b"\n", 0, held), 0)
            if held < 0 or len(data) - kept > _LONGEST:
                held = kept = last  # a line this long is not a title
            self._write(data, held + 1, last)
            data, self._written, self._judged = data[kept:], held + 1 - kept, last - kept
        if len(data) - self._judged > _LONGEST:
            # A line longer than any heading is written at once.
            self._writer.write(data[self._written :])
            data, self._written, self._judged = b"", 0, 0
        self._held = data

    def finish(self) -> None:
        """Write the buffered bytes."""
        self._write(self._held, len(self._held), len(self._held))
        self._held, self._written, self._judged = b"", 0, 0

    def _write(self, data: bytes, end: int, last: int) -> None:
        """Write `data` up to `end`, and index the headings of its complete lines, which end by `last`."""
        at = self._written
        for found in self.candidate.finditer(data, self._judged, last):
            heading = self._heading(found, data)
            if heading is None:
                continue
            start, level, offset, title = heading
            if start < at:
                continue
            self._writer.write(data[at:start])
            self._writer.heading(level, len(title), offset)
            at = start
        self._writer.write(data[at:end])

    def _heading(self, found: re.Match[bytes], data: bytes) -> tuple[int, int, int, str] | None:
        """Return start, level, offset of the title, and title; None if `found` is not a heading."""
        fence = found["fence"]
        if fence:
            if not self._fence:
                self._fence = fence
            elif (
                fence[:1] == self._fence[:1] and len(fence) >= len(self._fence) and not found["info"].strip()
            ):
                self._fence = b""
            return None
        if self._fence:
            return None
        start = found.start() + 1
        if found["mark"]:
            title = _CLOSING.sub(b"", found["title"] or b"").strip()
            if not title:
                return None
            offset = data.index(title, found.end("mark")) - start
            return start, len(found["mark"]), offset, _decode_title(title)
        before = data.rfind(b"\n", 0, found.start())
        title = data[before + 1 : found.start()]
        above = data[data.rfind(b"\n", 0, max(0, before)) + 1 : max(0, before)]
        if before < 0 or not title.strip() or above.strip() or _NO_TITLE.match(title):
            return None
        indent = len(title) - len(title.lstrip())
        return before + 1, 1 if found["line"][:1] == b"=" else 2, indent, _decode_title(title.strip())


class LatexWriter(MarkdownWriter):
    """The same for headings of LaTeX that begin a line (`\\section{…}`). What follows `%` is a comment."""

    candidate = _LATEX

    def _heading(self, found: re.Match[bytes], data: bytes) -> tuple[int, int, int, str] | None:
        start, title = found.start() + 1, found["title"].rstrip()
        if not title.strip():
            return None
        return start, _LEVELS[found["word"]], found.start("title") - start, _decode_title(title)


def _decode_title(title: bytes) -> str:
    return title.decode("utf-8", "replace")[:_LONGEST_TITLE]
