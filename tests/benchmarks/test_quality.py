"""Test what `benchmarks/quality` adds to a bench: peers, and the Inspect task."""

from __future__ import annotations

import json
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.quality import __main__ as quality
from benchmarks.quality.bench import BenchFolder, Row, find_suite, load_items, report_of, score
from benchmarks.quality.environments import PEERS, Peer
from benchmarks.quality.table import quality_table, results_of

RESULTS = Path(quality.__file__).parent / "results"

FACTS = {
    "suite": "needle",
    "model": "openai:m@http://127.0.0.1:1/v1",
    "sub_model": "m",
    "seed": 1,
    "chars": 2_000,
    "limits": {"rounds": 7},
    "rlm": "0",
}
ITEMS = load_items(find_suite("needle"), limit=2, seed=1, chars=2_000, data=None)

STUBS = {
    "rlms": """
class _Usage:
    def to_dict(self):
        one = {"total_calls": 2, "total_input_tokens": 30, "total_output_tokens": 4}
        return {"model_usage_summaries": {"m": one}}
class _Result:
    usage_summary = _Usage()
class RLM:
    def __init__(self, **given):
        self.given = given
    def completion(self, text, root_prompt):
        import json, os
        result = _Result()
        told = {"text": text, "question": root_prompt, "given": self.given, "env": sorted(os.environ)}
        result.response = json.dumps(told)
        return result
""",
}


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Return a peer whose package is a stub that answers with all that it was told."""
    folder = tmp_path / "peer"
    folder.mkdir()
    (folder / "rlm.py").write_text(STUBS["rlms"])
    program = folder / "rlms.py"
    program.write_text(PEERS["rlms"].program.read_text())
    monkeypatch.setattr(quality, "PEERS", {"rlms": Peer("rlms", program)})
    return folder


def test_a_peer_gets_the_question_and_the_text_and_nothing_else(stub, tmp_path) -> None:
    with BenchFolder.open(tmp_path / "out", FACTS, ITEMS) as folder:
        assert quality.add_peer(folder, "rlms", Path(sys.executable), ITEMS, "sk-of-the-peer") == 2
        assert quality.add_peer(folder, "rlms", Path(sys.executable), ITEMS, "sk-of-the-peer") == 0
        row = folder.rows[ITEMS[0].id, "rlms", 1]
        report = report_of(folder)
    told = json.loads(row.said)
    assert told["text"] == ITEMS[0].texts[0]
    assert told["question"] == ITEMS[0].question
    assert told["given"]["max_iterations"] == 7
    assert told["given"]["backend_kwargs"]["model_name"] == "m"
    assert set(told["env"]) <= {"PATH", "HOME", "PEER_KEY", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert "sk-of-the-peer" not in (tmp_path / "out" / "results.jsonl").read_text()
    assert (row.input_tokens, row.output_tokens, row.calls) == (30, 4, 2)
    assert [arm.name for arm in report.arms] == ["rlms"]


def test_a_peer_that_fails_is_an_error_with_its_last_line_and_is_asked_again(stub, tmp_path) -> None:
    (stub / "rlm.py").write_text("raise SystemExit('no such model for sk-of-the-peer')")
    with BenchFolder.open(tmp_path / "out", FACTS, ITEMS) as folder:
        quality.add_peer(folder, "rlms", Path(sys.executable), ITEMS[:1], "sk-of-the-peer")
        (row,) = folder.rows.values()
        assert (row.status, row.score, row.detail) == ("error", 0.0, "no such model for [key]")
        (stub / "rlm.py").write_text(STUBS["rlms"])
        assert quality.add_peer(folder, "rlms", Path(sys.executable), ITEMS[:1], "") == 1
        (row,) = folder.rows.values()
    assert row.status == "answered"
    assert json.loads(row.said)["given"]["backend_kwargs"]["api_key"] == "none"


def test_no_key_leaves_for_another_server(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert quality.key_of("openai:gpt-5") == "sk-of-openai"
    assert quality.key_of("openai:gpt-5@https://gateway.example.com/v1") == ""


async def test_the_inspect_task_runs_an_arm(tmp_path, monkeypatch) -> None:
    pytest.importorskip("inspect_ai", reason="needs the extra bench")
    from benchmarks.quality.task import bench

    monkeypatch.chdir(tmp_path)
    made = bench(suite="needle", arm="truncated", limit=2, chars=2_000, out=str(tmp_path / "out"))
    assert [sample.id for sample in made.dataset] == [item.id for item in ITEMS]
    from inspect_ai import eval_async

    (log,) = await eval_async(made, model="none", log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    assert log.samples is not None
    for sample in log.samples:
        ((name, score),) = (sample.scores or {}).items()
        assert name == "score_of_bench"
        row = BenchFolder.read(tmp_path / "out" / "needle" / "truncated" / f"{sample.id}-1").rows
        assert score.value == row[str(sample.id), "truncated", 1].score


def _folder(path: Path, suite: str, scores: dict[str, list[float]]) -> BenchFolder:
    facts = {**FACTS, "suite": suite}
    with BenchFolder.open(path / suite, facts, ITEMS) as folder:
        for arm, points in scores.items():
            for item, score in zip(ITEMS, points, strict=True):
                row = Row(item.id, arm, 1, "answered", said="x", score=score, calls=2, input_tokens=900)
                folder.append(row)
    return BenchFolder.read(path / suite)


def test_the_table_pools_suites_and_pairs_items(tmp_path: Path) -> None:
    folders = [
        _folder(tmp_path, "needle", {"direct": [0.0, 1.0], "code": [1.0, 1.0]}),
        _folder(tmp_path, "labels", {"direct": [0.0, 0.5], "code": [1.0, 0.75]}),
    ]
    table = quality_table(results_of(folders)).splitlines()
    assert table[0] == "4 questions over texts of 2,000 characters, seed 1."
    assert [line.split(" | ")[0] for line in table[4:]] == ["| code", "| direct"]
    code, direct = (line.strip("| ").split(" | ") for line in table[4:])
    assert code[1].startswith("0.94 (")
    assert code[2].startswith("+0.56 (")
    assert code[3:] == ["1.00", "0.88", "900", "2.0", "4 of 4"]
    assert direct[1].startswith("0.38 (")
    assert direct[2:5] == ["–", "0.50", "0.25"]


def test_the_table_refuses_what_cannot_be_compared(tmp_path: Path) -> None:
    one = _folder(tmp_path, "needle", {"code": [1.0, 1.0]})
    other = _folder(tmp_path, "labels", {"code": [1.0, 1.0]})
    other.facts = {**other.facts, "chars": 9}
    with pytest.raises(ValueError, match="labels was made with another chars: 9, not 2000"):
        results_of([one, other])
    row = one.rows[ITEMS[0].id, "code", 1]
    one.rows[row.key] = replace(row, score=None)
    with pytest.raises(ValueError, match="has no score yet"):
        results_of([one])


def test_the_table_compares_with_what_could_read_the_texts(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "needle", {"direct": [0.0, 0.0], "truncated": [0.0, 1.0], "code": [1.0, 1.0]})
    for key, row in list(folder.rows.items()):
        if row.arm == "direct":
            folder.rows[key] = replace(row, status="too long", calls=0, input_tokens=0)
    table = quality_table(results_of([folder])).splitlines()
    assert "| to truncated (95 %) |" in table[2]
    assert [line.strip("| ").split(" | ")[2][:5] for line in table[4:]] == ["+0.50", "–", "-0.50"]


@pytest.mark.parametrize("name", ["short", "long"])
def test_the_printed_scores_are_those_of_the_kept_evidence(name: str, tmp_path: Path) -> None:
    printed = json.loads((RESULTS / f"{name}.json").read_text())
    with tarfile.open(RESULTS / f"{name}.tar.xz") as archive:
        for suite in printed["suites"]:
            (tmp_path / suite).mkdir()
            for file in ("bench.json", "results.jsonl"):
                kept = archive.extractfile(f"{suite}/{file}")
                assert kept is not None
                (tmp_path / suite / file).write_bytes(kept.read())
    folders = [BenchFolder.read(tmp_path / suite) for suite in printed["suites"]]
    assert results_of(folders) == printed
    table = quality_table(printed)
    assert all(
        (", " in line.split(" | ")[-1]) == line.startswith(("| rlms", "| dspy"))
        for line in table.splitlines()[4:]
    ), "who failed at first and was asked again is shown"
    for folder in folders:
        items = load_items(
            find_suite(folder.facts["suite"]),
            limit=2,
            seed=folder.facts["seed"],
            chars=folder.facts["chars"],
            data=None,
        )
        assert {item.id: item.digest for item in items} == {
            name: item["digest"] for name, item in folder.facts["items"].items()
        }
        rules = {item.id: item for item in items}
        for (item, _, _), row in folder.rows.items():
            points = score(rules[item].rule, row.said, rules[item].golds) if row.said else 0.0
            assert row.score == points, row
