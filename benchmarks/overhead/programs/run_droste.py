"""One run of Droste in its native environment: `python run_droste.py ORDER.json` prints when it began."""

import json
import sys
import time
from pathlib import Path

from droste import (
    Budget,
    EnvironmentConfig,
    OpenAICompatClient,
    OpenAICompatSubcallClient,
    RLMConfig,
    run_rlm,
)
from droste.environments.factory import create_environment, create_environment_context
from droste.execution.config import SandboxLimits
from droste.execution.manifest import RolloutConfiguration


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()

    began = time.monotonic()
    # Its defaults (50 subcalls, 300 s) would end the longer rows.
    budget = Budget(tokens=10**9, subcalls=5_000, wall_ms=600_000, max_iterations=60)
    sandbox = SandboxLimits(execution_timeout_ms=round(1_000 * order["cell_seconds"]))
    wanted = EnvironmentConfig(kind="native", budget=budget, sandbox=sandbox)
    context = create_environment_context(wanted)
    at = {"base_url": f"{order['url']}/v1", "api_key": "key"}
    subcalls = OpenAICompatSubcallClient(
        model="child", context=context, max_parallel=order["concurrency"], **at
    )
    environment = create_environment(
        wanted,
        context=text,
        registry=None,
        subcalls=subcalls,
        execution_context=context,
        capability_run_id=context.trace.run_id,
        capability_parent_run_id=context.trace.parent_run_id,
        capability_observer=context.observe_capability,
    )
    result = run_rlm(
        order["task"],
        environment=environment,
        root_llm=OpenAICompatClient(model="root", **at),
        subcalls=subcalls,
        config=RLMConfig(
            budget=budget,
            sandbox=sandbox,
            root_model="root",
            rollout=RolloutConfiguration(subcall_model="child", concurrency=order["concurrency"]),
        ),
        context=context,
    )
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": str(result.answer)}))


if __name__ == "__main__":
    main()
