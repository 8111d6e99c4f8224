"""One run of ours: `python ours.py ORDER.json` prints when it began and ended, and the answer."""

import asyncio
import json
import sys
import time
from pathlib import Path

from rlm import RLM, Limits, Settings

order = json.loads(Path(sys.argv[1]).read_text())
text = Path(order["text"]) if order["as_file"] else Path(order["text"]).read_text()


began = time.monotonic()
models = {name: f"openai:{name}@{order['url']}/v1" for name in ("root", "child")}
settings = Settings(strategy="rlm", store=order["store"], sandbox=2)
limits = Limits(
    max_rounds=60,
    max_calls=200_000,
    max_depth=order["depth"],
    max_total_tokens=10**9,
    cell_seconds=order["cell_seconds"],
    concurrency=order["concurrency"],
)
rlm = RLM(models["root"], sub_model=models["child"], limits=limits, settings=settings)
if order["resume"]:
    result = asyncio.run(rlm.resume(order["run"]))
elif order["run"]:
    result = asyncio.run(rlm.run(order["task"], text, run_id=order["run"]))
else:
    result = rlm.run_sync(order["task"], text)
ended = time.monotonic()
print(json.dumps({"began": began, "ended": ended, "answer": result.answer}))
