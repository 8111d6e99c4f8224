"""One answer of `rlms`: `python rlms.py ORDER.json` prints the answer and the tokens as JSON.

It gets the question and the text, and no other word of ours.
"""

import json
import os
import sys
from pathlib import Path

from rlm import RLM

order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
backend = {"model_name": order["model"], "api_key": os.environ.get("PEER_KEY") or "none"}
if order["url"]:
    backend["base_url"] = order["url"]
result = RLM(
    backend="openai",
    backend_kwargs=backend,
    environment="local",
    max_depth=order["depth"],
    max_iterations=order["rounds"],
).completion("\n".join(order["texts"]), root_prompt=order["question"])
usage = result.usage_summary.to_dict()["model_usage_summaries"].values()
print(
    json.dumps(
        {
            "answer": str(result.response),
            "input_tokens": sum(one["total_input_tokens"] for one in usage),
            "output_tokens": sum(one["total_output_tokens"] for one in usage),
            "calls": sum(one["total_calls"] for one in usage),
        }
    )
)
