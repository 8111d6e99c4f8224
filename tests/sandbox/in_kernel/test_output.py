"""Test that output is bounded in the kernel and again in the watcher."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.output import BoundedStream
from rlm.sandbox.in_kernel.variables import MAX_CHANGES, VariableWatch, describe
from rlm.sandbox.launch.kernel_messages import KernelMessages

outcome_of = KernelMessages.outcome_of


def test_head_and_tail_are_kept_however_they_are_written() -> None:
    """Output is truncated at the source."""
    for size in (1, 7, 100, 5_000):
        stream = BoundedStream(limit=1_000, tail=100)
        text = "".join(f"{number:05}" for number in range(2_000))
        for at in range(0, len(text), size):
            stream.write(text[at : at + size])
        assert stream.end() == f"{text[:900]}\n[… 9,000 characters not kept …]\n{text[-100:]}"
        assert stream.written == 10_000


def test_nothing_is_lost_of_what_fits() -> None:
    stream = BoundedStream(limit=1_000, tail=100)
    for _ in range(99):
        stream.write("0123456789")
    assert stream.end() == "0123456789" * 99


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 300), st.integers(1, 200))
def test_whatever_is_written_the_head_and_the_tail_are_kept_and_the_rest_is_counted(
    sizes, head, tail
) -> None:
    """Output of any pieces is truncated at the source, and the gap is counted."""
    stream = BoundedStream(limit=head + tail, tail=tail)
    for _ in range(2):
        text = "".join(chr(0x4E00 + number % 1_000) for number in range(sum(sizes)))
        at = 0
        for size in sizes:
            assert stream.write(text[at : at + size]) == size
            at += size
        assert stream.written == len(text)
        rest = len(text) - head - tail
        kept = text if rest <= 0 else f"{text[:head]}\n[… {rest:,} characters not kept …]\n{text[-tail:]}"
        assert stream.end() == kept
        stream.begin()


def test_a_write_that_a_cell_has_kept_serves_the_next_cell() -> None:
    stream = BoundedStream(limit=10, tail=5)
    write = stream.write
    for _ in range(3):
        write("x" * 20)
        write("yz")
        assert (stream.written, stream.end()) == (22, "xxxxx\n[… 12 characters not kept …]\nxxxyz")
        stream.begin()


@pytest.mark.parametrize("before", ["", "x" * 100])
def test_what_is_no_text_is_refused(before) -> None:
    stream = BoundedStream(limit=10, tail=5)
    stream.write(before)
    for value in (b"bytes", 7, None, ["x"]):
        with pytest.raises(TypeError, match="must be str"):
            stream.write(value)
    assert stream.written == len(before)


def test_a_million_empty_pieces_take_no_memory() -> None:
    stream = BoundedStream(limit=10, tail=5)
    stream.write("x" * 20)
    for _ in range(1_000):
        stream.write("")
    assert len(stream._tail) == 1


@pytest.mark.parametrize("value", [None, 7, ["x"], {"a": "x"}, "x" * 5_000_000])
def test_a_reply_is_bounded_again(value) -> None:
    """The watcher bounds the output again, whatever the kernel sends."""
    cell = dict.fromkeys(("stdout", "stderr", "result", "report"), value)
    outcome = outcome_of({"status": "ok", "cell": cell, "traceback": [value] * 30, "evalue": value})
    assert outcome["ok"] is True
    text = isinstance(value, str)
    sizes = {"stdout": 1_010_000, "stderr": 210_000, "report": wire.MAX_CALL}
    assert {name: len(outcome[name]) for name in sizes} == (sizes if text else dict.fromkeys(sizes, 0))
    assert (outcome["result"] is None) is not text
    assert sum(len(outcome[name] or "") for name in ("result", "ename", "evalue", "traceback")) < 40_000


@pytest.mark.parametrize("cell", [None, [], "cell"])
def test_a_reply_without_a_cell_has_an_empty_outcome(cell) -> None:
    outcome = outcome_of({"status": ["ok"], "cell": cell, "traceback": {"x": [[]]}, "ename": {"a": 1}})
    assert outcome == {
        **{"ok": False, "stdout": "", "stderr": "", "result": None, "report": ""},
        **{"ename": "", "evalue": "", "traceback": ""},
    }


@given(st.text(alphabet=st.sampled_from('a\x01\n"中\U0001f600'), max_size=300).map(lambda text: text * 40))
def test_what_grows_on_the_wire_is_cut_there(text) -> None:
    """The watcher bounds it again. A control character takes six characters in JSON."""
    kept = outcome_of({"cell": {"stdout": text}})["stdout"]
    assert text.startswith(kept)
    assert len(json.dumps(kept, ensure_ascii=False)) <= 4 * len(text) + 2
    if len(json.dumps(text, ensure_ascii=False)) <= 3 * len(text):
        assert kept == text


class Hostile(dict[str, Any]):
    def __len__(self) -> int:
        raise MemoryError

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


@pytest.mark.parametrize("kind", [Hostile, type("n" * 10_000, (), {})], ids=["methods", "name"])
def test_a_hostile_variable_has_a_description_all_the_same(kind) -> None:
    assert all(len(word) <= 100 for word in describe(kind()))


def test_a_report_names_a_bounded_number_of_variables() -> None:
    namespace: dict[str, Any] = {}
    watch = VariableWatch(namespace, {})
    namespace.update({f"v{number}": number for number in range(5_000)}, **{"w" * 1_000: 1})
    began = time.monotonic()
    changed, count = watch.changes("")
    assert (len(changed), count) == (MAX_CHANGES, 5_000)
    assert watch.changes("") == ([], 0)
    assert time.monotonic() - began < 5
