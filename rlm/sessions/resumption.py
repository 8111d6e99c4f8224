"""Replays a stored run and goes on where its recording ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from rlm.children.run_input import RunInput
from rlm.documents import Loaded
from rlm.documents.workspace import Workspace
from rlm.events import Resumed
from rlm.journal import RunLog
from rlm.results import RunResult
from rlm.runs.config import RunConfig
from rlm.runs.options import RunOptions
from rlm.runs.run import Run
from rlm.runs.setup import resources_for
from rlm.runs.shared_kernel import SharedKernel
from rlm.runs.stored_run import StoredRun
from rlm.sandbox.host.pool import KernelPool
from rlm.sessions.previous_questions import PreviousQuestion, describe_variables

__all__ = ["replay_run"]


async def replay_run(
    config: RunConfig,
    left: StoredRun,
    loaded: Loaded,
    log: RunLog,
    workspace: Workspace,
    earlier: Sequence[StoredRun],
    kernels: KernelPool | None,
) -> RunResult:
    """Replay a run up to the end of its recording, then continue it, writing to `log`. `earlier` are the runs
    that it continues, oldest first."""
    # Resuming and replaying are the same: every journalled reply is taken from the recording, every cell runs
    # again in a new kernel, and the first call that is not journalled goes to the model. `resume` gives real
    # models and the run's own log; `rlm.replay` gives models that refuse and a log of its own, so nothing can
    # be spent or written. With `earlier`, the kernel first needs the variables of those questions, so it is a
    # shared kernel that replays them before its first cell.
    recording = left.recording()
    async with AsyncExitStack() as stack:
        pool = config.kernels(kernels)
        stack.push_async_callback(pool.close)
        body = stack.enter_context(loaded.context.open())
        resources = resources_for(config, workspace, pool)
        known = [PreviousQuestion.of(one) for one in earlier]
        if known:
            kernel = SharedKernel(loaded.context, pool, seed=f"{known[0].run_id}:0", tools=config.tools.docs)
            kernel.past = [one.past for one in known]
            stack.push_async_callback(kernel.close)
            resources = replace(resources, kernel=kernel)
        run = Run(
            config,
            left.task,
            RunInput(loaded.context, body),
            log,
            resources,
            RunOptions(
                recording=recording,
                answer_type=left.answer_type,
                warnings=left.facts["warnings"],
                unread=left.facts.get("unread", ()),
                earlier=[one.question for one in known],
                session=known[0].run_id if known else "",
                variables=describe_variables(known),
            ),
        )
        config.tell(Resumed(left.run_id, run.state.rounds, recording.reply_count))
        result = await run.run()
        await run.log_result(result)
    return result
