"""Test the Inspect task, the peers, and the table of the results."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from benchmarks.quality import peers, table
from benchmarks.quality.peers import PEERS, Peer
from benchmarks.quality.scoring import score
from benchmarks.quality.suites import find_suite, load_items
from benchmarks.quality.table import quality_table, results_of

RESULTS = Path(table.__file__).parent / "results"
MODEL = "openai:m@http://127.0.0.1:1/v1"
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
def stub(tmp_path):
    """Return a peer whose package is a stub that answers with all that it was told."""
    folder = tmp_path / "peer"
    folder.mkdir()
    (folder / "rlm.py").write_text(STUBS["rlms"])
    program = folder / "rlms.py"
    program.write_text(PEERS["rlms"].program.read_text())
    return Peer("rlms", program)


async def test_a_peer_gets_the_question_and_the_text_and_nothing_else(stub) -> None:
    order = peers.order_of(ITEMS[0], MODEL, rounds=7)
    answer = await stub.answer(Path(sys.executable), order, "sk-of-the-peer")
    assert "sk-of-the-peer" not in answer.said
    told = json.loads(answer.said)
    assert told["text"] == ITEMS[0].texts[0]
    assert told["question"] == ITEMS[0].question
    assert told["given"]["max_iterations"] == 7
    assert told["given"]["backend_kwargs"] == {
        "model_name": "m",
        "api_key": "[key]",
        "base_url": "http://127.0.0.1:1/v1",
    }
    assert set(told["env"]) <= {"PATH", "HOME", "PEER_KEY", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert (answer.input_tokens, answer.output_tokens, answer.calls) == (30, 4, 2)
    with pytest.raises(ValueError, match="speak Chat Completions only, not as anthropic:m does"):
        peers.order_of(ITEMS[0], "anthropic:m", rounds=7)


async def test_a_peer_that_fails_is_an_error_with_its_last_line(stub) -> None:
    (stub.program.parent / "rlm.py").write_text("raise SystemExit('no such model for sk-of-the-peer')")
    order = peers.order_of(ITEMS[0], MODEL, rounds=7)
    with pytest.raises(RuntimeError, match=r"\Ano such model for \[key\]\Z"):
        await stub.answer(Path(sys.executable), order, "sk-of-the-peer")


def test_no_key_leaves_for_another_server(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert peers.key_of("openai:gpt-5") == "sk-of-openai"
    assert peers.key_of("openai:gpt-5@https://gateway.example.com/v1") == ""


@pytest.mark.inspect
async def test_the_task_runs_an_arm_and_its_log_makes_the_table(tmp_path, monkeypatch) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs Inspect: `make test-inspect`")
    from benchmarks.quality.task import bench

    monkeypatch.chdir(tmp_path)
    made = bench(suite="needle", arm="truncated", limit=2, chars=2_000, store=str(tmp_path / "runs.db"))
    assert [sample.id for sample in made.dataset] == [item.id for item in ITEMS]
    (log,) = await inspect_ai.eval_async(made, model="none", log_dir=str(tmp_path / "logs"))
    assert log.status == "success", log.error
    results = results_of([Path(log.location)])
    assert [row["item"] for row in results["rows"]] == [item.id for item in ITEMS]
    assert {row["score"] for row in results["rows"]} <= {0.0, 1.0}
    assert "| truncated |" in quality_table(results)
    with pytest.raises(ValueError, match="without isolation: add -T unconfined=true"):
        bench(suite="needle", arm="rlms")


def _results(suites: dict[str, dict[str, list[float]]]) -> dict:
    """Return results of one repetition, by suite and arm."""
    rows = [
        {
            "suite": suite,
            "item": item.id,
            "arm": arm,
            "repeat": 1,
            "status": "answered",
            "score": points,
            "calls": 2,
            "input_tokens": 900,
            "output_tokens": 0,
        }
        for suite, arms in suites.items()
        for arm, scores in arms.items()
        for item, points in zip(ITEMS, scores, strict=True)
    ]
    return {"model": "m", "seed": 1, "chars": 2_000, "rlm": "0", "suites": list(suites), "rows": rows}


def test_the_table_pools_suites_and_pairs_items() -> None:
    table = quality_table(
        _results(
            {
                "needle": {"direct": [0.0, 1.0], "code": [1.0, 1.0]},
                "labels": {"direct": [0.0, 0.5], "code": [1.0, 0.75]},
            }
        )
    ).splitlines()
    assert table[0] == "4 questions over texts of 2,000 characters, seed 1."
    assert [line.split(" | ")[0] for line in table[4:]] == ["| code", "| direct"]
    code, direct = (line.strip("| ").split(" | ") for line in table[4:])
    assert code[1].startswith("0.94 (")
    assert code[2].startswith("+0.56 (")
    assert code[3:] == ["1.00", "0.88", "900", "2.0", "4 of 4"]
    assert direct[1].startswith("0.38 (")
    assert direct[2:5] == ["–", "0.50", "0.25"]


def test_the_table_compares_with_what_could_read_the_texts() -> None:
    results = _results({"needle": {"direct": [0.0, 0.0], "truncated": [0.0, 1.0], "code": [1.0, 1.0]}})
    for row in results["rows"]:
        if row["arm"] == "direct":
            row |= {"status": "too long", "calls": 0, "input_tokens": 0}
    table = quality_table(results).splitlines()
    assert "| to truncated (95 %) |" in table[2]
    assert [line.strip("| ").split(" | ")[2][:5] for line in table[4:]] == ["+0.50", "–", "-0.50"]


@pytest.mark.parametrize("name", ["short", "long"])
def test_the_printed_scores_are_those_of_the_kept_evidence(name: str) -> None:
    printed = json.loads((RESULTS / f"{name}.json").read_text())
    shown = {(row["suite"], row["item"], row["arm"], row["repeat"]): row["score"] for row in printed["rows"]}
    with tarfile.open(RESULTS / f"{name}.tar.xz") as archive:
        for suite in printed["suites"]:
            items = load_items(
                find_suite(suite), limit=2, seed=printed["seed"], chars=printed["chars"], data=None
            )
            facts = json.load(archive.extractfile(f"{suite}/bench.json"))
            assert {item.id: item.digest for item in items} == {
                name: item["digest"] for name, item in facts["items"].items()
            }
            rules = {item.id: item for item in items}
            rows = map(json.loads, archive.extractfile(f"{suite}/results.jsonl"))
            # The last row of a run counts: a peer that had failed was asked again.
            kept = {(row["item"], row["arm"], row["repeat"]): row for row in rows}
            for (item, arm, repeat), row in kept.items():
                points = score(rules[item].rule, row["said"], rules[item].golds) if row["said"] else 0.0
                assert points == row["score"] == shown.pop((suite, item, arm, repeat)), row
    assert not shown
    assert all(
        (", " in line.split(" | ")[-1]) == line.startswith(("| rlms", "| dspy"))
        for line in quality_table(printed).splitlines()[4:]
    ), "who failed at first and was asked again is shown"
