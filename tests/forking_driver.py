"""Run each order in a forked process, so that a run starts fast: everything is imported once.

Reads orders on standard input, one JSON object a line: {model, key, store, sandbox, out, resume?,
context?, depth?, job?}. Prints the process id, then the exit code when the process has ended. The result
is written to the file `out`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import openai
import psycopg

import rlm.database.postgres
import rlm.models.providers.openai
from rlm.documents import PathSource
from rlm.runtime import RLM
from rlm.settings import Limits, Settings
from rlm.tasks.comparison import compare, resume_comparison
from rlm.tasks.reports.research import research, resume_research

__all__: list[str] = []
PRELOADED = (openai, psycopg, rlm.database.postgres, rlm.models.providers.openai)
TASK = "Report what the parts say."


async def carry_out(order: dict[str, Any]) -> None:
    os.environ["RLM_OPENAI_COMPATIBLE_KEY"] = order["key"]
    os.environ["RLM_OPENAI_COMPATIBLE_KEY_HOST"] = order["model"].partition("@")[2]
    settings = Settings(strategy="rlm", sandbox=order["sandbox"], store=order["store"])
    runtime = RLM(order["model"], limits=Limits(max_depth=order.get("depth", 1)), settings=settings)
    try:
        if "job" in order:
            found = await job_of(runtime, order)
        elif "resume" in order:
            found = await runtime.resume(order["resume"])
        else:
            found = await runtime.run(TASK, Path(order["context"]))
    finally:
        await runtime.aclose()
    out = Path(order["out"])
    out.with_suffix(".part").write_text(json.dumps(found.to_json()))
    out.with_suffix(".part").rename(out)


async def job_of(runtime: RLM, order: dict[str, Any]) -> Any:
    """Run or resume a research or a comparison, and return its result."""
    if order["job"] == "research":
        if "resume" in order:
            return await resume_research(runtime, order["resume"])
        return await research(runtime, TASK, [Path(order["context"])])
    if "resume" in order:
        return await resume_comparison(runtime, order["resume"])
    return await compare(runtime, TASK, [PathSource(Path(order["context"]))])


def go(order: dict[str, Any]) -> int:
    try:
        asyncio.run(carry_out(order))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(go(json.loads(line)))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
