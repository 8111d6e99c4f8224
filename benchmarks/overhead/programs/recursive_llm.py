"""One run of `recursive-llm`: `python recursive_llm.py ORDER.json` prints when it began and ended."""

import json
import sys
import time
from pathlib import Path

from rlm import RLM


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()

    began = time.monotonic()
    rlm = RLM(
        model="openai/root",
        recursive_model="openai/child",
        api_base=f"{order['url']}/v1",
        api_key="key",
        max_depth=order["depth"],
        max_iterations=60,
        max_concurrent_subcalls=order["concurrency"],
        repl_timeout=order["cell_seconds"],
    )
    answer = rlm.complete(query=order["task"], context=text)
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": answer}))


if __name__ == "__main__":
    main()
