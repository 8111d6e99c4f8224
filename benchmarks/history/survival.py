"""Measure how many facts of 500-message chats survive in 8,000 tokens: extractive summary or latest
messages.

    python benchmarks/history/survival.py [--tokens 8000] [--chats 5] [--styles seen|unseen] [--messages 500]
        [--talk FILE | --busy] [--json OUT]

Prints the share of planted facts that survive, by kind, for both methods in one run. `--talk` takes a text
file (or .xz) of real talk; its sentences are used between the facts. `--styles` takes facts in many styles
and languages.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from chats import Chat, chat, survives
from styles import styled_chat

from rlm.prompts import get_counter
from rlm.prompts.history import Message, compact_history
from rlm.prompts.history.message import render
from rlm.prompts.history.sentences import pieces


def latest(messages: Sequence[Message], tokens: int) -> str:
    """Return the most recent messages that fit, as if the chat were cut off."""
    count = get_counter().count
    kept: list[str] = []
    for message in reversed(messages):
        text = render(message)
        tokens -= count(f"\n\n{text}")
        if tokens < 0:
            break
        kept.append(text)
    return "\n\n".join(reversed(kept))


def sentences(path: str) -> list[str]:
    data = Path(path).read_bytes()
    text = (lzma.decompress(data) if path.endswith(".xz") else data).decode("utf-8")
    return [piece for piece in pieces(text) if 20 <= len(piece) <= 300]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=8_000)
    parser.add_argument("--chats", type=int, default=5)
    parser.add_argument("--talk", help="a text file of real talk")
    parser.add_argument("--styles", choices=("seen", "unseen"), help="facts said in many styles")
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--busy", action="store_true", help="talk full of figures, names and paths")
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    talk = sentences(options.talk) if options.talk else ()
    if options.styles:
        made = partial(styled_chat, phrasings=options.styles, facts=options.messages * 70 // 500)
    else:
        made = partial(chat, busy=options.busy, facts=options.messages * 80 // 500)
    chats = [made(seed, messages=options.messages, talk=talk) for seed in range(options.chats)]
    rows = figures(chats, options.tokens)
    size = sum(get_counter().count(render(message)) for one in chats for message in one.messages) // len(
        chats
    )
    print(f"{len(chats)} chats of {len(chats[0].messages)} messages, {size:,} tokens each")
    print(f"{'':16}{'summary':>10}{'latest':>10}{'ratio':>8}")
    for name, (summary, recent) in rows.items():
        if name != "seconds":
            print(f"{name:16}{summary:>10.1%}{recent:>10.1%}{summary / recent if recent else 0:>8.1f}")
    print(f"{rows['seconds'][0]:.2f} s of computing a chat")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2), encoding="utf-8")


def figures(chats: Sequence[Chat], tokens: int) -> dict[str, tuple[float, float]]:
    """Return by kind of fact: the share kept by the summary, and the share kept by the latest messages."""
    facts: dict[str, list[tuple[bool, bool]]] = {}
    began = time.process_time()
    summaries = [compact_history(one.messages, budget=tokens).text for one in chats]
    seconds = (time.process_time() - began) / len(chats)
    for one, text in zip(chats, summaries, strict=True):
        recent = latest(one.messages, tokens)
        for fact in one.facts:
            outcome = (survives(fact, text), survives(fact, recent))
            for name in ("all", fact.kind, f"({fact.manner})"):
                facts.setdefault(name, []).append(outcome)
    rows = {
        name: (sum(a for a, _ in outcomes) / len(outcomes), sum(b for _, b in outcomes) / len(outcomes))
        for name, outcomes in sorted(facts.items())
    }
    return {**rows, "seconds": (seconds, 0.0)}


if __name__ == "__main__":
    main()
