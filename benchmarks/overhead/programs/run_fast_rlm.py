"""One run of fast-rlm: `python run_fast_rlm.py ORDER.json` prints when it began and ended, and the answer."""

import json
import os
import sys
import time
from pathlib import Path

import fast_rlm


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()
    os.environ |= {"RLM_MODEL_BASE_URL": f"{order['url']}/v1", "RLM_MODEL_API_KEY": "key"}

    began = time.monotonic()
    config = fast_rlm.RLMConfig(
        primary_agent="root",
        sub_agent="child",
        max_depth=max(1, order["depth"]),
        max_calls_per_subagent=60,
        max_completion_tokens=10**8,
        max_prompt_tokens=10**8,
        max_money_spent=10**6,
    )
    result = fast_rlm.run(text, instruction=order["task"], config=config, verbose=False)
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": str(result["results"])}))


if __name__ == "__main__":
    main()
