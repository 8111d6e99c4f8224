"""Tests of benchmarks/overhead: real runs of ours against the scripted server, and an arm that misbehaves."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gigabyte.memory import descendants
from benchmarks.overhead import environments
from benchmarks.overhead.dialects import ARMS
from benchmarks.overhead.environments import ARM_PROGRAMS, ArmProgram, EnvironmentFailed, Patch
from benchmarks.overhead.hazards import hazards
from benchmarks.overhead.measure import RunFailed, measure
from benchmarks.overhead.order import Arm, Server, scripted_server
from benchmarks.overhead.processes import counting_orphans
from benchmarks.overhead.robustness import hazards_of, robustness
from benchmarks.overhead.times import rows_of
from benchmarks.overhead.works import works, write_text

OURS = Arm("ours", Path(sys.executable), Path("/nonexistent"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scripted_server() as running:
        yield running


def test_orphans_of_a_run_are_ended_and_counted() -> None:
    """A child from before the run stays. The time of an orphan counts as that of a child."""
    burn = "import time\nwhile time.process_time() < 0.4: pass\ntime.sleep(60)"
    with subprocess.Popen(["sleep", "60"]) as older:
        before, others = _seconds_of_children(), set(descendants())
        with counting_orphans():
            subprocess.run(["sh", "-c", '"$0" -c "$1" &', sys.executable, burn], check=True)
        used = _seconds_of_children() - before
        left = set(descendants())
        older.kill()
    assert used > 0.3
    assert older.pid in left
    assert left <= others


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_every_arm_has_a_program_and_a_dialect() -> None:
    assert list(ARMS) == list(ARM_PROGRAMS)
    assert all(program.path.is_file() for program in ARM_PROGRAMS.values())
    assert {arm for work in works() for arm in work.not_for} <= set(ARMS)


def test_every_goal_is_of_a_row() -> None:
    assert all(set(work.goals) <= set(work.columns) for work in works())
    names = [name for work in works() for name in work.columns]
    assert len(set(names)) == len(names) == 18
    assert len(hazards()) >= 12


def test_the_needle_is_in_the_text_once(tmp_path: Path) -> None:
    path = write_text(tmp_path, 100_000)
    text = path.read_text()
    assert text.count("NEEDLE") == 1
    assert len({len(line) for line in text.splitlines()}) == 1


def test_a_run_of_ours_is_measured(server: Server, tmp_path: Path) -> None:
    (work,) = rows_of(["a sub-RLM"])
    measured = measure(work, OURS, server, write_text(tmp_path, work.chars), noise=100)
    assert not measured.is_noisy
    assert 0 < measured.figures["a sub-RLM, the turn"] < 60


def test_the_needle_of_a_small_text_is_found_by_ours(server: Server, tmp_path: Path) -> None:
    (work,) = rows_of(["needle in 100 MB, tokens"])
    measured = measure(work, OURS, server, write_text(tmp_path, 100_000), noise=100)
    assert 1_000 < measured.figures["needle in 100 MB, tokens of the root"] < 20_000


def test_a_busy_machine_makes_a_run_noisy(server: Server, tmp_path: Path) -> None:
    (work,) = rows_of(["cold process"])
    assert measure(work, OURS, server, write_text(tmp_path, work.chars), noise=-100).is_noisy


def test_an_arm_that_can_not_start_says_why(server: Server, tmp_path: Path) -> None:
    (work,) = rows_of(["cold process"])
    arm = Arm("droste", Path(sys.executable), tmp_path)
    with pytest.raises(RunFailed, match="No module named 'droste'"):
        measure(work, arm, server, write_text(tmp_path, work.chars), noise=100)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [hazard.name for hazard in hazards()])
def test_ours_stands(server: Server, tmp_path: Path, name: str) -> None:
    """Level 2 is asked for, so the confinement is the product's own, whatever the machine has."""
    (row,) = robustness(hazards_of([name]), [OURS], server, tmp_path, repeat=1)
    assert row["arms"]["ours"] == {"held": 1, "runs": 1, "reason": ""}


def test_what_does_not_start_holds_nothing(server: Server, tmp_path: Path) -> None:
    """An arm that never tried the cell does not count as one that kept the secret."""
    arm = Arm("droste", Path(sys.executable), tmp_path)
    for row in robustness(
        hazards_of(["key in", "file written", "socket"]), [arm], server, tmp_path, repeat=1
    ):
        assert row["arms"]["droste"]["held"] == 0, row
        assert "No module named 'droste'" in row["arms"]["droste"]["reason"]


def test_a_patch_needs_the_file_that_it_was_made_for(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "runner.js").write_text("import this")
    with pytest.raises(EnvironmentFailed, match=r"runner\.js is not the file"):
        environments._apply(Patch("runner.js", "import that", "import those"), tmp_path)
    environments._apply(Patch("runner.js", "import this", "import those"), tmp_path)
    environments._apply(Patch("runner.js", "import this", "import those"), tmp_path)
    assert (folder / "runner.js").read_text() == "import those"


@pytest.mark.timeout(300)
def test_an_arm_that_can_not_be_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARM_PROGRAMS, "none", ArmProgram([str(tmp_path / "none.whl")], "ours.py", "nothing"))  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailed, match=r"none\.whl"):
        environments.make_environment("none", tmp_path)
