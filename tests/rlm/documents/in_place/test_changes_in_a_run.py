"""Test runs over a file that is read in place and changes meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlm import RLM, Settings
from rlm.documents import in_place as plain_file
from rlm.errors import UsageError
from rlm.journal import Journal
from rlm.sandbox.errors import SourceChanged
from rlm.testing import ScriptedModel

TEXT = b"".join(b"line %d of the file\n" % number for number in range(60_000))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plain_file, "LEAST_BYTES", 100)
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    os.utime(path, (1e9, 1e9))
    time.sleep(0.15)
    return path


def rewrite(path: Path) -> None:
    path.write_bytes(TEXT.replace(b"line 0", b"LINE 0"))
    os.utime(path, (1e9, 1e9))


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def replace(path: Path) -> None:
    other = path.with_name("other.txt")
    other.write_bytes(b"other\n" * 50_000)
    other.rename(path)


def changing(block: Callable[[str], str], change: Callable[[], object]) -> ScriptedModel:
    """Return a model that looks, then has the file changed, then searches all of it and answers."""

    def second(request: object) -> str:
        change()
        return block("hits = search('LINE 59999|line 59999')\nfinalize(hits[0].line_text)")

    return ScriptedModel.of(root=[block("print(peek(0, 40))"), second])


@pytest.mark.parametrize("change", [rewrite, lambda path: os.truncate(path, 50)])
async def test_other_text_ends_the_run_and_a_resume_says_why(
    run, block, path: Path, change: Callable[[Path], None]
) -> None:
    """Nothing that was read of the changed file gets to the model. What was paid stays in the journal."""
    model = changing(block, lambda: change(path))
    with pytest.raises(SourceChanged, match=r"a\.txt (changed|was cut off) after it was read"):
        await run(model, path, settings=Settings(strategy="rlm", keep_input=False))
    assert len(model.requests) == 2
    async with Journal.open(run.store) as journal:
        (summary,) = await journal.runs()
        events = await journal.events(summary.run_id)
    assert sum(event.kind == "root_call" for event in events) or len(events) > 1

    settings = Settings(strategy="rlm", sandbox=run.level, store=run.store, keep_input=False)
    again = RLM(ScriptedModel.of(root=[block("finalize(1)")]), settings=settings)
    with pytest.raises(UsageError, match="has changed since"):
        await again.resume(summary.run_id)
    path.write_bytes(TEXT)
    model = ScriptedModel.of(root=[block("finalize('resumed')")])
    assert (await RLM(model, settings=settings).resume(summary.run_id)).answer is not None


@pytest.mark.parametrize("change", [append, replace, Path.unlink])
async def test_the_same_text_is_answered_with_a_warning(
    run, block, path: Path, change: Callable[[Path], None]
) -> None:
    result = await run(changing(block, lambda: change(path)), path)
    assert "line 59999" in result.answer
    assert any("written, moved or removed during the run" in warning for warning in result.warnings)


async def test_a_file_that_stays_is_answered_without_one(run, block, path: Path) -> None:
    result = await run(changing(block, lambda: None), path)
    assert "line 59999" in result.answer
    assert not any("during the run" in warning for warning in result.warnings)


async def test_a_direct_answer_about_a_changed_file_is_refused(run, path: Path) -> None:
    path.write_bytes(TEXT[:600])
    os.utime(path, (1e9, 1e9))
    time.sleep(0.15)

    def answer(request: object) -> str:
        path.write_bytes(b"x" * 600)
        return "The answer."

    with pytest.raises(SourceChanged):
        await run(ScriptedModel.of(direct=answer), path, settings=Settings(strategy="direct"))
