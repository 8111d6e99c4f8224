"""Several models of children, which cells choose by name."""

from __future__ import annotations

import pytest

from rlm import RLM, Settings
from rlm.children.sub_models import parse_sub_models, write_sub_models
from rlm.errors import ConfigurationError, UsageError
from rlm.replay import replay
from rlm.testing import ScriptedModel

BODY = "Ann paid 5 euros.\nBob paid 7 euros.\nCem paid 9 euros.\n"


def test_models_are_named_or_named_as_they_are_written() -> None:
    given = ["cheap=openai:gpt-5-mini", "openai:a@http://h:1/v1", "scripted:x=y.jsonl"]
    models = parse_sub_models(given)
    assert models == {
        "cheap": "openai:gpt-5-mini",
        "openai:a@http://h:1/v1": "openai:a@http://h:1/v1",
        "scripted:x=y.jsonl": "scripted:x=y.jsonl",
    }
    assert write_sub_models(models) == given
    assert parse_sub_models([]) == {}


@pytest.mark.parametrize("given", [["a=x:1", "a=x:2"], ["x:1", "x:1"], [f"m{n}=x" for n in range(9)]])
def test_a_name_that_is_given_twice_and_too_many_are_refused(given) -> None:
    with pytest.raises(ConfigurationError):
        parse_sub_models(given)


def test_one_model_and_several_are_not_both_given(named) -> None:
    with pytest.raises(ConfigurationError, match="leave one out"):
        RLM(named("root"), sub_model=named("a"), sub_models={"a": named("b")})


ROUTED = """\
one = sub_query("Who?", (0, 17))
two = sub_query("Who?", (0, 17), model="strong")
three = sub_query_batch("Who?", [(18, 35), (36, 53)], model="strong")
four = sub_query_map(["Who?"], [(18, 35)], model="big-2")
again = sub_query("Who?", (0, 17), model="strong")
finalize([one, two, list(three), four[0], again.cached])"""


async def test_a_cell_chooses_a_model_by_its_name(run, block, named) -> None:
    """The first is the default. Usage is by model, and equal calls of different models are not the same."""
    root = ScriptedModel.of(root=[block(ROUTED)])
    cheap, strong = named("small-1", "cheap says"), named("big-2", "strong says")
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong})
    assert result.answer == ["cheap says", "strong says", ["strong says"] * 2, "strong says", True]
    assert (len(cheap.requests), len(strong.requests)) == (1, 3)
    assert {one.model: one.calls for one in result.usage} == {
        "scripted:memory": 1,
        "small-1": 1,
        "big-2": 3,
    }


async def test_the_root_is_told_of_several_models_only(run, block, named) -> None:
    texts = []
    for several in (False, True):
        root = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize('x')")])
        models = {"cheap": named("openai:gpt-5-mini", context=400_000)}
        if several:
            models["strong"] = named("openai:gpt-5", context=400_000)
        await run(root, BODY, sub_models=models)
        texts.append("\n".join(message.content for message in root.requests[0].messages))
    alone, with_two = texts
    assert "model=" not in alone
    assert "model= of a child or sub-RLM" in with_two
    assert "'cheap' (default, 100,000 tokens), 'strong' (100,000 tokens, 5 x its price)" in with_two


async def test_an_unknown_name_lists_the_known_ones_and_spends_nothing(run, block, named) -> None:
    root = ScriptedModel.of(
        root=[
            block(
                "for ask in (lambda: sub_query('q', (0, 5), model='huge'), "
                "lambda: sub_query_batch('q', [(0, 5)], model='huge'), "
                "lambda: sub_rlm('q', (0, 5), model='huge')):\n"
                "    try:\n        ask()\n"
                "    except ValueError as error:\n        print(type(error).__name__, error)\n"
                "try:\n    sub_query('q', (0, 5), model=5)\nexcept TypeError as error:\n    print(error)"
            ),
            block("peek(0, 1)\nfinalize('x')"),
        ]
    )
    models = {"cheap": named("small-1"), "strong": named("big-2")}
    result = await run(root, BODY, sub_models=models)
    told = root.requests[1].messages[-1].content
    words = "UnknownSubModel there is no sub-model 'huge'. Those of this run are: cheap, strong"
    assert told.count(words) == 3
    assert "must be the name of a sub-model" in told
    assert (result.sub_calls, models["cheap"].requests) == (0, [])


async def test_a_sub_rlm_may_have_another_root(run, block, named) -> None:
    """Its root is the named model; its children are those of the run."""
    root = ScriptedModel.of(
        root=[block("finalize([sub_rlm('Sum?', (0, 35), model='strong'), sub_rlm('Sum?', (0, 35))])")]
    )
    inner = block("finalize(sub_query('Who?', (0, 17)))")
    root._turns["root"] += ScriptedModel.of(root=[block("peek(0, 1)\nfinalize('of the root')")])._turns[
        "root"
    ]
    cheap, strong = named("small-1", "of the child"), named("big-2", root=[inner])
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong})
    assert result.answer == ["of the child", "of the root"]
    assert [request.role for request in strong.requests] == ["root"]


async def test_the_deepest_level_asks_one_child_of_that_model(run, block, named) -> None:
    from rlm import Limits

    root = ScriptedModel.of(root=[block("finalize(sub_rlm('Sum?', (0, 35), model='strong'))")])
    cheap, strong = named("small-1", "cheap"), named("big-2", "strong")
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong}, limits=Limits(max_depth=0))
    assert result.answer == "strong"


async def test_a_routed_run_is_replayed_and_resumed(run, block, named) -> None:
    """The journal holds the names of then, whatever they are now."""
    root = ScriptedModel.of(root=[block(ROUTED)])
    models = {"cheap": named("small-1", "cheap says"), "strong": named("big-2", "strong says")}
    result = await run(root, BODY, sub_models=models)
    replayed = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert replayed.equal
    settings = Settings(store=run.store, sandbox=run.level)
    same = RLM(root, sub_models=models, settings=settings)
    assert (await same.resume(result.run_id)).answer == result.answer
    swapped = RLM(root, sub_models=dict(reversed(models.items())), settings=settings)
    left_over = "was begun with sub_model small-1, big-2, not big-2, small-1"
    from rlm.journal import Journal
    from rlm.runs.stored_run import StoredRun

    async with Journal.open(run.store) as journal:
        stored = await StoredRun.read(journal, result.run_id)
    assert stored.sub_models == {"cheap": "small-1", "strong": "big-2"}
    with pytest.raises(UsageError, match=left_over):
        swapped.as_of(stored)
    renamed = RLM(root, sub_models={"a": models["cheap"], "b": models["strong"]}, settings=settings)
    assert list(renamed.as_of(stored).sub_models) == ["cheap", "strong"]
