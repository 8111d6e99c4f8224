"""The work of each row: the text, the task, and what the root writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.overhead.dialects import ARMS, Dialect

__all__ = ["Run", "Work", "works", "write_text"]

MB = 1_000_000
HUNDRED = 100 * MB
GB = 1_000 * MB
ROUNDS = 20
CHILDREN = 500
SEQUENTIAL = 100
LATENCY = 0.1


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of one run. Times are of the monotonic clock; `roots` are the calls of the root."""

    spawned: float
    began: float
    ended: float
    exited: float
    roots: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]] = field(default=())
    peak_mb: float = 0.0


Figure = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of run. `columns` are the rows of the table that it fills: the unit, and the figure of a run.
    `goals` are what ours is to reach. `not_for` says why an arm can't do it."""

    columns: Mapping[str, tuple[str, Figure]]
    root: Callable[[Dialect], Sequence[str]]
    goals: Mapping[str, float] = field(default_factory=dict)
    chars: int = 100_000
    as_file: bool = False
    latency: float = 0.0
    concurrency: int = 16
    depth: int = 1
    warm: bool = False
    watches_memory: bool = False
    not_for: Mapping[str, str] = field(default_factory=dict)


def _between(run: Run, first: int, second: int) -> float:
    later, sooner = run.roots[second]["at"], run.roots[first]["at"]
    return float(later - sooner)


def _at_once(dialect: Dialect) -> Sequence[str]:
    return dialect.final("'done'")


def _rounds(dialect: Dialect) -> Sequence[str]:
    blocks = [dialect.wrap(f"print({dialect.slice}, {number})") for number in range(ROUNDS)]
    return [*blocks, *dialect.final("'done'")]


def _batch(dialect: Dialect) -> Sequence[str]:
    code = dialect.batch.format(at=200, count=CHILDREN)
    return [
        dialect.wrap("print(1)"),
        dialect.wrap(f"said = {code}\nprint(len(said))"),
        *dialect.final("len(said)"),
    ]


def _sequential(dialect: Dialect) -> Sequence[str]:
    code = f"for i in range({SEQUENTIAL}):\n    said = {dialect.one.format(at=200)}\nprint('asked')"
    return [dialect.wrap("print(1)"), dialect.wrap(code), *dialect.final("'done'")]


def _nested(dialect: Dialect) -> Sequence[str]:
    return [
        dialect.wrap("print(1)"),
        dialect.wrap(f"said = {dialect.inner}\nprint(said)"),
        *dialect.final("said"),
    ]


def _glance(dialect: Dialect) -> Sequence[str]:
    return [dialect.wrap(f"print({dialect.slice})"), *dialect.final("'done'")]


def _needle(dialect: Dialect) -> Sequence[str]:
    find = dialect.find.format(word="NEEDLE")
    return [dialect.wrap(f"print({dialect.slice})"), dialect.wrap(f"print({find})"), *dialect.final(find)]


def _per_round(run: Run) -> float:
    return 1_000 * _between(run, 1, ROUNDS) / (ROUNDS - 1)


def _batch_turn(run: Run) -> float:
    children = sum(one["role"] == "child" for one in run.calls)
    if children < CHILDREN:
        raise ValueError(f"only {children} of {CHILDREN} children were asked")
    return _between(run, 1, 2)


def _first_request(run: Run) -> float:
    return float(run.roots[0]["at"] - run.began)


def _first_cell(run: Run) -> float:
    return float(run.roots[1]["at"] - run.began)


def _peak(run: Run) -> float:
    return run.peak_mb


_ONLY_TEXT = dict.fromkeys(set(ARMS) - {"ours"}, "reads no file")
_INTERPRETERS = {"fast-rlm": "each child is an interpreter of its own"}
_BATCHES = {"droste": "50 prompts in a batch at most", **_INTERPRETERS}
_FLAT = dict.fromkeys(("dspy", "dspy-deno", "droste", "predict-rlm"), "has no sub-RLMs by default")


