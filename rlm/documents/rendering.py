"""Writes documents that are text into the body: as they are, with their headings indexed, or as messages."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterator, Mapping

from rlm.documents.chat import form_of, render
from rlm.documents.encoding import Decoder
from rlm.documents.headings import LatexWriter, MarkdownWriter
from rlm.sandbox.context.writer import ContextFileWriter

__all__ = ["LINE_WRITERS", "MAY_TALK", "Blocks", "head_of", "write_text"]

LINE_WRITERS: dict[str, type[MarkdownWriter] | type[LatexWriter]] = {
    "markdown": MarkdownWriter,
    "latex": LatexWriter,
}
"""Kinds of text that stay as they are, and whose headings are indexed."""

MAY_TALK = ("json", "jsonl", "text")
"""Kinds of text in which messages are looked for."""

Blocks = Iterator[bytes | str]
"""The content of a document in blocks."""


def write_text(
    kind: str,
    blocks: Blocks,
    writer: ContextFileWriter,
    begin: Callable[[str], None],
    names: Mapping[str, str],
) -> tuple[Decoder, str]:
    """Write a text. `begin` is called with its kind before. Messages in it are rendered, with
    `names` for the ids of users. Return the decoder,
    which knows what was replaced, and the fault of a chat that is damaged."""
    decoder = Decoder()
    fed = _decoded(decoder, blocks)
    first = next(fed)
    if kind in MAY_TALK and (form := form_of(head_of(first), kind)) is not None:
        begin(form.partition(":")[0])
        return decoder, render(_texts(decoder, itertools.chain((first,), fed)), form, writer, names)
    begin(kind)
    marking = LINE_WRITERS[kind](writer) if kind in LINE_WRITERS else None
    for block in itertools.chain((first,), fed):
        if marking is None:
            writer.write(block)
        else:
            marking.feed(block.encode("utf-8", "surrogatepass") if isinstance(block, str) else block)
    if marking is not None:
        marking.finish()
    return decoder, ""


def head_of(block: bytes | str) -> str:
    """Return the text of the first block, without a character that is cut at its end."""
    return block if isinstance(block, str) else codecs.utf_8_decode(block, "replace", False)[0]


def _decoded(decoder: Decoder, blocks: Blocks) -> Blocks:
    for block in blocks:
        yield block if isinstance(block, str) else decoder.feed(block)
    yield decoder.finish()


def _texts(decoder: Decoder, blocks: Blocks) -> Iterator[str]:
    """Yield decoded blocks as text."""
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    for block in blocks:
        text = utf8.decode(block) if isinstance(block, bytes) else block
        if isinstance(block, bytes) and "\ufffd" in text:
            decoder.replaced += max(0, text.count("\ufffd") - block.count(b"\xef\xbf\xbd"))
        if text:
            yield text
    yield utf8.decode(b"", True)
