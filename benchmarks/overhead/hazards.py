"""What goes wrong in each row of robustness, and what must hold nevertheless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.overhead.dialects import Dialect
from benchmarks.overhead.server import Script, Seen

__all__ = ["ANSWER", "CHILD", "KEY", "SECRET", "Hazard", "Outcome", "Place", "hazards"]

ANSWER = "DONE-7319"
"""What the last turn of every run answers."""

KEY = "sk-canary-58114-of-the-environment"
SECRET = "canary-90027-of-the-users-file"
CHILD = "CHILD-4711 says nothing of note."
POISON = "POISON-66"
CELL_SECONDS = 5.0
_MEMORY_MB = 2_000
_FINAL = f"'{ANSWER}'"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run takes place: the user's file with a secret, the file that a cell tries to write, the
    server."""

    secret: str
    written: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run. `answer` is None if it printed none, `error` its last line then. `paid_twice` are
    children that were answered again after kill -9, `left` processes that it left behind."""

    answer: str | None
    error: str
    seen: Seen
    peak_mb: float = 0.0
    wrote: bool = False
    paid_twice: int = 0
    left: int = 0


Judge = Callable[[Outcome], str]


def _answered(outcome: Outcome) -> str:
    """Return "" if the run ended with its answer, else why not."""
    if outcome.answer is None:
        return f"no answer: {outcome.error}"
    return "" if ANSWER in outcome.answer else f"another answer: {outcome.answer[:80]}"


@dataclass(frozen=True, slots=True)
class Hazard:
    """One row. `cell` makes the code of the root's second turn, `first` its whole reply; `fault` is the rest
    of the script. `judge` returns "" if what is `wanted` held, else what happened. `act` is what is done to
    the process meanwhile."""

    name: str
    wanted: str
    judge: Judge
    cell: Callable[[Dialect, Place], str] | None = None
    first: Callable[[Dialect], str] | None = None
    fault: dict[str, object] = field(default_factory=dict)
    act: str = ""
    children: int = 0

    def script(self, dialect: Dialect, place: Place) -> Script:
        """Return what the server plays to an arm."""
        if self.first is not None:
            opening = [self.first(dialect)]
        else:
            assert self.cell is not None
            opening = [dialect.wrap(self.cell(dialect, place))]
        root = [dialect.wrap("print('MARK-1')"), *opening, *dialect.final(_FINAL)]
        return Script(root, child=dialect.child(CHILD), watched=_WATCHED, **self.fault)  # type: ignore[arg-type]


_WATCHED = [KEY, SECRET, "BEFORE-THE-ERROR", "ZeroDivisionError", "CHILD-4711 says", "reached"]


def _quiet(code: str) -> str:
    """Return code that tries `code` and goes on if it fails."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    return f"try:\n{body}\nexcept BaseException as error:\n    print(type(error))"


def _ask(dialect: Dialect, count: int) -> str:
    return f"said = {dialect.batch.format(at=100, count=count)}\nprint([str(one)[:300] for one in said])"


def _unharmed(harm: Callable[[Outcome], str]) -> Judge:
    """Return a judge that demands that the cell was tried: an arm that never got there proves nothing."""

    def judge(outcome: Outcome) -> str:
        return harm(outcome) or (
            "" if outcome.seen.turns >= 2 else f"the cell was not tried: {outcome.error}"
        )

    return judge


def _no_leak(secret: str) -> Judge:
    return _unharmed(lambda outcome: "it was in a prompt" if secret in outcome.seen.words else "")


def _read_environment(_dialect: Dialect, _place: Place) -> str:
    host = _quiet("import js\nprint(js.Deno.env.get('OPENAI_API_KEY'))")
    return f"{_quiet('import os' + chr(10) + 'print(dict(os.environ))')}\n{host}"


def _read_file(_dialect: Dialect, place: Place) -> str:
    host = _quiet(f"import js\nprint(js.Deno.readTextFileSync({place.secret!r}))")
    return f"{_quiet(f'print(open({place.secret!r}).read())')}\n{host}"


def _write_file(_dialect: Dialect, place: Place) -> str:
    host = _quiet(f"import js\njs.Deno.writeTextFileSync({place.written!r}, 'x')")
    return f"{_quiet(f'open({place.written!r}, {chr(39)}w{chr(39)}).write({chr(39)}x{chr(39)})')}\n{host}"


