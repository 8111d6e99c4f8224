"""One run of `rlms`: `python rlms.py ORDER.json` prints when it began and ended, and the answer."""

import json
import sys
import time
from pathlib import Path

from rlm import RLM


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()

    def backend(name: str) -> dict[str, str]:
        return {"model_name": name, "base_url": f"{order['url']}/v1", "api_key": "key"}

    began = time.monotonic()
    rlm = RLM(
        backend="openai",
        backend_kwargs=backend("root"),
        other_backends=["openai"],
        other_backend_kwargs=[backend("child")],
        environment="local",
        max_depth=order["depth"],
        max_iterations=60,
        max_concurrent_subcalls=order["concurrency"],
    )
    result = rlm.completion(text, root_prompt=order["task"])
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": result.response}))


if __name__ == "__main__":
    main()
