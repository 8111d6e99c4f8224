"""Test reading the body line by line: lazily, each line a str that knows its place."""

from __future__ import annotations

import json
import pickle
import random

import pytest


def test_lines_are_read_lazily_and_exactly(make_handle) -> None:
    text = "".join(f"линия {number}{' x' * (number % 50)}\r\n\n" for number in range(40_000)) + "tail"
    handle = make_handle(text)
    lines = text.split("\n")
    all_lines = handle.read_lines()
    assert len(all_lines) == len(lines)
    at = 0
    for number, (record, line) in enumerate(zip(all_lines, lines, strict=True)):
        assert (record.number, record.start, record.end, record.text) == (number, at, at + len(line), line)
        at += len(line) + 1
    chooser = random.Random(3)
    for _ in range(200):
        number = chooser.randrange(-len(lines), len(lines))
        assert all_lines[number].text == lines[number]
        assert all_lines[number].text.span == (all_lines[number].start, all_lines[number].end)
        assert [r.text for r in all_lines[number : number + 3]] == lines[number : number + 3]
        assert [r.text for r in handle.read_lines(number, number + 3)] == lines[number : number + 3]
    assert [record.number for record in all_lines[10:20][3:5]] == [13, 14]
    assert [record.number for record in all_lines[8:2:-3]] == [8, 5]
    with pytest.raises(IndexError, match="there is no line"):
        all_lines[len(lines)]
    assert list(handle.read_lines(5, 5)) == list(make_handle("").read_lines()) == []


def test_a_line_is_a_str_and_a_record(make_handle) -> None:
    """A line is a str with number, start, end and text."""
    line = make_handle("one\nERROR two\n").read_lines()[1]
    assert isinstance(line, str)
    assert (line, line[:5], line.split()) == ("ERROR two", "ERROR", ["ERROR", "two"])
    assert ("ERROR" in line, "text" in line) == (True, False)
    assert [line[key] for key in ("number", "start", "end", "text")] == [1, 4, 13, "ERROR two"]
    assert (line.number, line.start, line.end, line.text, line.span) == (1, 4, 13, "ERROR two", (4, 13))
    assert json.dumps(line) == '"ERROR two"'
    copied = pickle.loads(pickle.dumps(line))
    assert (copied, copied.number, copied.span) == (line, 1, (4, 13))
    with pytest.raises(KeyError, match="A line is a str with number, start, end, text"):
        line["lines"]


def test_a_line_longer_than_a_window_is_one_line(make_handle) -> None:
    text = "é" * 3_000_000 + "\n" + "b" * 1_500_000
    assert [len(record.text) for record in make_handle(text).read_lines()] == [3_000_000, 1_500_000]
