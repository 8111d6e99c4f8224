"""Test a context that grows, and a kernel that several questions share."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME
from rlm.sandbox.text.place_index import MessageHeader

# A piece of a document: plain text, a page, a message or a heading.
PIECE = st.tuples(
    st.sampled_from(["text", "page", "message", "heading"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
)
DOCUMENTS = st.lists(st.lists(PIECE, max_size=4), max_size=4)


def write(folder: Path, documents: list[list[tuple[str, str]]]) -> ContextFile:
    with ContextFileWriter(folder) as writer:
        for number, pieces in enumerate(documents):
            writer.begin_document(f"d{number}", "text")
            for kind, text in pieces:
                if kind == "page":
                    writer.begin_page()
                if kind == "message":
                    writer.begin_message(MessageHeader(7, "user"))
                if kind == "heading":
                    writer.write_heading(len(text) % 3 + 1, "".join(text.split()) or "x")
                writer.write(f"x{text}")
        return writer.finish()


@given(DOCUMENTS, DOCUMENTS)
def test_a_grown_context_is_the_one_that_would_have_been_written_at_once(first, then) -> None:
    """Body, checkpoints, pages, messages, headings and documents are equal byte by byte, so old offsets
    stay.
    """
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        one = write(top / "one", first)
        whole = write(top / "whole", first + then)
        names = iter(f"d{number}" for number in range(len(first) + len(then)))
        with (
            one.open() as old,
            write(top / "two", then).open() as new,
            ContextFileWriter(top / "grown") as writer,
        ):
            writer.add_body(old, lambda _: next(names))
            writer.add_body(new, lambda _: next(names))
            grown = writer.finish()
            for file in (BODY_NAME, INDEX_NAME, MANIFEST_NAME):
                assert (grown.folder / file).read_bytes() == (whole.folder / file).read_bytes()
            with grown.open() as body:
                assert body.text(0, old.chars) == old.text(0, old.chars)


async def test_a_shared_kernel_follows_the_question(make_context, handler) -> None:
    """The body and the outputs of rounds belong to the question. Variables stay."""
    kernel = JupyterSandbox(make_context("one\ntwo\nthree\n"), handler, minimum=0, shared=True)
    await kernel.open()

    async def execute(code: str, round: int = 1) -> str:
        result = await kernel.execute(code, round=round, timeout=20)
        return result.stdout.strip() + result.evalue

    try:
        await kernel.begin(8, handler)
        await execute("hits = search('o')\nprint(context_meta().chars, hits.total, peek(-4, 99))")
        assert await execute("print(output_of(1))", 2) == "8 2 two"
        await kernel.begin(14, handler)
        assert "rounds that ran: none yet" in await execute("output_of(1)", 1)
        assert await execute("print(count(chr(101)), len(hits), hits[1].line_text)") == "3 2 two"
        await execute("sub_query('q', (8, 14))")
        assert handler.batches[-1].slices[0].pieces == ((8, 14),)
    finally:
        await kernel.close()


async def test_a_shared_kernel_cant_reach_beyond_its_question(make_context, handler) -> None:
    """Spans are checked against the current body."""
    kernel = JupyterSandbox(make_context("one\ntwo\nthree\n"), handler, minimum=0, shared=True)
    await kernel.open()
    try:
        await kernel.begin(8, handler)
        code = "helpers._channel.call('children', {'prompts': ['q'], 'slices': [[[8, 14]]]})"
        result = await kernel.execute(code, round=1, timeout=20)
        assert "is not a span of this input, which has 8 characters" in result.evalue
        assert handler.batches == []
    finally:
        await kernel.close()
