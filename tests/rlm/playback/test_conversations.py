"""Test the conversations of a run: the prompts that were sent, window by window and child by child."""

from __future__ import annotations

from rlm import Settings
from rlm.errors import ModelRejected
from rlm.journal import Journal
from rlm.models.base import ModelWindow
from rlm.replay import Conversation, read_conversations
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel

BODY = "".join(f"Line {number} says {number * 37 % 101}.\n" for number in range(400))


WINDOW = ModelWindow(context=12_000, output=600)


def prompts(model: ScriptedModel, role: str) -> list[list[str]]:
    """Return the contents of the messages that the model was sent in a role."""
    return [[one.content for one in asked.messages] for asked in model.requests if asked.role == role]


def sent(conversation: Conversation) -> list[str]:
    """Return the contents of the messages of a conversation but for its last reply."""
    return [one.content for one in conversation.messages[:-1]]


async def test_the_prompts_are_those_that_were_sent(run, block) -> None:
    """The root has one conversation with all rounds, each child its own. They end with a reply."""
    model = ScriptedModel.of(
        root=[
            block("print(peek(0, 20))"),
            "No block.",
            block("said = sub_query_batch('q', chunk(max_chars=4_000))\nprint(len(said))"),
            block("finalize('done', evidence=[(0, 20)])"),
        ],
        child=lambda request: f"{len(request.slices[0].text)} characters",
    )
    result = await run(model, BODY)
    assert result.stop_reason == "finalized"
    found = await read_conversations(result.run_id, store=run.store)

    roots = [one for one in found if one.role == "root"]
    assert len(roots) == 1
    (root,) = roots
    assert sent(root) == prompts(model, "root")[-1]
    assert root.rounds == (1, 4)
    assert root.messages[-1].role == "assistant"
    assert "finalize" in root.messages[-1].content

    children = [one for one in found if one.role == "child"]
    assert len(children) > 1
    assert sorted(map(sent, children)) == sorted(prompts(model, "child"))
    assert all(one.messages[-1].content.endswith(" characters") for one in children)


async def test_each_window_of_a_folded_run_is_a_conversation(run, block) -> None:
    """Folding begins a new window, in which the notes stand for the rounds before."""
    filler = "'fill in ' * 330"
    model = ScriptedModel.of(
        root=[
            *[
                block(f"print('Vendor{number} is owed {number}00 euros.', {filler})")
                for number in range(1, 12)
            ],
            block("count('one')\nfinalize('done')"),
        ],
        summary="## Task Summary\n- vendors [r1]\n\n## Key Decisions\n- none",
        window=WINDOW,
    )
    settings = Settings(strategy="rlm", root=RootSettings(output_tokens=600))
    result = await run(model, "one two three\n" * 50, settings=settings)
    assert result.stop_reason == "finalized"
    found = await read_conversations(result.run_id, store=run.store)
    roots = [one for one in found if one.role == "root"]
    assert len(roots) >= 2
    assert [one.rounds[0] for one in roots] == [1, *[one.rounds[1] + 1 for one in roots[:-1]]]
    assert roots[-1].rounds[1] == 12
    assert all(sent(one) in prompts(model, "root") for one in roots)
    assert any("- vendors [r1]" in text for text in sent(roots[-1]))


async def test_a_sub_rlm_has_its_own_conversation(run, block) -> None:
    """The conversation of a sub-RLM names it."""

    def root(request) -> str:
        return block(
            "finalize(peek(0, 3))" if request.task == "other" else "finalize(str(sub_rlm('other', (0, 5))))"
        )

    model = ScriptedModel.of(root=root)
    result = await run(model, BODY)
    assert result.answer == BODY[:3]
    found = await read_conversations(result.run_id, store=run.store)
    assert sorted(bool(one.within) for one in found) == [False, True]
    assert sorted(map(sent, found)) == sorted(prompts(model, "root"))


async def test_a_child_is_read_with_the_text_that_the_journal_holds_as_a_span(run, block) -> None:
    """Its event has the span."""
    model = ScriptedModel.of(root=[block("finalize(str(sub_query('q', (0, 2_000))))")], child=["yes"])
    result = await run(model, BODY)
    async with Journal.open(run.store) as journal:
        (child,) = [one for one in await journal.events(result.run_id) if one.kind == "child"]
    assert BODY[:200] not in str(child.data)
    assert [0, 2_000] in child.data["messages"][-1]["content"]
    found = await read_conversations(result.run_id, store=run.store)
    assert BODY[:2_000] in found[-1].messages[-2].content


async def test_the_conversations_of_a_run_that_did_not_end_are_read_without_a_kernel(
    run, block, monkeypatch
) -> None:
    """Nothing is run again, so a block that would do something else now changes nothing."""
    model = ScriptedModel.of(root=[block("import time; print(time.time())"), ModelRejected("no more")])
    result = await run(model, BODY)
    assert result.stop_reason == "model"
    monkeypatch.setattr(JupyterSandbox, "open", None)
    (root,) = await read_conversations(result.run_id, store=run.store)
    assert sent(root) == prompts(model, "root")[0]
