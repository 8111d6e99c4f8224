"""The public class: what a caller in Python sees."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from driver_processes import kernel_watchers
from typer.testing import CliRunner

import rlm
from rlm import RLM, Limits, RLMError, Settings
from rlm.cli.app import app
from rlm.documents import Loaded, Problem, StreamSource
from rlm.errors import ConfigurationError, JournalError
from rlm.events import ContextLoaded, KernelOpened, Loading, RunEnded, RunStarted, Warned
from rlm.models import ModelWindow
from rlm.runs.notes import warnings_of
from rlm.sandbox.errors import SandboxRefused
from rlm.testing import ScriptedModel


def test_the_visible_names_are_the_public_ones() -> None:
    assert dir(rlm) == sorted(rlm.__all__)
    assert all(getattr(rlm, name) is not None for name in rlm.__all__)
    with pytest.raises(AttributeError, match="Runtime"):
        _ = rlm.Runtime


def test_run_sync_answers_a_path(tmp_path: Path) -> None:
    """RLM(...).run_sync(question, context=Path(...))."""
    (tmp_path / "a.txt").write_text("The lease ends in 2031.\n")
    settings = Settings(store=tmp_path / "rlm.db")
    result = RLM("extractive", settings=settings).run_sync("When does the lease end?", tmp_path / "a.txt")
    assert "2031" in result.answer


async def test_run_sync_says_what_to_do_inside_an_event_loop(tmp_path: Path) -> None:
    with pytest.raises(RLMError, match=r"await rlm\.run"):
        RLM("extractive").run_sync("What?", "x")


async def test_a_context_is_a_text_a_path_or_a_list_of_these(run, block, tmp_path: Path) -> None:
    """Context=[Path("a.txt"), "some text"]."""
    (tmp_path / "a.txt").write_text("from a file\n")
    model = ScriptedModel.of(root=[block("finalize([d.name for d in documents()] + [read_all()])")])
    result = await run(model, [tmp_path / "a.txt", "from a string"])
    assert result.answer == ["a.txt", "text", "from a file\nfrom a string"]


async def test_the_events_of_a_run_come_in_order(run, block) -> None:
    await run(ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")]))
    kinds = [type(event) for event in run.events]
    assert kinds[:2] == [ContextLoaded, RunStarted]
    assert kinds[-1] is RunEnded
    (opened,) = run.seen(KernelOpened)
    assert opened.level == run.level


async def test_a_slow_input_reports_what_was_read(run, block) -> None:
    """A pipe that delivers its text in two halves, more than a second apart."""
    reading, writing = os.pipe()

    def deliver() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(b"first half\n")
            time.sleep(1.6)
            pipe.write(b"second half\n")

    threading.Thread(target=deliver, daemon=True).start()
    with os.fdopen(reading, "rb") as stream:
        model = ScriptedModel.of(root=[block("finalize(read_all())")])
        result = await run(model, StreamSource("pipe", stream))
    assert result.answer == "first half\nsecond half\n"
    assert type(run.events[0]) is Loading
    assert {event.document for event in run.seen(Loading)} == {"pipe"}


async def test_a_run_without_isolation_says_so(run, block) -> None:
    """A run below level 2 has a warning."""
    run.level = 0
    result = await run(ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")]))
    assert any("not isolated" in warning for warning in result.warnings)


async def test_model_written_code_is_refused_without_isolation(run, block, monkeypatch) -> None:
    """Below level 2, code of a model does not run by default. Our own cells do, with a warning."""
    monkeypatch.setattr("rlm.sandbox.isolation.views.interpreter_paths", lambda: ["/nowhere-at-all"])
    run.level = "auto"
    model = ScriptedModel.of(root=[block("finalize(1)")])
    with pytest.raises(SandboxRefused):
        await run(model)
    assert model.requests == []
    result = await run("extractive", "The zeppelin landed.\n" * 9_000, task="Where did the zeppelin land?")
    assert "zeppelin" in result.answer
    assert any("not isolated (level 0)" in warning for warning in result.warnings)


def test_an_object_that_is_not_a_model_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="gtp-5"):
        RLM("gtp-5")


def test_importing_is_light() -> None:
    """Only their users import HTTP, databases and Jupyter."""
    heavy = "{'aiohttp', 'sqlite3', 'zmq', 'IPython'}"
    code = f"import sys, rlm; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_modules_of_the_first_call_are_imported_while_the_input_loads(tmp_path: Path) -> None:
    """For a run, a session or a job. A model without a provider needs no SDK."""
    code = (
        "import asyncio, sys, threading\n"
        "from rlm import RLM, Settings\n"
        "async def begin(name):\n"
        "    async with RLM(name, settings=Settings(store=sys.argv[1])).open_job('text'): pass\n"
        "for name in ('extractive', 'openai:gpt-5'):\n"
        "    asyncio.run(begin(name))\n"
        "    for thread in threading.enumerate()[1:]: thread.join()\n"
        "    print('aiohttp' in sys.modules, 'openai' in sys.modules, 'tenacity' in sys.modules)\n"
    )
    program = [sys.executable, "-c", code, tmp_path / "rlm.db"]
    env = {**os.environ, "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": ""}
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\nTrue False False\n"


async def test_a_notebook_shows_the_answer_escaped(run, block) -> None:
    """_repr_html_ for notebooks; document text is never markup."""
    model = ScriptedModel.of(
        root=[block("x = peek(0, 9)\nfinalize(x + '<script>', evidence=[x, x])"), block("finalize('no')")]
    )
    result = await run(model, "<b>bold</b> text\n")
    html = result._repr_html_()
    assert "&lt;b&gt;bold&lt;/&lt;script&gt;" in html
    assert "<b>" not in html
    assert "<script>" not in html
    assert "text:1" in html


async def test_children_may_have_another_model(run, block) -> None:
    """Root and child models can differ, and a cell cannot choose them."""
    root = ScriptedModel.of(root=[block("finalize(sub_query('q', (0, 3)))")], child="from the root's model")
    child = ScriptedModel.of(child="from the child's model")
    result = await run(root, sub_model=child)
    assert result.answer == "from the child's model"
    assert [request.role for request in root.requests] == ["root"]
    assert [request.role for request in child.requests] == ["child"]


async def test_what_the_text_does_not_lack_is_journalled_and_gives_no_warning(
    run, block, tmp_path: Path
) -> None:
    """A guessed encoding, a program and an empty file: `rlm show --problems` lists them."""
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a.txt").write_bytes("Le café est très agréable à côté de l'hôtel.\n".encode("cp1252"))
    (folder / "b.bin").write_bytes(bytes(range(256)) * 9)
    (folder / "c.txt").write_bytes(b"")
    result = await run(ScriptedModel.of(root=[block("finalize(1)")]), folder)
    assert not [warning for warning in result.warnings if ".txt" in warning or ".bin" in warning]
    command = ["show", result.run_id, "--problems", "--store", str(run.store)]
    shown = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert shown.output.splitlines() == [
        "a.txt is not UTF-8; decoded as cp1252",
        "skipped b.bin, binary: name a file that holds text",
        "skipped c.txt, empty: name a file that holds text",
    ]


class Breaking:
    """Observes a run and takes its journal away when an event of a kind comes."""

    def __init__(self, run, kind: type) -> None:
        self._run = run
        self._kind = kind
        run.events = self

    def append(self, event: object) -> None:
        if isinstance(event, self._kind):
            with contextlib.closing(sqlite3.connect(self._run.store)) as store:
                store.executescript("DROP TABLE events; DROP TABLE runs;")


async def test_an_answer_is_not_lost_with_the_journals_last_entry(run, block) -> None:
    """If the disk fills up while `finished` is written, the paid answer is still returned."""
    Breaking(run, RunEnded)
    result = await run(ScriptedModel.of(root=[block("finalize(peek(0, 3))")]))
    assert (result.answer, result.stop_reason) == ("one", "finalized")
    (warning,) = (warning for warning in result.warnings if "was not stored" in warning)
    assert str(run.store) in warning


@pytest.mark.parametrize("kind", [RunStarted, KernelOpened])
async def test_a_run_that_cannot_be_journalled_stops(run, block, kind) -> None:
    Breaking(run, kind)
    model = ScriptedModel.of(root=[block("1"), block("2"), block("finalize(1)")])
    with pytest.raises(JournalError, match="can't be written"):
        await run(model)
    assert len(model.requests) <= 1


async def test_a_run_is_cancelled_while_it_loads(run, tmp_path: Path, monkeypatch) -> None:
    """An interrupt ends a run and leaves no documents behind."""
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    os.mkfifo(tmp_path / "fifo")
    running = asyncio.create_task(run("extractive", [b"words\n" * 1_000, tmp_path / "fifo"]))
    while not list(temp.glob("*/context")):
        await asyncio.sleep(0.01)
    running.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 0.9
    assert list(temp.iterdir()) == []
    assert run.events == []


async def no_watcher_is_left() -> None:
    async with asyncio.timeout(10):
        # An ended one is a child until it has been reaped.
        while kernel_watchers():
            await asyncio.sleep(0.01)


class WaitsForAKernel(io.BytesIO):
    """A source that is not read to its end before there is a kernel."""

    def read(self, size: int | None = -1) -> bytes:
        end = time.monotonic() + 20
        while not kernel_watchers() and time.monotonic() < end:
            time.sleep(0.01)
        self.seen = bool(kernel_watchers())
        return super().read(size)


@pytest.mark.parametrize("strategy", ["rlm", "auto"])
async def test_a_kernel_is_started_while_a_long_input_loads(run, block, strategy) -> None:
    """One spare kernel is kept warm, and is closed at the end."""
    stream = WaitsForAKernel(b"one two three\n")
    model = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")], direct=["NOT_FOUND"])
    result = await run(model, [StreamSource("slow", stream)], settings=Settings(strategy=strategy))
    assert (result.answer, stream.seen) == (1, True)
    await no_watcher_is_left()


@pytest.mark.parametrize("strategy", ["auto", "direct"])
async def test_a_short_input_is_answered_without_a_kernel(run, strategy) -> None:
    """One direct, cited call without a kernel."""
    seen = []

    def direct(_request) -> str:
        seen.append(kernel_watchers())
        return "NOT_FOUND"

    settings = Settings(strategy=strategy)
    await run(ScriptedModel.of(direct=direct, root=["no block"] * 9), "one two three\n", settings=settings)
    assert seen == [[]]
    await no_watcher_is_left()


async def test_time_ends_a_run_with_a_last_round(run, block) -> None:
    """The cell is interrupted, its variables stay, and the root may still finalize."""
    model = ScriptedModel.of(
        root=[block("kept = peek(0, 3)\nimport time; time.sleep(60)"), block("finalize(kept)")]
    )
    result = await run(model, limits=Limits(max_seconds=12.0))
    assert (result.answer, result.forced, result.stop_reason) == ("one", True, "finalized")
    assert result.seconds < 30


def test_what_was_not_read_is_told_once_or_by_its_number() -> None:
    """Documents that are unread for one reason share a line. More than three reasons are one line."""
    alike = [Problem("read as a table", document=f"{number}.csv") for number in range(5)]
    locked = Problem("protected by a password", "save it without one", "missing", "contract: 1.pdf")
    quiet = [
        Problem("cp1252", kind="encoding", document="c.txt"),
        Problem("binary", kind="other", document="d"),
    ]

    def lines(*problems: Problem) -> list[str]:
        return warnings_of(Loaded(SimpleNamespace(chars=9), problems))  # type: ignore[arg-type]

    assert lines(*alike, locked, *quiet) == [
        "5 documents (0.csv, 1.csv, 2.csv, …): read as a table",
        "skipped contract: 1.pdf, protected by a password: save it without one",
    ]
    several = [Problem(f"reason {number}", "export it", document=f"{number}.xls") for number in range(4)]
    assert lines(*several) == ["4 documents were not read, or only in part (0.xls, 1.xls, 2.xls, …)"]


async def test_a_guessed_window_is_a_warning_in_the_result_and_in_the_trace(run, block) -> None:
    """A server with a smaller window cuts prompts without a word."""
    guessed = ModelWindow(context=128_000, output=8_000, known=False)
    await run(ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")]))
    assert not run.seen(Warned)
    model = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize(1)")], window=guessed)
    result = await run(model)
    (warning,) = [one for one in result.warnings if "window" in one]
    assert "scripted:memory is a guess: 128,000 tokens, 8,000 of them for a reply" in warning
    assert [event.message for event in run.seen(Warned)] == [warning]
