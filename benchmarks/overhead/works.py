"""The work of each row: the text, the task, and what the root writes, in the dialect of each arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.overhead.server import INNER, OUTER

__all__ = ["ARMS", "Dialect", "Work", "works"]

MB = 1_000_000
HUNDRED = 100 * MB
GB = 1_000 * MB
ROUNDS = 20
CHILDREN = 500
SEQUENTIAL = 100
LATENCY = 0.1
TASK = f"{OUTER}: what does it say?"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a root of an arm writes. `wrap` makes a reply of code, `final` a reply that ends the run with the
    value of an expression. `text` is the expression of the whole text, `batch(prompts, slices)` asks children
    over an expression of a list, `one` a single child, `inner` a sub-RLM ("" if there is none), whose root
    replies `deep`."""

    wrap: Callable[[str], str]
    final: Callable[[str], Sequence[str]]
    batch: str
    one: str
    inner: str
    deep: str
    slice: str
    find: str


def _fenced(code: str) -> str:
    return f"```repl\n{code}\n```"


def _dspy(code: str) -> str:
    return (
        f"[[ ## reasoning ## ]]\nGo on.\n\n[[ ## code ## ]]\n```python\n{code}\n```\n\n[[ ## completed ## ]]"
    )


ARMS: Mapping[str, Dialect] = {
    "ours": Dialect(
        wrap=_fenced,
        final=lambda value: [_fenced(f"peek(0, 1)\nfinalize(str({value}))")],
        batch="sub_query_batch('q', [({at} * i, {at} * i + {at}) for i in range({count})])",
        one="sub_query('q', ({at} * i, {at} * i + {at}))",
        inner=f"sub_rlm('{INNER}', (0, 200))",
        deep=_fenced("peek(0, 1)\nfinalize('deep')"),
        slice="peek(0, 20)",
        find="search({word!r})[0].text",
    ),
    "rlms": Dialect(
        wrap=_fenced,
        final=lambda value: [_fenced(f"answer['content'] = str({value})\nanswer['ready'] = True")],
        batch="llm_query_batched(['q ' + context[{at} * i:{at} * i + {at}] for i in range({count})])",
        one="llm_query('q ' + context[{at} * i:{at} * i + {at}])",
        inner=f"rlm_query('{INNER} ' + context[:200])",
        deep=_fenced("answer['content'] = 'deep'\nanswer['ready'] = True"),
        slice="context[:20]",
        find="context[context.find({word!r}):][:60]",
    ),
    "recursive-llm": Dialect(
        wrap=lambda code: code,
        final=lambda value: [f"final = str({value})\nprint(len(final))", "FINAL_VAR(final)"],
        batch="llm_query_batched(['q'] * {count}, [context[{at} * i:{at} * i + {at}] "
        "for i in range({count})])",
        one="llm_query('q', context[{at} * i:{at} * i + {at}])",
        inner=f"recursive_llm('{INNER}', context[:200])",
        deep='FINAL("deep")',
        slice="context[:20]",
        find="context[context.find({word!r}):][:60]",
    ),
    "dspy": Dialect(
        wrap=_dspy,
        final=lambda value: [_dspy(f"SUBMIT(str({value}))")],
        batch="llm_query_batched(['q ' + context[{at} * i:{at} * i + {at}] for i in range({count})])",
        one="llm_query('q ' + context[{at} * i:{at} * i + {at}])",
        inner="",
        deep="",
        slice="context[:20]",
        find="context[context.find({word!r}):][:60]",
    ),
}


@dataclass(frozen=True, slots=True)
class Work:
    """One row. `source` is the text or a file of it. `measure` makes the figures of the server's calls, the
    order's start and end (monotonic seconds) and the memory. `arms` can do it."""

    name: str
    unit: str
    root: Callable[[Dialect], Sequence[str]]
    measure: Callable[[Run], float]
    chars: int = 100_000
    as_file: bool = False
    latency: float = 0.0
    concurrency: int = 16
    depth: int = 1
    warm: bool = False
    arms: frozenset[str] = frozenset(ARMS)


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


def _between(run: Run, first: int, second: int) -> float:
    return run.roots[second]["at"] - run.roots[first]["at"]


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
    code = f"for i in range({SEQUENTIAL}):\n    said = {dialect.one.format(at=200)}\nprint(len(said))"
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


def _first_request(run: Run) -> float:
    return run.roots[0]["at"] - run.began


def _first_cell(run: Run) -> float:
    return run.roots[1]["at"] - run.began


def works() -> tuple[Work, ...]:
    """Return the rows, in the order of the table."""
    us = frozenset({"ours"})
    return (
        Work("cold process, one turn", "s", _at_once, lambda run: run.exited - run.spawned),
        Work("overhead of a round", "ms", _rounds, _per_round),
        Work(
            f"{CHILDREN} children of {LATENCY:g} s, 16 at once", "x ideal", _batch,
            lambda run: _between(run, 1, 2) / (-(-CHILDREN // 16) * LATENCY), latency=LATENCY,
        ),
        Work(
            f"{CHILDREN} children of {LATENCY:g} s, 64 at once", "s", _batch,
            lambda run: _between(run, 1, 2), latency=LATENCY, concurrency=64,
        ),
        Work(
            "one child after another", "ms each", _sequential,
            lambda run: 1_000 * _between(run, 1, 2) / SEQUENTIAL, chars=200 * SEQUENTIAL,
        ),
        Work(
            "a sub-RLM, the turn", "s", _nested, lambda run: _between(run, 1, 2), depth=2,
            arms=frozenset(ARMS) - {"dspy"},
        ),
        Work("text of 1 MB, first request", "s", _glance, _first_request, chars=MB),
        Work("text of 1 MB, peak memory", "MB", _glance, lambda run: run.peak_mb, chars=MB),
        Work("text of 100 MB, first cell", "s", _glance, _first_cell, chars=HUNDRED),
        Work("text of 1 GB, first cell", "s", _glance, _first_cell, chars=GB),
        Work("file of 100 MB, cold", "s", _glance, _first_request, HUNDRED, as_file=True, arms=us),
        Work("file of 100 MB, warm", "s", _glance, _first_request, HUNDRED, as_file=True, warm=True, arms=us),
        Work("file of 1 GB, cold", "s", _glance, _first_request, GB, as_file=True, arms=us),
        Work("file of 1 GB, warm", "s", _glance, _first_request, GB, as_file=True, warm=True, arms=us),
        Work("needle in 100 MB", "s", _needle, lambda run: run.ended - run.began, chars=HUNDRED),
        Work(
            "needle in 100 MB, tokens of the root", "tokens", _needle,
            lambda run: sum(one["tokens"] for one in run.roots), chars=HUNDRED,
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
                lines[middle - start] = (
                    "2026-07-05T11:02:00Z ERROR the NEEDLE is at cus_4242: card expired" + " " * 14 + "\n"
                )
            file.write("".join(lines))
    return path
