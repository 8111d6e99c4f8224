"""The results file has one line for each task, wherever its writer is cut off."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.batch.results import ResultsFile
from rlm.errors import UsageError

FACTS = {"model": "extractive"}


def line(id_: str | int, *, answer: object = "yes", stop: str = "finalized") -> dict[str, Any]:
    usage = [{"calls": 2, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}]
    return {
        "id": id_,
        "run_id": f"b.{id_}",
        "answer": answer,
        "stop_reason": stop,
        "citations": [{"verified": True}, {"verified": False}],
        "usage": usage,
    }


def ids(path: Path) -> list[object]:
    return [json.loads(one)["id"] for one in path.read_text().splitlines()]


def test_lines_are_counted_and_found_again(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "r.jsonl"
    with ResultsFile.open(out, "b1", FACTS) as results:
        assert results.is_new
        results.append(line("a"))
        results.append(line(2, answer=None, stop="rounds"))
    with ResultsFile.open(out, "b2", FACTS) as results:
        assert not results.is_new
        assert results.batch == "b1"
        assert results.done == {"a": "b.a", "2": "b.2"}
        assert results.summary.before == 2
        assert dict(results.summary.ends) == {"answered": 1, "rounds": 1}
        assert (results.summary.calls, results.summary.cost_usd) == (4, 1.0)
        assert (results.summary.verified, results.summary.citations) == (2, 4)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.batch", "r.jsonl.new"])
def test_no_file_is_written_through_a_planted_link(tmp_path: Path, name: str) -> None:
    """Whoever made the folder may have put links where a batch writes."""
    folder, victim = tmp_path / "clone", tmp_path / "bashrc"
    folder.mkdir()
    victim.write_text("mine")
    if name.endswith(".new"):
        with ResultsFile.open(folder / "r.jsonl", "b1", FACTS) as results:
            results.append(line("a"))
    (folder / name).symlink_to(victim)
    with suppress(UsageError), ResultsFile.open(folder / "r.jsonl", "b1", FACTS) as results:
        results.append(line("b"))
    assert victim.read_text() == "mine"


def test_a_planted_side_file_names_no_batch_of_its_own_choice(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl.batch").write_text(json.dumps({"batch": "../../victim", **FACTS}))
    with ResultsFile.open(tmp_path / "r.jsonl", "b1", FACTS) as results:
        assert results.batch == "b1"
    (tmp_path / "x.jsonl.batch").mkdir()
    with pytest.raises(UsageError, match="cannot write"), ResultsFile.open(tmp_path / "x.jsonl", "b1", FACTS):
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(cut=st.floats(0, 1), count=st.integers(1, 5))
def test_cut_off_at_any_byte_and_resumed_there_is_one_line_a_task(
    tmp_path_factory: pytest.TempPathFactory, cut: float, count: int
) -> None:
    out = tmp_path_factory.mktemp("cut") / "r.jsonl"
    with ResultsFile.open(out, "b", FACTS) as results:
        for number in range(count):
            results.append(line(number))
    data = out.read_bytes()
    out.write_bytes(data[: int(cut * len(data))])
    with ResultsFile.open(out, "b", FACTS) as results:
        for number in range(count):
            if str(number) not in results.done:
                results.append(line(number))
    assert sorted(ids(out)) == list(range(count))


def test_failed_tasks_are_retried_and_ended_ones_are_not(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with ResultsFile.open(out, "b", FACTS) as results:
        results.append(line("done"))
        results.append(line("provider", answer=None, stop="model"))
        results.append(line("missing", answer=None, stop="error"))
        results.append(line("limit", answer=None, stop="cost"))
    with ResultsFile.open(out, "b", FACTS) as results:
        assert set(results.done) == {"done", "limit"}
        assert ids(out) == ["done", "limit"]
        results.append(line("provider"))
    assert ids(out) == ["done", "limit", "provider"]
    assert not list(tmp_path.glob("*.new"))


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with (
        ResultsFile.open(out, "b", FACTS),
        pytest.raises(UsageError, match="another rlm batch is writing"),
        ResultsFile.open(out, "b", FACTS),
    ):
        pass


def test_another_model_or_a_strange_file_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with ResultsFile.open(out, "b", FACTS):
        pass
    with (
        pytest.raises(UsageError, match="started with model extractive, not openai:m"),
        ResultsFile.open(out, "b", {"model": "openai:m"}),
    ):
        pass
    out.write_text("something else\n")
    with (
        pytest.raises(UsageError, match=r"line 1 of .* is not a line of results"),
        ResultsFile.open(out, "b", FACTS),
    ):
        pass
    assert out.read_text() == "something else\n"
    strange = tmp_path / "mine.jsonl"
    strange.write_text("{}\n")
    with pytest.raises(UsageError, match="give a new --out"), ResultsFile.open(strange, "b", FACTS):
        pass
    assert strange.read_text() == "{}\n"


def test_a_start_that_was_cut_off_starts_again(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl.batch").write_text('{"batch": "b0", "mod')
    with ResultsFile.open(tmp_path / "r.jsonl", "b1", FACTS) as results:
        assert results.is_new
        assert results.batch == "b1"
    assert json.loads((tmp_path / "r.jsonl.batch").read_text())["batch"] == "b1"


def test_a_result_with_half_a_surrogate_is_still_a_line(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with ResultsFile.open(out, "b", FACTS) as results:
        results.append(line("a", answer="x\ud800y"))
    assert json.loads(out.read_bytes())["answer"] == "x\ud800y"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may become larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("fits", [0, 1, 50])
def test_a_full_disk_is_reported_and_the_file_can_be_resumed(tmp_path: Path, fits: int) -> None:
    """Other tasks may end and write smaller lines before the batch has stopped."""
    out = tmp_path / "r.jsonl"
    with ResultsFile.open(out, "b", FACTS) as results:
        results.append(line("a"))
        whole = out.stat().st_size
        with (
            room_for(whole + fits),
            pytest.raises(UsageError, match=r"cannot write .*r\.jsonl: .*free some space"),
        ):
            results.append(line("b", answer="long " * 100))
        assert out.stat().st_size == whole
        results.append(line("c"))
    with ResultsFile.open(out, "b", FACTS) as results:
        assert results.done.keys() == {"a", "c"}
        results.append(line("b"))
    assert ids(out) == ["a", "c", "b"]


def test_results_that_could_not_be_resumed_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="is not a regular file"), ResultsFile.open(path, "b", FACTS):
            pass
