"""Templates of the cells for the root's five phases. They decide in Python over the handle."""

from __future__ import annotations

__all__ = ["CONVERGE", "LOAD", "LOAD_ONLY", "NOT_THERE", "ORIENT", "RECURSE", "SPREAD", "STOPPED", "WINDOWS"]

LOAD = """
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

ORIENT = """
# Orient: find the places that hold the rarest words, and what is defined under such a name.
weights = {{term: math.log(1 + meta.chars / (1 + 40 * frequency[term])) for term in present}}
rare = sorted(present, key=lambda term: frequency[term])[:6]
sharp = [term for term in {peculiar} if frequency[term]]

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
for term in [*sharp, *(term for term in rare if term not in sharp)]:
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

WINDOWS = """
# Compute: windows around those places, weighed by how many of the words stand in them together. Where no
# peculiar word points at them, the passages that rank best, unless a large input has a window that fits.
windows = []
for start, end, bonus in sorted(places):
    left, right = max(0, start - 300), min(meta.chars, end + 700)
    if windows and left < windows[-1][1] and right - windows[-1][0] < 4_000:
        windows[-1] = (windows[-1][0], right, max(windows[-1][2], bonus))
    else:
        windows.append((left, right, bonus))
weighed = sorted(
    ((fit(peek(left, right)) + bonus, left, right) for left, right, bonus in windows[:4_000]),
    key=lambda window: (-window[0], window[1]),
)
best = [window[1:] for window in weighed[:12] if window[0] >= 0.5 * weighed[0][0]]
pointed = bool(sharp) or (
    meta.chars > {large} and weighed and weighed[0][0] >= 0.7 * sum(weights.values())
)
if not pointed:
    try:
        best = [(pack.start, pack.end) for pack in rank({ranked}, k=40)] or best
    except ValueError as error:
        print("without ranking:", error)
kept, room = [], {most_bytes}
for left, right in best:
    room -= len(peek(left, right).encode())
    if kept and room < 0:
        break
    if all(right <= begin or left >= end for begin, end in kept):
        kept.append((left, right))
print({{"windows": len(windows), "pointed": pointed, "kept": kept[:8]}})
"""

SPREAD = """
# Compute: the whole is asked for: pieces from everywhere, all of it where that is little.
pieces = chunk(max_chars={piece}, by="lines")
step = max(1.0, len(pieces) / {most_pieces})
picked = [pieces[int(number * step)] for number in range(min(len(pieces), {most_pieces}))]
present, rare, named = [], [], set()
kept = [(piece.start, piece.end) for piece in picked]
if sum(len(piece.text.encode()) for piece in picked) > {most_bytes}:
    try:
        findings = sub_query_batch(question, picked)
    except ValueError as error:
        findings = [piece.text[:500] for piece in picked]
        print("without children:", error)
    kept = []
    for piece, finding in zip(picked, findings):
        share, text = {most_bytes} // len(picked), piece.text
        for line in finding.splitlines() if getattr(finding, "found", True) else []:
            found = re.search(r"\\s+".join(map(re.escape, line.split())), text) if line.split() else None
            share -= len(line.encode())
            if found and share >= 0:
                kept.append((piece.start + found.start(), piece.start + found.end()))
    kept.sort()
print({{"pieces": len(pieces), "looked at": len(picked), "kept": kept[:8]}})
"""

RECURSE = """
# Recurse: a child reads the windows, best first, and returns the extracts that fit.
def document_of(window):
    return section_at(window[1] - 1).document

try:
    # Windows of a document that bears the name asked for speak for themselves.
    own = [window for window in kept if document_of(window) in named] if named else []
    finding = sub_query(question, own or kept)
    lines = finding.splitlines() if finding.found else []
except ValueError as error:
    # No calls are left: the line of a window that holds most of the words stands in for a child's choice.
    def holds(line):
        return sum(term.casefold() in line.casefold() for term in present), len(line)

    lines = [
        " ".join(max(peek(left, right).splitlines(), key=holds)[:500].split())
        for left, right in kept[:3]
    ]
    print("without children:", error)
print(len(lines), [line[:100] for line in lines])
"""

CONVERGE = """
# Converge: the extracts, each with the place it stands at.
chosen = []
for line in lines:
    pattern = r"\\s+".join(map(re.escape, line.split()))
    for left, right in kept if pattern else []:
        found = re.search(pattern, peek(left, right))
        if found:
            span = (left + found.start(), left + found.end())
            if span not in [span for span, _ in chosen]:
                chosen.append((span, line))
            break
dated = []
if {when}:
    # When something was said often stands above it, once for many lines.
    date = r"(?i)^.*(?:\\b(?:1[89]|20)\\d\\d\\b|\\b\\d{{1,2}}[./-]\\d{{1,2}}[./-]\\d{{2,4}}\\b).*$"
    for (start, end), _ in chosen[:4]:
        above = peek(max(0, start - 20_000), start)
        found = list(re.finditer(date, above, re.MULTILINE))
        if found and len(found[-1][0]) <= 200:
            span = (above.span[0] + found[-1].start(), above.span[0] + found[-1].end())
            if span not in [span for span, _ in dated]:
                dated.append((span, found[-1][0].strip()))
cited = chosen + [entry for entry in dated if entry[0] not in [span for span, _ in chosen]]

def mark(number):
    return "[" + str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) + "]"

def plain(line):
    # Numbers that the text itself has in brackets point at none of our evidence.
    return re.sub(r"(?<![\\w)])\\[([\\d⁰¹²³⁴-⁹][\\d⁰¹²³⁴-⁹,; ]*)\\](?![(:])", r"(\\1)", line)

if chosen:
    # Paragraphs: quotation marks of one extract must not pair with those of the next.
    text = "\\n\\n".join(f"{{plain(line)}} {{mark(number)}}" for number, (_, line) in enumerate(cited, 1))
    sure = rare and all(term.casefold() in chosen[0][1].casefold() for term in rare[:2])
    finalize(
        {extracts} + text,
        confidence="medium" if sure else "low",
        evidence=[span for span, _ in cited],
    )
else:
    finalize({not_found}, confidence="low")
"""

NOT_THERE = """
# Converge: the whole input was searched, and there is nothing to read.
finalize({not_found}, confidence="low")
"""

STOPPED = """
# A limit ended the run before there was anything to answer with: no answer is better than a wrong one.
print("stopped before the words of the question could be looked up and read")
"""

LOAD_ONLY = """
# Load: the question holds no word that could be looked for.
print(context_meta().chars)
finalize({not_found}, confidence="low")
"""
