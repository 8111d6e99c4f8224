"""One answer of `dspy.RLM` in its local interpreter: `python dspy_rlm.py ORDER.json` prints JSON.

It gets the question and the text, and no other word of ours.
"""

import json
import os
import sys
from pathlib import Path

import dspy
from dspy.primitives.local_interpreter import LocalInterpreter

order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
server = {"api_base": order["url"]} if order["url"] else {}
model = dspy.LM(
    f"openai/{order['model']}", api_key=os.environ.get("PEER_KEY") or "none", cache=False, **server
)
dspy.configure(lm=model)
answer = dspy.RLM(
    "context, query -> answer", max_iters=order["rounds"], interpreter_factory=LocalInterpreter
)(context="\n".join(order["texts"]), query=order["question"])
usage = [one.get("usage") or {} for one in model.history]
print(
    json.dumps(
        {
            "answer": str(answer.answer),
            "input_tokens": sum(int(one.get("prompt_tokens") or 0) for one in usage),
            "output_tokens": sum(int(one.get("completion_tokens") or 0) for one in usage),
            "calls": len(usage),
        }
    )
)
