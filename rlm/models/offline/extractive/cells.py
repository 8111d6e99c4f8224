"""Templates of the cells for the root's five phases. They decide in Python over the handle.

The first comment of each cell is shown as the headline of its round.
"""

from __future__ import annotations

__all__ = [
    "CONVERGE",
    "LOAD",
    "LOAD_ONLY",
    "NOT_THERE",
    "ORIENT",
    "RECURSE",
    "RESCUE",
    "SPREAD",
    "STOPPED",
    "WINDOWS",
]

LOAD = """
# Load: measure the input and count the words of the question in it.
import math, re, time
meta = context_meta()
question = {question}
terms = {terms}
frequency, began = {{}}, time.monotonic()
for term in terms:
    pattern = "(?i)" + re.escape(term)
    if time.monotonic() - began < {counting}:
        frequency[term] = count(pattern)
    else:
        # A word that is nearly everywhere takes seconds to count. Whether a word is rare shows at once.
        frequency[term] = len(search(pattern, max_hits=1_000, context=0))
present = [term for term in terms if frequency[term]]
print({{"chars": meta.chars, "lines": meta.lines, "documents": meta.documents}})
print({{"counts": frequency}})

def holds_records():
    # Rows of a table, or lines of a log, which begin with the time.
    try:
        read_records()
        return True
    except ValueError:
        head = [line.text for _, line in zip(range(20), read_lines()) if line.text.strip()]
        began_at = re.compile(r"\\W{{0,2}}\\d{{4}}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d")
        timed = sum(began_at.match(text) is not None for text in head)
        return timed >= 3 and timed >= 0.6 * len(head)

print({{"records": holds_records()}})
"""

ORIENT = """
# Orient: find the rarest words, and definitions with these names.
weights = {{term: math.log(1 + meta.chars / (1 + 40 * frequency[term])) for term in present}}
rare = sorted(present, key=lambda term: frequency[term])[:6]
sharp = [term for term in {distinctive_terms} if frequency[term]]

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
        # A definition in a document of that name is worth as much as an occurrence of the whole name.
        bonus = 14.0 + max(weights.values(), default=0.0) if hit.document in named else 8.0
        places.append((hit.start, hit.end, bonus))
print({{"rarest": rare, "places": len(places), "documents with these names": sorted(named)[:5]}})
"""

WINDOWS = """
# Compute: choose the windows that contain most of these words.
# If no word is distinctive, use the best-ranked passages instead. Ranking builds an index, so a large input
# is ranked only if no window contains most of the words.
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
# Compute: the question is about the whole input, so take pieces from all parts of it.
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
# Recurse: let a child read the windows and return the matching extracts.
def document_of(window):
    return next((one.name for one in documents() if one.start < window[1] <= one.end), None)

def best_lines():
    # The line of each window that contains most of the words.
    def count_words(line):
        return sum(term.casefold() in line.casefold() for term in present), len(line)

    windows = [peek(left, right).splitlines() for left, right in kept[:3]]
    return [" ".join(max(window, key=count_words)[:500].split()) for window in windows if window]

try:
    # If the question names documents, only their windows are read.
    own = [window for window in kept if document_of(window) in named] if named else []
    finding = sub_query(question, own or kept)
    lines = finding.splitlines() if finding.found else []
except ValueError as error:
    lines = best_lines()  # no calls are left
    print("without children:", error)
print(len(lines), [line[:100] for line in lines])
"""

CONVERGE = """
# Converge: submit the extracts, each with its place in the input.
def locate(lines):
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
    return chosen

chosen, heading = locate(lines), {extracts}
if lines and not chosen:
    # A model that plays the child may write nothing that is in the text.
    chosen, heading = locate(best_lines()), {unquoted}
dated = []
if {when}:
    # A date is often written once above many lines, so cite the last one before each extract.
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
    # Superscript marks of the text itself must not look like citations of our evidence.
    return re.sub(r"\\[([⁰¹²³⁴-⁹][⁰¹²³⁴-⁹,; ]*)\\]", r"(\1)", line)

def times(span):
    # How often a line is there, whatever its time: repeated lines of a log differ in it.
    line = peek(*span).strip()
    line = re.sub({timestamp}, "", line, count=1)
    total = count(re.escape(line)) if "\\n" not in line and len(line) >= {repeated} else 1
    return f" ({{total:,}} times)" if total > 1 else ""

if chosen:
    # Use paragraphs, so that quotation marks of one extract do not pair with those of the next.
    text = "\\n\\n".join(
        f"{{plain(line)}} {{mark(number)}}{{times(span)}}" for number, (span, line) in enumerate(cited, 1)
    )
    finalize(
        heading + text,
        confidence="low",
        evidence=[span for span, _ in cited],
    )
else:
    finalize({not_found}, confidence="low")
"""

NOT_THERE = """
# Converge: the search of the whole input found nothing to read.
finalize({not_found}, confidence="low")
"""

RESCUE = """
# Rescue: the last cell failed or took too long, so look for the rarest words alone.
import re, time
print("rescue")
began, found = time.monotonic(), []
for term in {terms}:
    if time.monotonic() - began > {counting}:
        break
    try:
        hits = search("(?i)" + re.escape(term), max_hits=200, context=200)
    except (TimeoutError, ValueError) as error:
        print(term, error)
        continue
    found += [(len(hits), hit) for hit in hits[:3]]
best = [hit for _, hit in sorted(found, key=lambda entry: entry[0])[:3]]
if best:
    lines = [" ".join(hit.snippet.split()) for hit in best]
    marks = ["[¹]", "[²]", "[³]"]
    text = "\\n\\n".join(f"{{line}} {{mark}}" for line, mark in zip(lines, marks))
    finalize({extracts} + text, confidence="low", evidence=[hit.snippet.span for hit in best])
else:
    print("no word of the question was found in the time allowed")
"""

STOPPED = """
# Stop: a limit ended the run before anything was read, and no answer is better than a wrong one.
print("stopped before the words of the question were searched and read")
"""

LOAD_ONLY = """
# Load: the question has no words to search for.
print(context_meta().chars)
finalize({not_found}, confidence="low")
"""
