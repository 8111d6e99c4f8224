"""The root's policy of `extractive`: one real cell a round, through the five phases."""

from __future__ import annotations

from rlm.errors import ModelRejected
from rlm.models.base import Request
from rlm.models.offline.extractive.question import read_question
from rlm.models.offline.extractive.reader import ENOUGH, LONGEST, OWN_MARK
from rlm.models.offline.extractive.texts import EXTRACTS, NEAREST, NO_WORDS, NOTHING

__all__ = ["PHASES", "next_block"]

_LARGE = 20_000_000
"""Characters of an input that is not ranked, because that builds an index, if the places of its rare words
hold the question's words."""
_MAX_BYTES = 40_000
"""Bytes that the child reads. They fit its prompt in any script."""

# The first comment of each cell is shown as the headline of its round.
PHASES = (
    """
# Load: measure the input.
import bisect, math, re
meta = context_meta()
listed = documents()
starts = [entry.start for entry in listed]
question, words, ranked = {question}, {words}, {ranked}
print({{"chars": meta.chars, "lines": meta.lines, "documents": meta.documents}})
if not words:
    finalize({no_words})
""",
    """
# Orient: find where the words of the question stand, and which of them are rare.
places, frequency = {{}}, {{}}
for word, pattern, _ in words:
    hits = search(pattern, max_hits=1_000, context=0)
    places[word] = [] if hits.truncated else [(hit.start, hit.end) for hit in hits]
    # A common word is not counted to the end: its first places tell how common it is.
    frequency[word] = len(hits) * meta.chars // max(1, hits[-1].end) if hits.truncated else len(hits)
weights = {{
    word: factor * math.log(2 + meta.chars / 1_000 / (1 + frequency[word])) for word, _, factor in words
}}
enough = {enough} * sum(weights.values())
defines = r"^[ \\t]*(?:async )?(?:def|class|function|fn|func) +(?:" + "|".join({defined}) + r")\\b"
definitions = [hit.start for hit in search(defines, max_hits=100, context=0)] if {defined} else []
print(frequency)
""",
    """
# Compute: choose the windows that hold most of these words.
def document_at(at):
    return listed[max(0, bisect.bisect_right(starts, at) - 1)]

def weigh(text):
    return sum(weights[word] for word, pattern, _ in words if re.search(pattern, text))

def window(start, end):
    # Whole lines, where they are not too long.
    document = document_at(start)
    left, right = max(document.start, start - 400), min(document.end, end + 600)
    text = peek(left, right)
    ends = text.rfind("\\n", end - left) if right < document.end else -1
    begins = text.find("\\n", 0, start - left) + 1 if left > document.start else 0
    return left + begins, right if ends < 0 else left + ends

windows = []
for start, end in sorted(place for found in places.values() for place in found):
    left, right = window(start, end)
    if windows and left < windows[-1][1] and right - windows[-1][0] < 3_000:
        windows[-1][1] = right
    else:
        windows.append([left, right])
weighed = sorted((-weigh(peek(left, right)), left, right) for left, right in windows)
best = [(left, right) for weight, left, right in weighed[:12] if weight <= 0.5 * weighed[0][0]]
is_clear = bool(weighed) and -weighed[0][0] >= 1.5 * enough
if not is_clear or meta.chars <= {large}:
    # Ranking builds an index of the input.
    packs = [(pack.start, pack.end) for pack in rank(ranked, k=40)]
    best = best[:6] + packs if is_clear else packs + best
# A definition in a document of that name comes first.
named = [window(at, at) for at in definitions if weigh(document_at(at).name) > 0]
best = named[:3] + best
kept, room = [], {most_bytes}
for left, right in best:
    room -= len(peek(left, right).encode())
    if room < 0 and kept:
        break
    if all(right <= begin or left >= end for begin, end in kept):
        kept.append((left, right))
print(len(windows), "windows around rare words;", len(kept), "are read:", kept[:8])
""",
    """
# Recurse: let a child read the windows and return the best sentences.
try:
    finding = sub_query(question, kept) if kept else ""
    extracts = finding.split("\\n\\n") if kept and finding.found else []
except ValueError as error:
    extracts = []
    print("without children:", error)
print(len(extracts), [extract[:100] for extract in extracts])
""",
    """
# Converge: submit the extracts, each with its place in the input.
def locate(extract):
    pattern = r"\\s+".join(map(re.escape, extract.strip("`").split()))
    for left, right in kept if pattern else []:
        found = re.search(pattern, peek(left, right))
        if found:
            return left + found.start(), left + found.end()

def passage(span):
    document = document_at(span[0])
    left, right = max(document.start, span[0] - {longest}), min(document.end, span[1] + {longest})
    return f"{{document.name}}\\n{{peek(left, right)}}"

chosen = [(extract, locate(extract)) for extract in extracts]
if not any(span for _, span in chosen):
    # No calls were left, or a model that plays the child wrote nothing that is in the text.
    lines = [max(peek(*window).splitlines(), key=weigh, default="") for window in kept[:3]]
    lines = [line.strip()[:{longest}] for line in lines]
    chosen = [(line, locate(line)) for line in lines]
chosen = [(extract, span) for extract, span in chosen if span]
is_found = any(weigh(passage(span)) >= enough for _, span in chosen)

def shown(number, extract):
    mark = "[" + str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) + "]"
    # Marks of the text itself must not look like ours.
    extract = re.sub({own_mark}, r"(\\1)", extract)
    return f"Code: {{mark}}\\n{{extract}}" if extract.startswith("```") else f"{{extract}} {{mark}}"

if chosen:
    text = "\\n\\n".join(shown(number, extract) for number, (extract, _) in enumerate(chosen, 1))
    finalize(
        ({extracts} if is_found else {nearest}) + "\\n" + text,
        confidence="low" if is_found else None,
        evidence=[span for _, span in chosen],
    )
else:
    finalize({nothing})
""",
)