def works() -> tuple[Work, ...]:
    """Return the kinds of runs, in the order of the table."""
    waves = -(-CHILDREN // 16) * LATENCY
    batch = f"{CHILDREN} children of {LATENCY:g} s"
    return (
        Work(
            {"cold process, one turn": ("s", lambda run: run.exited - run.spawned)},
            _at_once, {"cold process, one turn": 0.7},
        ),
        Work({"overhead of a round": ("ms", _per_round)}, _rounds, {"overhead of a round": 4}),
        Work(
            {f"{batch}, 16 at once": ("x ideal", lambda run: _batch_turn(run) / waves)}, _batch,
            {f"{batch}, 16 at once": 1.03}, latency=LATENCY, not_for=_BATCHES,
        ),
        Work(
            {f"{batch}, 64 at once": ("s", _batch_turn)}, _batch, {f"{batch}, 64 at once": 0.9},
            latency=LATENCY, concurrency=64, not_for=_BATCHES,
        ),
        Work(
            {"one child after another": ("ms each", lambda run: 1_000 * _between(run, 1, 2) / SEQUENTIAL)},
            _sequential, {"one child after another": 1.5}, chars=200 * SEQUENTIAL, not_for=_INTERPRETERS,
        ),
        Work(
            {"a sub-RLM, the turn": ("s", lambda run: _between(run, 1, 2))}, _nested,
            {"a sub-RLM, the turn": 0.08}, depth=2, not_for=_FLAT,
        ),
        Work(
            {"text of 1 MB, first request": ("s", _first_request)},
            _glance, {"text of 1 MB, first request": 0.5}, chars=MB,
        ),
        # Sampling the memory takes time of the machine: its runs are not those that are timed.
        Work(
            {"text of 1 MB, peak memory": ("MB", _peak)}, _glance, {"text of 1 MB, peak memory": 100},
            chars=MB, watches_memory=True,
        ),
        Work(
            {"text of 100 MB, first cell": ("s", _first_cell)},
            _glance, {"text of 100 MB, first cell": 0.8}, chars=HUNDRED,
        ),
        Work(
            {"text of 1 GB, first cell": ("s", _first_cell)},
            _glance, {"text of 1 GB, first cell": 2.5}, chars=GB,
        ),
        *_files("100 MB", HUNDRED, 0.6, 0.5),
        *_files("1 GB", GB, 1.5, 0.6),
        Work(
            {
                "needle in 100 MB": ("s", lambda run: run.ended - run.began),
                "needle in 100 MB, tokens of the root": (
                    "tokens", lambda run: sum(one["tokens"] for one in run.roots)
                ),
            },
            _needle, {"needle in 100 MB": 0.8, "needle in 100 MB, tokens of the root": 5_500}, chars=HUNDRED,
        ),
    )  # fmt: skip


def _files(size: str, chars: int, cold: float, warm: float) -> tuple[Work, ...]:
    names = [f"file of {size}, {kind}" for kind in ("cold", "warm", "peak memory")]
    return (
        Work(
            {names[0]: ("s", _first_request)}, _glance, {names[0]: cold}, chars, as_file=True,
            not_for=_ONLY_TEXT,
        ),
        Work(
            {names[1]: ("s", _first_request)}, _glance, {names[1]: warm}, chars, as_file=True, warm=True,
            not_for=_ONLY_TEXT,
        ),
        Work(
            {names[2]: ("MB", _peak)}, _glance, {names[2]: 110}, chars, as_file=True, watches_memory=True,
            not_for=_ONLY_TEXT,
        ),
    )  # fmt: skip


def write_text(folder: Path, chars: int) -> Path:
    """Write a log of that size with one line that holds NEEDLE, once, and return its path."""
    path = folder / f"text-{chars}.log"
    if path.exists():
        return path
    line = "2026-07-05T11:02:00Z INFO request {:09d} served in 12 ms by worker 7 of the yard\n"
    size = len(line.format(0))
    with path.open("w") as file:
        middle = chars // size // 2
        for start in range(0, chars // size, 10_000):
            stop = min(start + 10_000, chars // size)
            lines = [line.format(number) for number in range(start, stop)]
            if start <= middle < stop:
                needle = "2026-07-05T11:02:00Z ERROR the NEEDLE is at cus_4242: card expired"
                lines[middle - start] = needle.ljust(size - 1) + "\n"
            file.write("".join(lines))
    return path
