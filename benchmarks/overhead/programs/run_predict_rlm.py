"""One run of predict-rlm in Deno: `python run_predict_rlm.py ORDER.json` prints when it began and ended."""

import json
import sys
import time
from pathlib import Path

import dspy
from predict_rlm import PredictRLM
from predict_rlm.backends.jspi.backend import JspiBackend


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    text = Path(order["text"]).read_text()

    def model(name: str) -> dspy.LM:
        return dspy.LM(f"openai/{name}", api_base=f"{order['url']}/v1", api_key="key", cache=False)

    began = time.monotonic()
    # Without packages that it would fetch from a network at each start.
    interpreter = JspiBackend(preinstall_packages=False, exec_timeout=order["cell_seconds"])
    rlm = PredictRLM(
        "context, query -> answer",
        lm=model("root"),
        sub_lm=model("child"),
        max_iterations=60,
        max_llm_calls=5_000,
        verbose=False,
        interpreter=interpreter,
    )
    result = rlm(context=text, query=order["task"])
    ended = time.monotonic()
    print(json.dumps({"began": began, "ended": ended, "answer": result.answer}))


if __name__ == "__main__":
    main()
