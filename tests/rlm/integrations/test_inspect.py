"""Test the solver for Inspect: its own evaluations, over real kernels, with a scripted model of Inspect."""

from __future__ import annotations

import pytest

from rlm import Limits, Settings
from rlm.errors import UsageError
from rlm.replay import replay

pytest.importorskip("inspect_ai", reason="Inspect is not installed here: `make test-inspect` runs these")
pytestmark = pytest.mark.inspect

from inspect_ai import Task, eval_async  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.scorer import match  # noqa: E402

from rlm.integrations.inspect import rlm_solver  # noqa: E402

TEXT = "Line one.\nThe word is xyzzy.\n"
QUESTION = "What is the word?"


def sample(**metadata) -> Sample:
    return Sample(QUESTION, target="xyzzy", metadata=metadata or {"context": TEXT})


def scripted(*replies: str):
    outputs = [ModelOutput.from_content("mockllm/model", reply) for reply in replies]
    for one in outputs:
        one.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return get_model("mockllm/model", custom_outputs=outputs)


async def evaluate(solver, model, tmp_path, one: Sample | None = None, **options):
    task = Task(dataset=[one or sample()], solver=solver, scorer=match(location="any"))
    (log,) = await eval_async(task, model=model, log_dir=str(tmp_path / "logs"), **options)
    return log


async def test_the_model_of_the_evaluation_is_root_and_children(settings: Settings, block, tmp_path) -> None:
    """Its answer is scored, the account is in the sample, and the run replays from the journal."""
    model = scripted(
        block("w = sub_query('The word?', (0, 30))\nprint(w)"),
        "xyzzy",
        block("finalize(str(w), evidence=[(10, 28)])"),
    )
    log = await evaluate(rlm_solver(settings=settings), model, tmp_path)
    assert log.status == "success", log.error
    (done,) = log.samples
    assert done.output.completion == "xyzzy"
    assert done.scores["match"].value == "C"
    account = done.metadata["rlm"]
    assert (account["stop_reason"], account["rounds"], account["sub_calls"]) == ("finalized", 2, 1)
    assert account["citations"][0]["verified"]
    again = await replay(account["run_id"], store=settings.store, settings=settings)
    assert again.equal


async def test_a_provider_of_rlm_answers_instead(settings: Settings, tmp_path) -> None:
    """And any function names the context."""
    solver = rlm_solver("extractive", context=lambda state: state.metadata["text"] * 3, settings=settings)
    log = await evaluate(solver, scripted(), tmp_path, sample(text=TEXT))
    assert log.status == "success", log.error
    (done,) = log.samples
    assert "xyzzy" in done.output.completion
    assert done.output.model == "extractive"


async def test_a_run_without_an_answer_scores_nothing(settings: Settings, tmp_path) -> None:
    solver = rlm_solver(settings=settings, limits=Limits(max_violations=1))
    log = await evaluate(solver, scripted("I wonder."), tmp_path)
    assert log.status == "success", log.error
    (done,) = log.samples
    assert (done.output.completion, done.scores["match"].value) == ("", "I")
    assert done.metadata["rlm"]["stop_reason"] == "contract_violation"


async def test_a_sample_without_its_text_is_an_error_of_that_sample(settings: Settings, tmp_path) -> None:
    log = await evaluate(rlm_solver(settings=settings), scripted(), tmp_path, sample(other="x"))
    assert log.status == "error"
    assert UsageError.__name__ in str(log.error) or "in its metadata" in str(log.error)


async def test_a_limit_of_inspect_ends_the_sample(settings: Settings, block, tmp_path) -> None:
    """It is Inspect's limit, so Inspect records it."""
    model = scripted(*[block("print(peek(0, 9))")] * 6)
    log = await evaluate(rlm_solver(settings=settings), model, tmp_path, token_limit=1)
    (done,) = log.samples
    assert done.limit is not None
    assert done.limit.type == "token"
