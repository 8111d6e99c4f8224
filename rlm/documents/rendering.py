"""Writes documents that are text into the body: as they are, with their headings indexed, or as a chat."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterator

from rlm.documents.chat import form_of, render
from rlm.documents.encoding import Decoder
from rlm.documents.latex import LatexWriter
from rlm.documents.markdown import MarkdownWriter
from rlm.sandbox.context.writer import ContextFileWriter

__all__ = ["LINE_WRITERS", "Blocks", "write_text"]

LINE_WRITERS: dict[str, type[MarkdownWriter] | type[LatexWriter]] = {
    "markdown": MarkdownWriter,
    "latex": LatexWriter,
}
"""Kinds of text that stay as they are, and whose headings are indexed."""

Blocks = Iterator[bytes | str]
"""The content of a document in blocks."""


def write_text(
    kind: str,
    blocks: Blocks,
    writer: ContextFileWriter,
    begin: Callable[[str], None],
    *,
    searches_chats: bool,
) -> tuple[Decoder, str]:
    """Write a text. `begin` is called with its kind before. With `searches_chats`, JSON may be rendered as a
    chat. Return the decoder, which knows what was replaced, and the fault of a chat that is damaged."""
    decoder = Decoder()
    if searches_chats:
        texts = _texts(decoder, blocks)
        head = next(texts).removeprefix("\ufeff")
        form = form_of(head, lines=kind == "jsonl")
        begin(form.partition(":")[0] if form else kind)
        whole = itertools.chain((head,), texts)
        if form is not None:
            return decoder, render(whole, form, writer) or ""
        for text in whole:
            writer.write(text)
        return decoder, ""
    begin(kind)
    marking = LINE_WRITERS[kind](writer) if kind in LINE_WRITERS else None
    for block in itertools.chain(blocks, (None,)):
        fed = decoder.finish() if block is None else block if isinstance(block, str) else decoder.feed(block)
        if marking is None:
            writer.write(fed)
        else:
            marking.feed(fed.encode("utf-8", "surrogatepass") if isinstance(fed, str) else fed)
    if marking is not None:
        marking.finish()
    return decoder, ""


def _texts(decoder: Decoder, blocks: Blocks) -> Iterator[str]:
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    for block in blocks:
        fed = block if isinstance(block, str) else decoder.feed(block)
        text = utf8.decode(fed) if isinstance(fed, bytes) else fed
        if isinstance(fed, bytes) and "\ufffd" in text:
            decoder.replaced += max(0, text.count("\ufffd") - fed.count(b"\xef\xbf\xbd"))
        if text:
            yield text
    yield utf8.decode(b"", True) + decoder.finish()
