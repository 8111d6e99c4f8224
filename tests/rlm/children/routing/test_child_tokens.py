"""How large a child's prompt is: a limit, whose default follows what the child's model reads well."""

from __future__ import annotations

import pytest

from rlm import Limits, Settings
from rlm.children.routing.child_model import ChildModel, default_child_tokens
from rlm.errors import ConfigurationError
from rlm.models.base import ModelWindow
from rlm.models.catalog.overrides import ModelFacts
from rlm.testing import ScriptedModel

TEXT = "The quick brown fox jumps over the lazy dog near the river bank.\n" * 30_000


class Named(ScriptedModel):
    """A script under the name of another model."""

    def __init__(self, name: str, script: ScriptedModel, context: int, *, known: bool = True) -> None:
        super().__init__(script._lines, window=ModelWindow(context, 8_000, known=known))
        self._own = name

    @property
    def name(self) -> str:
        return self._own


def named(name: str, context: int, *, known: bool = True) -> Named:
    return Named(name, ScriptedModel.of(root=[], child="x"), context, known=known)


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
def test_the_default_follows_what_the_model_reads_well(name, context, tokens) -> None:
    assert default_child_tokens(named(name, context)) == tokens


def test_a_guessed_window_says_nothing() -> None:
    assert default_child_tokens(named("openai:gpt-5-turbo", 400_000, known=False)) == 32_000


@pytest.mark.parametrize(
    ("limit", "facts", "tokens"),
    [(None, None, 50_000), (9_000, None, 9_000), (None, 70_000, 70_000), (9_000, 70_000, 9_000)],
)
def test_the_limit_comes_before_the_users_facts_and_these_before_the_default(limit, facts, tokens) -> None:
    model = named("claude-haiku-4-5", 200_000)
    own = {} if facts is None else {model.name: ModelFacts(child_tokens=facts)}
    assert ChildModel.of("a", model, limit=limit, output_tokens=8_000, facts=own).prompt_tokens == tokens


def test_a_small_window_keeps_room_for_the_reply() -> None:
    child = ChildModel.of("a", named("local", 4_096), limit=None, output_tokens=8_000, facts={})
    assert (child.prompt_tokens, child.output_tokens) == (3_072, 1_024)


@pytest.mark.parametrize("value", [0, 999, 1.5, True, "many"])
def test_a_limit_that_is_none_is_refused_by_name(value) -> None:
    with pytest.raises(ConfigurationError, match="limits.child_tokens"):
        Limits(child_tokens=value)


async def test_chunk_without_a_size_makes_chunks_that_a_child_takes(run, block) -> None:
    """Every chunk is as large as the child's model reads well, and fits."""
    script = ScriptedModel.of(
        root=[
            block(
                "found = sub_query_batch('Name the animals.', chunk())\n"
                "finalize([max(c.chars for c in chunk()) if False else len(chunk()[0].text), len(found), "
                "found.failed, context_meta().recommended_chunk])"
            )
        ],
        child="a fox",
    )
    sizes = {}
    for name, context in (("openai:gpt-5-mini", 400_000), ("local", 4_096), ("local", 128_000)):
        script.restart() if hasattr(script, "restart") else None
        model = Named(name, script, context)
        result = await run(
            ScriptedModel(script._lines), TEXT, sub_model=model, settings=Settings(strategy="rlm")
        )
        chars, count, failed, recommended = result.answer
        assert failed == []
        assert count == -(-len(TEXT) // chars)
        sizes[name, context] = chars
        assert recommended <= chars * 1.3
    assert sizes["openai:gpt-5-mini", 400_000] > 2.9 * sizes["local", 128_000] > 30 * sizes["local", 4_096]