def _connect(_dialect: Dialect, place: Place) -> str:
    plain = (
        "import socket\n"
        f"line = socket.create_connection(({place.host!r}, {place.port}), 3)\n"
        "line.sendall(b'GET /reached HTTP/1.0\\r\\n\\r\\n')\n"
        "print(line.recv(100))"
    )
    host = f"import js\njs.fetch('http://{place.host}:{place.port}/reached')"
    return f"{_quiet(plain)}\n{_quiet(host)}"


def _exit(_dialect: Dialect, _place: Place) -> str:
    return "try:\n    import js\n    js.Deno.exit(3)\nexcept ImportError:\n    pass\nimport os\nos._exit(3)"


def _storm(outcome: Outcome) -> str:
    if outcome.seen.answered < _STORM:
        return f"{outcome.seen.answered} of {_STORM} children got a reply"
    return _answered(outcome)


def _one_failed(outcome: Outcome) -> str:
    if "CHILD-4711 says" not in outcome.seen.words:
        return "the replies of the other children were lost"
    return _answered(outcome)


def _kept_output(outcome: Outcome) -> str:
    missing = [word for word in ("BEFORE-THE-ERROR", "ZeroDivisionError") if word not in outcome.seen.words]
    return f"the root was not shown {missing[0]}" if missing else _answered(outcome)


def _flooded(outcome: Outcome) -> str:
    if outcome.seen.longest > 1_000_000:
        return f"a prompt of {outcome.seen.longest:,} characters"
    return _answered(outcome)


def _bounded(outcome: Outcome) -> str:
    if outcome.peak_mb > _MEMORY_MB:
        return f"it took {outcome.peak_mb:,.0f} MB"
    return _answered(outcome)


def _resumed(outcome: Outcome) -> str:
    if outcome.paid_twice:
        return f"{outcome.paid_twice} of {_KILLED} children were paid twice"
    return _answered(outcome)


_STORM, _KILLED = 48, 20


def hazards() -> Sequence[Hazard]:
    """Return the rows, in the order of the table."""
    return (
        Hazard(
            "endless loop", "the loop is ended and the run answers", _answered,
            lambda *_: "while True:\n    pass",
        ),
        Hazard(
            "flood", "300 MB printed fill no prompt, and the run answers", _flooded,
            lambda *_: "for _ in range(3_000):\n    print('x' * 99_999)",
        ),
        Hazard("exit", "a cell that ends its process does not end the run", _answered, _exit),
        Hazard(
            "memory", "a cell that asks for 3 GB gets less than 2 GB, and the run answers", _bounded,
            lambda *_: "x = [bytes([1]) * 100_000_000 for _ in range(30)]\nprint(len(x))",
        ),
        Hazard(
            "error", "the root sees what a cell printed before it failed, and the error", _kept_output,
            lambda *_: "print('BEFORE-' + 'THE-ERROR')\nprint(1 // 0)",
        ),
        Hazard("key in the environment", "a cell can't read it", _no_leak(KEY), _read_environment),
        Hazard("file of the user", "a cell can't read it", _no_leak(SECRET), _read_file),
        Hazard(
            "file written", "a cell can't write outside",
            _unharmed(lambda outcome: "it was written" if outcome.wrote else ""), _write_file,
        ),
        Hazard(
            "socket", "a cell reaches no host",
            _unharmed(lambda outcome: "it reached the server" if outcome.seen.reached else ""), _connect,
        ),
        Hazard(
            "storm of 429", f"{_STORM} children get their replies after 2 s of refusals", _storm,
            lambda dialect, _: _ask(dialect, _STORM), fault={"refuse_seconds": 2.0}, children=_STORM,
        ),
        Hazard(
            "one child fails", "the replies of 19 others reach the root", _one_failed,
            lambda dialect, _: _ask(dialect, 20), fault={"poison": POISON}, children=20,
        ),
        Hazard(
            "broken connection", "a reply cut off in the middle is asked for again", _answered,
            lambda *_: "print(2)", fault={"cut": 1},
        ),
        Hazard(
            "prose", "a reply without code is no answer", _answered,
            first=lambda _: "I believe that it is forty-two.",
        ),
        Hazard(
            "kill -9", "the run is resumed and no child is paid twice", _resumed,
            lambda dialect, _: f"{_ask(dialect, _KILLED)}\nprint('MARK-2')",
            fault={"hold": 2, "marks": ["", "MARK-1", "MARK-2"]}, act="kill", children=_KILLED,
        ),
        Hazard(
            "Ctrl-C", "nothing that the run started is left after 20 s",
            _unharmed(lambda outcome: f"{outcome.left} processes are left" if outcome.left else ""),
            lambda *_: "while True:\n    pass", act="interrupt",
        ),
    )  # fmt: skip
