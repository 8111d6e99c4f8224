"""Makes one run of one size: `python -m benchmarks.scale.point ORDER.json` prints its figures."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.gigabyte.memory import MemoryWatch
from rlm import RLM, Limits, Settings

__all__ = ["main"]


def main() -> None:
    """Make the run, and print its seconds and the memory that it took."""
    order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    models = {name: f"openai:{name}@{order['url']}/v1" for name in ("root", "child")}
    limits = Limits(
        max_calls=200_000,
        max_total_tokens=10**11,
        max_cost=10**6,
        max_seconds=3_600,
        cell_seconds=3_600,
        concurrency=64,
    )
    settings = Settings(strategy="rlm", store=order["store"], sandbox=2)
    rlm = RLM(models["root"], sub_model=models["child"], limits=limits, settings=settings)
    with MemoryWatch() as watch:
        began = time.monotonic()
        result = rlm.run_sync(order["task"], Path(order["text"]))
        seconds = time.monotonic() - began
    if result.answer is None:
        sys.exit(f"no answer: {result.stop_reason}")
    megabytes = watch.driver_growth + watch.together
    print(json.dumps({"seconds": seconds, "megabytes": megabytes, "calls": result.sub_calls}))


if __name__ == "__main__":
    main()
