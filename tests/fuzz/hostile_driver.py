"""A driver that answers one hostile run after another. Run as a program by the fuzz test.

Usage: hostile_driver.py FOLDER TEXT MODEL ACKNOWLEDGE, where ACKNOWLEDGE is a descriptor to which the event
loop writes a byte for each SIGUSR1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

LIMITS = {"seconds": 6.0, "cell_seconds": 2.0, "sub_calls": 200, "rounds": 6}


async def runs(folder: Path, text: Path, model: str) -> None:
    from rlm import RLM, Limits, Settings
    from rlm.errors import RLMError
    from rlm.sandbox.errors import SandboxError

    while True:
        settings = Settings(strategy="rlm", sandbox="auto", store=folder / "rlm.db")
        rlm = RLM(model, limits=Limits(**LIMITS), settings=settings)
        try:
            result = await rlm.run("What colour is the grass?", text)
            print("run", result.stop_reason, f"{result.seconds:.1f}", result.sub_calls, flush=True)
        except (RLMError, SandboxError) as error:
            print("run", type(error).__name__, str(error)[:200], flush=True)
        finally:
            await rlm.aclose()
        for file in folder.glob("rlm.db*"):
            file.unlink()


async def honest_run(folder: Path, text: Path) -> None:
    """Import all that a run needs."""
    from rlm import RLM, Settings

    rlm = RLM("extractive", settings=Settings(strategy="rlm", store=folder / "rlm.db"))
    try:
        await rlm.run("What colour is the grass?", text)
    finally:
        await rlm.aclose()


def main() -> None:
    folder, text, model, acknowledge = sys.argv[1:]
    from rlm.cli.console.interrupts import run_interruptible
    from rlm.models.http.sessions import import_http

    import_http()

    async def watched() -> None:
        loop = asyncio.get_running_loop()

        def answer(*_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(os.write, int(acknowledge), b".")

        # Importing keeps Python's lock for seconds on a busy machine, and is nothing hostile.
        await honest_run(Path(folder), Path(text))
        signal.signal(signal.SIGUSR1, answer)
        print("ready", flush=True)
        await runs(Path(folder), Path(text), model)

    try:
        run_interruptible(watched())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
