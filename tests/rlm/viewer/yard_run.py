"""A run with most of what a page can show: contracts of yards, asked about their cranes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlm import RLM, Limits, RunResult, Settings
from rlm.errors import ModelUnavailable
from rlm.models.base import Reply, Request, TokenUsage
from rlm.testing import ScriptedModel
from tests.rlm.answers.support.planted import claims_in, is_planted

__all__ = ["QUESTION", "ask_yards", "contracts", "yard_model"]

QUESTION = (
    "Which yard rents out the largest crane, what does it cost a month, and how long is the notice? "
    "List every yard whose notice differs from the standard contract."
)
YARDS = ("Northern", "Southern", "Eastern", "Western", "Harbour", "Airport")
_BLOCKS = (
    "I will look at what there is before I write code.",
    """about = context_meta()
print(about.chars, "characters in", about.documents, "documents")
for hit in search(r"lifts \\d+ t", max_hits=12):
    print(hit.document, hit.line_text)""",
    """# A child for each part reads the terms. The parts are cut at paragraphs.
parts = chunk(max_chars=1_800)
terms = sub_query_batch(
    "What can the crane lift, what does it cost a month, and how long is the notice?", parts
)
print(len(parts), "parts;", terms.failed, "failed")
for part, said in list(zip(parts, terms))[:8]:
    print(part.document, "|", str(said)[:80])""",
    """largest = max(terms, key=lambda said: int(re.search(r"(\\d+) t", str(said))[1]))
print(largest)""",
    """import re
lifts = {n: int(found[1]) for n, said in enumerate(terms) if (found := re.search(r"(\\d+) t at", str(said)))}
top = sorted(lifts, key=lifts.get, reverse=True)[:3]
for n in top:
    print(lifts[n], "t", parts[n].document, parts[n].start)
harbour = parts[top[0]]
changed = sub_rlm("Is the notice of the Harbour yard changed by an amendment?", harbour)
print(changed)""",
)
_INNER = (
    'for hit in search("(?i)notice"):\n    print(around(hit, by="sentence"))\n'
    'print(sub_query("Is the notice changed?", (0, 900)))',
    'finalize("No amendment changes the notice.", confidence="medium")',
)
_LAST = """finalize(
    "The Harbour yard rents out the largest crane, of 160 t [1]. It costs 21,400 euros a month [2]. "
    "Its notice is six months [3]. Visitors fly there by helicopter, free of charge, on Mondays [4].",
    confidence="high",
    evidence=[
        "the crane of the Harbour yard lifts 160 t",
        "The rent of the crane is 21,400 euros a month",
        "The notice of the Harbour yard is six months",
        "The notice of the Airport yard is three months",
    ],
)"""


def contracts() -> dict[str, str]:
    """Return the documents: names and texts."""
    found = {}
    for number, yard in enumerate(YARDS):
        lift, rent = 40 + number * 30 if yard != "Airport" else 90, 9_000 + number * 3_100
        notice = "six months" if yard == "Harbour" else "three months"
        clauses = [
            f"{clause}. The parties of the {yard} yard keep the ways to the ramp free, clear snow before six "
            f"in the morning, and report any damage to section {clause} within {clause + 2} days."
            for clause in range(5, 32)
        ]
        found[f"contracts/{yard.lower()}-yard.md"] = "\n\n".join(
            [
                f"# Contract of the {yard} yard",
                f"1. By this contract the crane of the {yard} yard lifts {lift} t at a reach of 20 m.",
                f"2. The rent of the crane is {rent:,} euros a month, due on the third working day.",
                f"3. The notice of the {yard} yard is {notice}, in writing.",
                "4. The operator keeps the log of each lift for five years.",
                *clauses,
            ]
        )
    return found


def yard_model(seconds: float = 0.05) -> ScriptedModel:
    """Return a model that answers about the contracts, each call after `seconds` or so."""
    asked = {"root": 0}

    def root(request: Request) -> Any:
        is_inner = request.task.startswith("Is the notice")
        if is_inner:
            text = _fenced(_INNER[min(len(_INNER) - 1, request.round - 1)])
        else:
            number = asked["root"]
            asked["root"] += 1
            script = (*_BLOCKS, _LAST)
            text = script[0] if number == 0 else _fenced(script[min(number, len(script) - 1)])
        return _late(Reply(text, usage=TokenUsage(4_200 + 900 * request.round, 160, 3_000)), 4 * seconds)

    def child(request: Request) -> Any:
        text = "".join(piece.text for piece in request.slices)
        if "section 21 within" in text and "Eastern" in text:
            raise ModelUnavailable("the provider answered 503 three times")
        first = text.partition("t at a reach")[0][-60:].replace("\n", " ")
        said = f"{first.strip()} t at a reach of 20 m." if "t at a reach" in text else "NOT_FOUND"
        return _late(Reply(said, usage=TokenUsage(620, 40)), seconds * (1 + len(text) % 7 / 3))

    def check(request: Request) -> str:
        prompt = request.messages[-1].content
        wrong = [n for n, claim in claims_in(prompt) if "Visitors" in claim or is_planted(claim, prompt)]
        return json.dumps({"unsupported": [{"claim": n, "reason": "no passage says so"} for n in wrong]})

    return ScriptedModel.of(root=root, child=child, check=check)


async def ask_yards(
    folder: Path,
    settings: Settings,
    *,
    model: ScriptedModel | None = None,
    question: str = QUESTION,
    **options: Any,
) -> RunResult:
    """Write the contracts below `folder`, ask about them, and return the result."""
    for name, text in contracts().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    rlm = RLM(
        model or yard_model(),
        limits=Limits(depth=2),
        settings=replace(settings, check_support=True),
        **options,
    )
    try:
        return await rlm.run(question, folder)
    finally:
        await rlm.aclose()


def _fenced(code: str) -> str:
    return f"```repl\n{code}\n```"


async def _late(reply: Reply, seconds: float) -> Reply:
    await asyncio.sleep(seconds)
    return reply
