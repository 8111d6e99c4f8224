"""How large a child's prompt is: a limit, whose default follows what the child's model reads well."""

from __future__ import annotations

import pytest

from rlm import Limits
from rlm.children.sub_models import ChildModel, default_child_tokens
from rlm.errors import ConfigurationError
from rlm.models.catalog.info import ModelInfo
from rlm.testing import ScriptedModel

TEXT = "The quick brown fox jumps over the lazy dog near the river bank.\n" * 20_000


@pytest.mark.parametrize(
    ("name", "context", "tokens"),
    [
        ("openai:gpt-5-mini", 400_000, 100_000),
        ("openai:gpt-6.1-sol", 1_050_000, 100_000),
        ("anthropic:claude-haiku-4-5", 200_000, 50_000),
        ("claude-sonnet-5-5", 1_000_000, 100_000),
        ("openai:gpt-4o-mini", 128_000, 32_000),
        ("openai:qwen3-8b@http://localhost:11434/v1", 262_144, 32_000),
        ("openai:gpt-5-mini", 128_000, 32_000),
    ],
)
def test_the_default_follows_what_the_model_reads_well(named, name, context, tokens) -> None:
    assert default_child_tokens(named(name, context=context)) == tokens


@pytest.mark.parametrize(
    ("limit", "facts", "tokens"),
    [(None, None, 50_000), (9_000, None, 9_000), (None, 70_000, 70_000), (9_000, 70_000, 9_000)],
)
def test_the_limit_comes_before_the_users_facts_and_these_before_the_default(
    named, limit, facts, tokens
) -> None:
    model = named("claude-haiku-4-5", context=200_000)
    own = {} if facts is None else {model.name: ModelInfo(child_tokens=facts)}
    assert ChildModel.of("a", model, limit=limit, output_tokens=8_000, facts=own).prompt_tokens == tokens


def test_a_small_window_keeps_room_for_the_reply(named) -> None:
    child = ChildModel.of("a", named("local", context=4_096), limit=None, output_tokens=8_000, facts={})
    assert (child.prompt_tokens, child.output_tokens) == (3_072, 1_024)


@pytest.mark.parametrize("value", [0, 999, 1.5, True, "many"])
def test_a_limit_that_is_none_is_refused_by_name(value) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Limits(child_tokens=value)
    assert caught.value.option == "limits.child_tokens"


CHUNKS = """\
chunks = chunk()
found = sub_query_batch("Name the animals.", chunks)
finalize([len(chunks[0].text), len(found), found.failed, context_meta().recommended_chunk])"""


@pytest.mark.parametrize(
    ("name", "context", "chars"),
    [
        ("openai:gpt-5-mini", 400_000, (250_000, 500_000)),
        ("local", 128_000, (80_000, 160_000)),
        ("local", 4_096, (3_000, 10_000)),
    ],
)
async def test_a_chunk_without_a_size_is_as_large_as_a_child_takes(
    run, block, named, name, context, chars
) -> None:
    """The first message names the tokens of the child's own model, and every chunk fits."""
    root = ScriptedModel.of(root=[block(CHUNKS)])
    result = await run(root, TEXT, sub_model=named(name, "a fox", context=context))
    size, count, failed, _ = result.answer
    assert chars[0] <= size <= chars[1]
    assert (count, failed) == (-(-len(TEXT) // size), [])
    told = root.requests[0].messages[1].content
    tokens = {400_000: "100,000", 128_000: "32,000", 4_096: "3,072"}[context]
    assert f"calls of {tokens} tokens" in told


async def test_a_plan_follows_the_size_of_children(named, monkeypatch) -> None:
    from rlm import RLM

    plans = {}
    for tokens in (None, 8_000):
        rlm = RLM(
            named("openai:gpt-5"),
            sub_model=named("openai:gpt-5-mini", context=400_000),
            limits=Limits(child_tokens=tokens),
        )
        plans[tokens] = await rlm.plan([TEXT])
    assert (plans[None].child_tokens, plans[8_000].child_tokens) == (100_000, 8_000)
    assert plans[None].calls < plans[8_000].calls
    assert plans[None].chunk_chars > 10 * plans[8_000].chunk_chars
