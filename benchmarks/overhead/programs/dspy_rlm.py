"""One run of `dspy.RLM`: `python dspy_rlm.py ORDER.json` prints when it began. The arm dspy-deno
runs cells in Deno and Pyodide, the other in its local interpreter, which is no sandbox."""

import json
import sys
import time
from pathlib import Path

import dspy
from dspy.primitives.local_interpreter import LocalInterpreter
from dspy.primitives.python_interpreter import PythonInterpreter


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()

    def model(name: str) -> dspy.LM:
        return dspy.LM(f"openai/{name}", api_base=f"{order['url']}/v1", api_key="key", cache=False)

    began = time.monotonic()
    dspy.configure(lm=model("root"))
    rlm = dspy.RLM(
        "context, query -> answer",
        max_iters=60,
        max_llm_calls=5_000,
        sub_lm=model("child"),
        interpreter_factory=PythonInterpreter if order["arm"] == "dspy-deno" else LocalInterpreter,
    )
    result = rlm(context=text, query=order["task"])
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": result.answer}))


if __name__ == "__main__":
    main()
