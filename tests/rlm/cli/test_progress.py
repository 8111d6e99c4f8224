"""Test the progress of a run on stderr: one live line in a terminal, a line a round elsewhere."""

from __future__ import annotations

import io
import itertools
import re
import time

import pytest

from rlm import events
from rlm.cli.console.live import LiveLine
from rlm.cli.console.progress import Progress

STARTED = events.RunStarted("r1", "rlm", "openai:m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines_of(monkeypatch):
    """Return the lines of these events without a terminal, `step` seconds apart."""

    def lines(*taken: events.Event, verbose: bool = False, step: int = 1) -> list[str]:
        clock = itertools.count(100.0, step)
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        stderr = io.StringIO()
        monkeypatch.setattr("sys.stderr", stderr)
        with Progress(quiet=False, seconds=60, verbose=verbose) as progress:
            for event in taken:
                progress.on_event(event)
        return stderr.getvalue().splitlines()

    return lines


def _child(done: int, asked: int) -> events.ChildEnded:
    return events.ChildEnded(True, False, done, asked, 5, 0.0, 1, 10_000)


def _round(number: int) -> list[events.Event]:
    batch = [events.ChildrenStarted(30), *(_child(done, 30) for done in range(1, 31))]
    return [events.RoundStarted(number, 30, final=False), *batch]


def test_the_name_of_a_run_comes_at_once(lines_of) -> None:
    assert lines_of(STARTED) == ["run r1"]
    assert lines_of(events.Resumed("r1", 2, 1), STARTED) == [
        "resuming r1: 2 rounds and 1 other reply from the journal"
    ]


def test_a_log_gets_at_most_a_line_a_round(lines_of) -> None:
    rounds = [event for number in (1, 2, 3) for event in _round(number)]
    lines = lines_of(*rounds, step=30)
    assert len(lines) == 3
    assert lines[1].startswith("round 2 of 30: asking the root")
    # A short run says nothing.
    assert lines_of(*_round(1)[:10]) == []


def test_a_job_without_rounds_gets_a_line_now_and_then(lines_of) -> None:
    assert len(lines_of(events.ChildrenStarted(9), *(_child(done, 9) for done in range(1, 9)), step=8)) == 3


def test_verbose_lines_say_what_happened(lines_of) -> None:
    """The children of a batch get a line at its end; a single child gets none."""
    taken = [events.Violated(1, "no_block"), events.CellRun(1, "\n# look\nx", "running")]
    ended = events.CellRun(1, "x", "ok", 1.0, "found it")
    shown = lines_of(events.RoundStarted(1, 30, final=False), *taken, *_round(1)[1:], ended, verbose=True)
    for line in (
        "round 1: the reply held no repl block; asking again", "round 1: look", "    # look",
        "30 of 30 children, < 0.1 % covered", "round 1: ok after 1.0 s:", "    found it",
    ):  # fmt: skip
        assert line in shown
    assert lines_of(events.ChildrenStarted(1), _child(1, 1), verbose=True) == []


def test_tokens_of_a_slow_reply_add_up(monkeypatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Progress(quiet=False, seconds=60) as progress:
        progress.on_event(events.RoundStarted(1, 30, final=False))
        for _ in range(9):
            progress.on_event(events.ReplyStreaming(7))
    assert progress.status.now == "round 1 of 30: asking the root: 63 tokens received"


@pytest.mark.parametrize("verbose", [True, False])
def test_a_terminal_shows_the_block_that_is_being_written_if_verbose(monkeypatch, verbose) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    with Progress(quiet=False, seconds=60, verbose=verbose) as progress:
        (on_text,) = progress.text_observers
        on_text(events.TextDelta("```repl\nfind", role="root", call=1))
        on_text(events.TextDelta("_all(", role="root", call=1))
        assert progress._live.draft == ("```repl\nfind_all(" if verbose else "")
        progress.on_event(events.ModelAnswered("root", "m", 1, 1, 1, 0, 0.0, "stop", 1.0))
        assert progress._live.draft == ""


def test_the_live_line_has_the_time_left_and_breaks_between_words(monkeypatch) -> None:
    """The live line also shows finished and total children, coverage, tokens and cost."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    line = LiveLine("3 of 12 children, 123,456 tokens, $0.0123, 45.6 % covered")
    line.ends_at = time.monotonic() + 600
    try:
        shown = [
            "".join(segment.text for segment in row).strip()
            for row in line._console.render_lines(line, line._console.options.update(width=40))
        ]
    finally:
        line.close()
    assert max(map(len, shown)) <= 40
    text = " ".join(shown)
    assert "3 of 12 children, 123,456 tokens, $0.0123, 45.6 % covered" in text
    assert re.search(r"\b(9|10) min\b", text)