_COUNT = """
# Compute: count the lines, over the whole input.
total = count({pattern})
first = search({pattern}, max_hits=3, context=0)
print(total)
marks = "".join(["[¹]", "[²]", "[³]"][: len(first)])
lines = "1 line matches" if total == 1 else f"{{total:,}} lines match"
finalize(" ".join(filter(None, (lines, {text}, marks))), evidence=list(first))
"""

_RESCUE = """
# Rescue: the last cell failed or took too long, so show where the words of the question stand first.
print("rescue")
found = []
for word, pattern, _ in {words}:
    if len(found) < 3:
        found += search(pattern, max_hits=1, context={longest} // 3)
lines = [" ".join(hit.snippet.split()) + mark for hit, mark in zip(found, (" [¹]", " [²]", " [³]"))]
if lines:
    finalize({nearest} + "\\n" + "\\n\\n".join(lines), evidence=[hit.snippet.span for hit in found])
else:
    finalize({nothing})
"""

_STOPPED = """
# Stop: a limit ended the run before anything was read, and no answer is better than a wrong one.
print("stopped before the words of the question were searched and read")
"""


def next_block(request: Request) -> str:
    """Return the reply of this round, one repl block. After a cell that failed, that is a shorter search.
    Raises ModelRejected when that failed, too."""
    question = read_question(request.task)
    cell = request.last_cell
    if cell is not None and cell.stdout.startswith("rescue"):
        raise ModelRejected(
            f"extractive cannot continue: its blocks of the last two rounds failed "
            f"({cell.ename}: {cell.evalue}); ask again, or use a model"
        )
    words = [(word.text, word.pattern, word.factor) for word in question.words]
    if cell is not None and cell.status != "ok" and not request.final:
        template = _RESCUE
    elif question.counted and request.round == 2:
        template = _COUNT
    elif request.round > len(PHASES) or (request.final and request.round < len(PHASES)):
        template = _STOPPED
    else:
        template = PHASES[request.round - 1]
    block = template.format(
        question=repr(request.task),
        words=repr(words),
        ranked=repr(question.ranked),
        no_words=repr(NO_WORDS),
        enough=ENOUGH,
        large=_LARGE,
        most_bytes=_MAX_BYTES,
        longest=LONGEST,
        own_mark=repr(OWN_MARK),
        extracts=repr(EXTRACTS),
        nearest=repr(NEAREST),
        nothing=repr(NOTHING),
        defined=repr(list(question.defined)),
        pattern=repr(question.counted),
        text=repr(question.counted_text),
    )
    return f"```repl\n{block.strip()}\n```"
