"""Other libraries as arms: each answers in an environment and a process of its own.

A peer runs model-written code in that process without isolation. It gets the question and the texts alone,
and of the environment the one key of the model's provider.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.item import Item
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS

__all__ = ["PEERS", "Peer", "PeerAnswer", "key_of", "make_environment", "order_of"]

_PROGRAMS = Path(__file__).with_name("programs")
_SECONDS = 3_600
_SPEAKING = frozenset(
    [
        "openai",
        "gemini",
        "openrouter",
        "mistral",
        "deepseek",
        "groq",
        "together",
        "ollama",
        "vllm",
        "llamacpp",
        "lmstudio",
    ]
)
"""Providers that speak Chat Completions, which is what the peers are told to speak."""


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a peer said, and the calls and tokens that it counted."""

    said: str
    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Peer:
    """What is installed for a peer, and the program that gives one answer of it."""

    requirement: str
    program: Path

    async def answer(self, python: Path, order: Mapping[str, Any], key: str) -> PeerAnswer:
        """Run the program with `python`. Raises RuntimeError with its last line if it gives no answer; the
        key is in no message."""
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "order.json"
            file.write_text(json.dumps(order), "utf-8")
            process = await asyncio.create_subprocess_exec(
                python,
                self.program,
                file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", ""), "HOME": scratch, "PEER_KEY": key},
                cwd=scratch,
            )
            try:
                printed, told = await asyncio.wait_for(process.communicate(), _SECONDS)
            except TimeoutError:
                raise RuntimeError(f"no answer after {_SECONDS:,} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        try:
            found = json.loads(printed.decode("utf-8", "replace").splitlines()[-1])
            said = str(found["answer"])
            counts = (int(found[name]) for name in ("calls", "input_tokens", "output_tokens"))
            return PeerAnswer(said.replace(key, "[key]") if key else said, *counts)
        except (IndexError, ValueError, KeyError, TypeError):
            last = (told.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
            raise RuntimeError((last.replace(key, "[key]") if key else last)[:500]) from None


PEERS: Mapping[str, Peer] = {
    "rlms": Peer("rlms==0.1.3", _PROGRAMS / "rlms.py"),
    "dspy": Peer("dspy==3.4.1", _PROGRAMS / "dspy_rlm.py"),
}


def order_of(item: Item, model: str, rounds: int) -> dict[str, Any]:
    """Return what a peer is told: nothing but the question, the texts, the model and the limits. Raises
    ValueError for a model that no peer can speak to."""
    name = parse_name(model)
    if name.provider not in _SPEAKING:
        raise ValueError(f"the peers speak Chat Completions only, not as {model} does")
    url = name.base_url or PROVIDERS[name.provider].base_url
    return {
        "question": item.question,
        "texts": list(item.texts),
        "model": name.model,
        "url": url if name.base_url or name.provider != "ollama" else f"{url}/v1",
        "rounds": rounds,
        "depth": 1,
    }


def key_of(model: str) -> str:
    """Return the key for the model's own provider, "" for any other server: no key leaves for a URL."""
    name = parse_name(model)
    if name.base_url is not None:
        return ""
    variables = PROVIDERS[name.provider].key_variables
    return next((os.environ[one] for one in variables if os.environ.get(one)), "")


def make_environment(name: str, folder: Path) -> Path:
    """Return the interpreter of a peer's environment, which is made if it is not there. Raises
    CalledProcessError if the package can't be installed."""
    home, wanted = folder / name, PEERS[name].requirement
    python, stamp = home / "bin" / "python", home / "requirement"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    if not python.exists():
        venv.create(home, with_pip=True)
    print(f"installing {wanted} …", file=sys.stderr)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wanted], check=True)
    stamp.write_text(wanted)
    return python
