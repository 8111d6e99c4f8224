"""A root's policy without a model: one real cell a round, through the five phases.

What it decides is decided in the cells, by Python over the handle; between rounds it only looks at whether
the last cell failed.
"""

from __future__ import annotations

import json

from rlm.errors import ModelRejected
from rlm.models.base import Request
from rlm.models.extractive.words import parts, terms

__all__ = ["next_block"]

_LOAD = """
# Load: what is the input, and which words of the question does it hold?
import math, re
meta = context_meta()
question = {question}
terms = {terms}
frequency = {{term: count("(?i)" + re.escape(term)) for term in terms}}
present = [term for term in terms if frequency[term]]
print({{"chars": meta.chars, "lines": meta.lines, "documents": meta.documents}})
print({{"counts": frequency}})
"""

_ORIENT = """
# Orient: find the places that hold the rarest words, and what is defined under such a name.
weights = {{term: math.log(1 + meta.chars / (1 + 40 * frequency[term])) for term in present}}
rare = sorted(present, key=lambda term: frequency[term])[:6]

def fit(text):
    # A word inside a longer one that fits as well must not count twice.
    low, total = text.casefold(), 0.0
    for term in sorted(present, key=len, reverse=True):
        if term.casefold() in low:
            low = low.replace(term.casefold(), " ")
            total += weights[term]
    return total

names = {names}
named = {{
    entry.name
    for entry in documents()
    if entry.name.rsplit("/", 1)[-1].rsplit(".", 1)[0].casefold() in names
}}
places = []
for term in rare:
    if frequency[term] <= 20_000 or term == rare[0]:
        for hit in search("(?i)" + re.escape(term), max_hits=400, context=0):
            places.append((hit.start, hit.end, 6.0 if hit.document in named else 0.0))
for name in {definitions}:
    defines = r"(?i)^[ \\t]*(?:async )?(?:def|class|function|fn|func) +" + re.escape(name) + r"[ \\t]*[(:<]"
    for hit in search(defines, max_hits=100, context=0):
        # Defined in a document of that name: as good as the whole name standing there.
        bonus = 14.0 + max(weights.values(), default=0.0) if hit.document in named else 8.0
        places.append((hit.start, hit.end, bonus))
print({{"rarest": rare, "places": len(places), "documents named so": sorted(named)[:5]}})
"""

_COMPUTE = """
# Compute: windows around those places, weighed by how many of the words stand in them together.
windows = []
for start, end, bonus in sorted(places):
    left, right = max(0, start - 300), min(meta.chars, end + 700)
    if windows and left < windows[-1][1] and right - windows[-1][0] < 4_000:
        windows[-1] = (windows[-1][0], right, max(windows[-1][2], bonus), windows[-1][3])
    else:
        windows.append((left, right, bonus, start))
weighed = sorted(
    ((fit(peek(left, right)) + bonus, left, right, start) for left, right, bonus, start in windows[:4_000]),
    key=lambda window: (-window[0], window[1]),
)
best = [window for window in weighed[:8] if window[0] >= 0.5 * weighed[0][0]]
print({{"windows": len(windows), "kept": [window[1:3] for window in best]}})
"""

_RECURSE = """
# Recurse: a child reads each window and returns the sentences that fit.
try:
    findings = sub_query_batch(question, [window[1:3] for window in best])
except ValueError as error:
    # No calls are left: the lines that hold the words stand in for what children would pick.
    findings = [around(window[3], lines=0).strip() for window in best]
    print("without children:", error)
print(findings)
"""

_CONVERGE = """
# Converge: the best sentences of the best windows, each with the place it stands at.
candidates = {{}}
for finding, (weight, left, right, _) in zip(findings, best):
    text = peek(left, right)
    for order, sentence in enumerate(finding.splitlines() if getattr(finding, "found", True) else []):
        at = text.find(sentence)
        if at >= 0:
            score = fit(sentence) + 1.5 * weight - order
            candidates.setdefault((left + at, left + at + len(sentence)), (score, sentence.strip()))
ranked = sorted(candidates.items(), key=lambda item: (-item[1][0], item[0]))
chosen = [item for item in ranked[:3] if item[1][0] >= 0.75 * ranked[0][1][0]]
if chosen:
    lines = [f"{{sentence}} {{mark}}" for (_, (_, sentence)), mark in zip(chosen, ["[¹]", "[²]", "[³]"])]
    finalize(
        "Extracts (no language model was asked):\\n" + "\\n".join(lines),
        confidence="medium" if all(term.casefold() in lines[0].casefold() for term in rare[:2]) else "low",
        evidence=[span for span, _ in chosen],
    )
else:
    finalize({not_found}, confidence="low")
"""

_NOT_THERE = """
# Converge: the whole input was searched, and there is nothing to read.
finalize({not_found}, confidence="low")
"""

_STOPPED = """
# A limit ended the run before there was anything to answer with: no answer is better than a wrong one.
print("stopped before the words of the question could be looked up and read")
"""

_LOAD_ONLY = """
# Load: the question holds no word that could be looked for.
print(context_meta().chars)
finalize({not_found}, confidence="low")
"""

_SEARCHED_BY = 3
"""The round in which the search of the whole input has been reported."""

_PHASES = (_LOAD, _ORIENT, _COMPUTE, _RECURSE, _CONVERGE)
_NO_WORDS = (
    "The question holds no word that could be looked for (no language model was asked: only its own words "
    "can be)."
)
_NOTHING = (
    "No passage of the input holds the words of the question (no language model was asked: only its own "
    "words were looked for)."
)


def next_block(request: Request) -> str:
    """The reply of this round: one repl block. Raises ModelRejected when a cell of its own failed."""
    words = terms(request.task)
    names = sorted({piece for word in words for piece in (word, *parts(word))})
    filled = _chosen(request, words).format(
        question=json.dumps(request.task),
        terms=json.dumps(words),
        names=json.dumps([name.casefold() for name in names]),
        definitions=json.dumps([name for name in names if name.isidentifier()]),
        not_found=json.dumps(_NOTHING if words else _NO_WORDS),
    )
    return f"```repl\n{filled.strip()}\n```"


def _chosen(request: Request, words: list[str]) -> str:
    cell = request.last_cell
    if cell is not None and cell.status != "ok" and not request.final:
        raise ModelRejected(
            f"extractive can't go on: its block of round {request.round - 1} failed "
            f"({cell.ename}: {cell.evalue}); ask again, or use a model"
        )
    if request.round > 1 and cell is not None and cell.status == "ok":
        searched = request.round >= _SEARCHED_BY
        if searched and ("'kept': []" in cell.stdout or "'places': 0" in cell.stdout):
            return _NOT_THERE
    if request.round > len(_PHASES) or (request.final and request.round < len(_PHASES)):
        return _STOPPED
    return _LOAD_ONLY if not words else _PHASES[request.round - 1]
