from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text import body as body_module
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME, Body, BodyError, Span
from rlm.sandbox.text.checkpoints import BLOCK

MakeBody = Callable[..., Body]


ALPHABET = "ab \n\r\u0301é世界🙂\u2028\ufeff\x00"
PIECES = [
    "plain ascii words, nothing else\n",
    "世界人工智能語言\n",
    "🙂🙃🚀",
    "e\u0301\u0323 combining\r\n",
    "\n",
    "\n" * 700,
    "x" * 900,
    "слово\u2028ещё\x85\x0c",
]


def mixed_text(seed: int, size: int) -> str:
    chooser = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(chooser.choice(PIECES) * chooser.randint(1, 9))
    return "".join(parts)


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@pytest.mark.parametrize("seed", range(4))
def test_offsets_are_exact_in_mixed_text_over_many_blocks(make_body: MakeBody, seed: int) -> None:
    """The text has CJK, emoji, combining marks and CRLF."""
    text = mixed_text(seed, 120_000)
    body = make_body(text)
    chooser = random.Random(seed)
    lines = lines_of(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    assert (body.chars, body.bytes, body.lines, body.ascii) == (
        len(text),
        len(text.encode()),
        len(lines),
        False,
    )
    assert body.bytes > 7 * BLOCK
    for _ in range(400):
        start = chooser.randrange(len(text))
        end = start + chooser.choice((0, 1, 50, 40_000))
        assert body.text(start, end) == text[start:end]
        byte = len(text[:start].encode())
        assert body.byte_of(start) == byte
        assert body.char_of(byte) == start
        assert body.line_of(start) == text.count("\n", 0, start)
        number = chooser.randrange(len(lines))
        assert body.line_start(number) == starts[number]


@given(st.text(alphabet=ALPHABET, max_size=40))
def test_every_offset_of_a_short_body_is_exact(make_body: MakeBody, text: str) -> None:
    with make_body(text) as body:
        text = text.removeprefix("\ufeff")
        lines = lines_of(text)
        assert body.lines == len(lines)
        for char in range(len(text) + 1):
            assert body.byte_of(char) == len(text[:char].encode())
            assert body.char_of(body.byte_of(char)) == char
            assert body.line_of(char) == text.count("\n", 0, char)
            assert body.text(char, len(text)) == text[char:]
        at = 0
        for number, line in enumerate(lines):
            assert body.line_start(number) == at
            at += len(line) + 1
        assert body.line_start(len(lines)) == len(text)


@pytest.mark.parametrize("char", ["x", "é", "世", "🙂"])
@pytest.mark.parametrize("shift", range(4))
def test_characters_that_straddle_checkpoints(make_body: MakeBody, char: str, shift: int) -> None:
    text = "a" * shift + char * (3 * BLOCK // len(char.encode()))
    body = make_body(text)
    for start in range(0, len(text), 997):
        assert body.text(start, start + 3) == text[start : start + 3]
    for mark in range(1, 4):
        near = body.char_of(mark * BLOCK)
        assert body.text(near - 2, near + 2) == text[near - 2 : near + 2]
        assert body.byte_of(near) >= mark * BLOCK > body.byte_of(near - 1)


def test_lines_that_end_at_checkpoints(make_body: MakeBody) -> None:
    for length in (BLOCK - 1, BLOCK, BLOCK + 1):
        text = ("x" * (length - 1) + "\n") * 3 + "é\n"
        body = make_body(text)
        assert [body.line_start(number) for number in range(6)] == [
            0,
            length,
            2 * length,
            3 * length,
            3 * length + 2,
            3 * length + 2,
        ]


def test_arguments_are_clamped(make_body: MakeBody) -> None:
    body = make_body("héllo\n")
    assert body.text(-5, 99) == "héllo\n"
    assert body.text(4, 2) == ""
    assert (body.byte_of(-1), body.byte_of(99), body.char_of(-1), body.char_of(99)) == (0, 7, 0, 6)
    assert (body.line_start(-3), body.line_start(7)) == (0, 6)
    assert body.line_of(6) == 1


def test_an_empty_body_is_a_body(make_body: MakeBody) -> None:
    for body in (make_body(), make_body(""), make_body("", "")):
        assert (body.chars, body.bytes, body.lines) == (0, 0, 0)
        assert body.text(0, 10) == ""
        assert body.document_at(0) is None
        assert (body.line_of(0), body.line_start(0), body.byte_of(0)) == (0, 0, 0)


def test_document_at_skips_empty_documents(make_body: MakeBody) -> None:
    body = make_body("", "one", "", "two", "")
    names = [document.name if (document := body.document_at(char)) else None for char in range(-1, 9)]
    assert names == [None, *["d1.txt"] * 4, *["d3.txt"] * 3, None, None]


def test_a_closed_body_can_be_closed_again(make_body: MakeBody) -> None:
    body = make_body("text")
    body.close()
    body.close()
    with pytest.raises(ValueError, match="closed"):
        body.text(0, 1)


def test_threads_read_the_same(make_body: MakeBody) -> None:
    text = mixed_text(9, 60_000)
    body = make_body(text)
    wrong: list[int] = []

    def read(seed: int) -> None:
        chooser = random.Random(seed)
        for _ in range(200):
            start = chooser.randrange(len(text))
            if body.text(start, start + 100) != text[start : start + 100]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "damage", ["short body", "short index", "no index", "no body", "format", "no manifest"]
)
def test_a_damaged_folder_says_so_in_one_line(make_body: MakeBody, tmp_path: Path, damage: str) -> None:
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a")
        writer.write("text " * 9000)
        folder = writer.finish().folder
    match damage:
        case "short body":
            (folder / BODY_NAME).write_bytes(b"text")
        case "short index":
            (folder / INDEX_NAME).write_bytes(b"12345678")
        case "no index":
            (folder / INDEX_NAME).unlink()
        case "no body":
            (folder / BODY_NAME).unlink()
        case "format":
            (folder / MANIFEST_NAME).write_text(json.dumps({"format": 99}))
        case "no manifest":
            (folder / MANIFEST_NAME).unlink()
    with pytest.raises(BodyError) as caught:
        Body.open(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_peek_is_fast_anywhere(make_body: MakeBody) -> None:
    """`peek` takes ≤ 0.2 ms (here with a margin for a busy machine)."""
    body = make_body("слово 世界 and some words\n" * 200_000)
    chooser = random.Random(1)
    places = [chooser.randrange(body.chars) for _ in range(300)]
    took = []
    for place in places:
        began = time.perf_counter()
        body.text(place, place + 2000)
        took.append(time.perf_counter() - began)
    assert sorted(took)[len(took) // 2] < 0.0005


def test_the_reader_needs_nothing_of_the_host() -> None:
    """The reader that host and kernel share imports only the standard library and the kernel's own
    package.
    """
    folder = Path(body_module.__file__).parents[1]
    code = (
        "import importlib, sys, types\n"
        "package = types.ModuleType('alone')\n"
        f"package.__path__ = [{str(folder)!r}]\n"
        "sys.modules['alone'] = package\n"
        "module = importlib.import_module('alone.text.body')\n"
        "print(module.Span(1, 2), any(n.split('.')[0] in ('rlm', 're2') for n in sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == f"{Span(1, 2)} False"
