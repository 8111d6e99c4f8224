"""The model `extractive`: a program that plays root and children, so that runs work without a key.

It is deterministic and offline. As root it writes real repl cells for the five phases. As a child it returns
the best verbatim sentences of its slice. Its answers are extracts and say so.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import Stemmer

from rlm.citation_markers import marker
from rlm.errors import ModelRejected
from rlm.models.base import EXTRACTIVE, ModelWindow, Reply, Request
from rlm.prompts import NOT_FOUND
from rlm.results import RunResult
from rlm.retrieval.languages import function_words
from rlm.retrieval.sentences import sentences
from rlm.retrieval.words import FUNCTION_WORDS, split_spaceless

__all__ = ["EXTRACTS", "NEAREST", "ExtractiveModel", "is_extracts", "with_status"]

EXTRACTS = "Extracts (no language model was asked):"
NEAREST = "No passage with these words. The nearest:"
_NOTHING = "No passage with these words. No language model was asked."
_NO_WORDS = "The question has no words to search for. No language model was asked."

LONGEST = 300
"""Characters of an extract. Of a longer sentence or line, the part around the words is shown."""
_ENOUGH = 0.5
"""The share of the question's words, weighed by their rarity, that a passage has to hold."""
_MOST_EXTRACTS, _MOST_WORDS, _MOST_COUNTS, _MAX_QUESTION = 5, 16, 3, 2_000
_NEAR = 0.6
"""The share of the best score that another extract needs."""
_BESIDE = 0.4
"""What a word counts that stands in the sentence before or after, or in the heading above."""
_FAR = 40
"""Sentences above which a heading is looked for."""
_NAME = 2.5
_CODE_LINES = 6
_CODE_SHARE = 0.4
_LARGE = 20_000_000
"""Characters of an input that is not ranked, because that builds an index, if the places of its rare words
hold the question's words."""
_MAX_BYTES = 40_000
"""Bytes that the child reads. They fit its prompt in any script."""

_QUOTED = re.compile('["“«„]([^"”»“„«]{2,80})["”»“]')
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_WORD = re.compile(r"\w+(?:[.\-_:/@'’]+\w+)*")
_INNER = re.compile(r"[.\-_:/@]+")
_POSSESSIVE = re.compile(r"['’]s?$")
_HEADING = re.compile(
    r"#{1,6} |={2,} |(?:From|To|Cc|Bcc|Date|Sent|Subject|Reply-To|Message-ID):\s", re.IGNORECASE
)
_CODE = re.compile(r"[;{}:]\s*$|^\s*(?:def|class|func|fn|import|return|#include)\b|^\s*[\w.]+ = ")
_TIME = re.compile(r"^\W*\d[\d:./T -]*(?:[.,]\d+)?Z?\W*")
_NUMBER = re.compile(r"[ \t]*[(\[§]?\d[\d.]*[.)\]]?[ \t]+")
_STANDS_APART = re.compile(r"[ \t]*\n[ \t]*(?:[-=~^*]{3,}[ \t]*)?(?:\n|$)")
"""What is below a heading: a blank line or a rule."""
_BLANK_LINE, _ITEM_END = re.compile(r"\s*\n[ \t]*\n"), re.compile(r"[ \t]*\n[ \t]*\S")
_LONGEST_HEADING = 80
_OWN_MARK = "\\[([⁰¹²³⁴-⁹][⁰¹²³⁴-⁹,; ]*)\\]"
"""A mark of the text itself that looks like one of ours."""


class ExtractiveModel:
    """Implements Model. Costs nothing and counts no tokens."""

    name = EXTRACTIVE
    window = ModelWindow(context=128_000, output=8_000)

    async def generate(self, request: Request) -> Reply:
        return Reply(_next_block(request) if request.role == "root" else _read(request))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def is_extracts(result: RunResult) -> bool:
    """Return whether the answer consists of passages that no language model chose."""
    return isinstance(result.answer, str) and result.answer.startswith((EXTRACTS, NEAREST))


def with_status(result: RunResult, unread: str) -> RunResult:
    """Return the result of a run without a language model. Where no passage has enough of the question's
    words, its stop reason is `nearest` and nothing was found, but nothing is denied either: an answer may
    stand in other words, or in what was not read (`unread`)."""
    answer = _NOTHING if result.stop_reason == "not_found" else result.answer
    if not isinstance(answer, str) or not answer.startswith((NEAREST, _NOTHING, _NO_WORDS)):
        return replace(result, found=answer is not None)
    answer += f"\n\n{unread.strip()}" if unread else ""
    return replace(result, answer=answer, stop_reason="nearest", confidence=None, found=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase of the question, and the pattern of its forms in the input. `factor` is above 1 for
    names and numbers: what does not have them is seldom an answer."""

    text: str
    pattern: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """`words` are to be found, the longest first; `ranked` is the query of the ranking. `counted` are texts
    whose lines are counted: those in quotes and in capitals."""

    words: tuple[Word, ...]
    ranked: str
    counted: tuple[str, ...]


@lru_cache(maxsize=64)
def read_question(question: str) -> Question:
    """Read a question in any language of the search. What follows its last question mark says how to answer,
    and is left out."""
    asked = question[:_MAX_QUESTION].strip()
    end = max(map(asked.rfind, "?？؟"))
    asked = asked[: end + 1] or asked
    words = {word.pattern: word for word in _words(asked)}
    found = sorted(words.values(), key=lambda word: -len(word.text))[:_MOST_WORDS]
    counted = dict.fromkeys((*_QUOTED.findall(asked), *_CAPITALS.findall(_QUOTED.sub(" ", asked))))
    return Question(tuple(found), asked, tuple(counted)[:_MOST_COUNTS])


def _words(question: str) -> Iterator[Word]:
    for phrase in _QUOTED.findall(question):
        yield Word(phrase, r"(?i)" + r"\s+".join(map(re.escape, phrase.split())))
    language, ignored = _language_of(question)
    is_title = sum(word[0].isupper() for word in question.split()) > len(question.split()) / 2
    stem = Stemmer.Stemmer(language).stemWord
    for word in _WORD.findall(split_spaceless(question)):
        whole = _POSSESSIVE.sub("", word)
        pieces = [piece for piece in _INNER.split(whole) if piece]
        if len(pieces) > 1:
            yield Word(whole, rf"(?i)\b{re.escape(whole)}\b")
        for piece in pieces:
            folded = piece.casefold()
            if folded not in ignored and (len(piece) > 1 or piece.isdigit()):
                is_first = question.lstrip("¿¡ ").startswith(piece)
                is_name = not (is_title or is_first or piece.islower())
                yield Word(piece, _pattern(folded, stem(folded)), _NAME if is_name else 1.0)


def _language_of(question: str) -> tuple[str, frozenset[str]]:
    """Return the language of most of the question's words of grammar, and these. Of equals English."""
    words = set(re.findall(r"[^\W\d_]+", question.casefold()))
    known = function_words()
    language = max(known, key=lambda name: (len(words & known[name]), name == "english"))
    return language, known[language] | (FUNCTION_WORDS if language == "english" else set())


def _pattern(word: str, stem: str) -> str:
    """Return the pattern of a word's forms: what it shares with its stem, and a short ending. Accents are
    ignored. A script without capitals may have no blanks either."""
    if word == word.upper() and not word.isdigit():
        return re.escape(word)
    letters = enumerate(zip(word, stem, strict=False))
    shared = next((at for at, (one, other) in letters if _base(one) != _base(other)), len(stem))
    if shared == len(stem) < len(word) and stem.endswith("i"):
        shared -= 1  # `studies`, `study`
    if shared < 3 or any(map(str.isdigit, word)):
        return rf"(?i)\b{''.join(map(_letter, word))}\b"
    return rf"(?i)\b{''.join(map(_letter, word[:shared]))}\w{{0,4}}\b"


def _base(character: str) -> str:
    """Return the letter without its accent."""
    return unicodedata.normalize("NFD", character)[0]


@cache
def _letter(character: str) -> str:
    """Return the pattern of a letter with any accent."""
    base = _base(character)
    accented = [chr(code) for code in range(0xC0, 0x250) if base.isascii() and _base(chr(code)) == base]
    return f"[{base}{''.join(accented)}]" if accented else re.escape(character)


@dataclass(frozen=True, slots=True)
class Extract:
    """A verbatim sentence, line or block of code of one of the pieces. `held` are the numbers of the words in
    it, or in the name of its document. `before` and `after` are "…" where a long one was shortened. The first
    `heading` characters are the heading above."""

    piece: int
    start: int
    end: int
    text: str
    is_code: bool
    held: frozenset[int]
    before: str = ""
    after: str = ""
    heading: int = 0

    @property
    def shown(self) -> str:
        """The text as the answer shows it: code as it stands, wrapped lines of prose joined. A heading has a
        line of its own."""
        if self.is_code:
            return f"```\n{self.text}\n```"
        heading, text = self.text[: self.heading].split(), self.text[self.heading :].split()
        shown = " ".join(filter(None, (self.before, *text, self.after)))
        return "\n".join(filter(None, (" ".join(heading), shown)))


def _read(request: Request) -> str:
    """Return the extracts, best first, with blank lines between them; NOT_FOUND if the slices hold no word of
    the question. A direct answer has marks, counts and its evidence."""
    question = read_question(request.task)
    pieces = [piece.text for piece in request.slices]
    found = extracts(question, pieces, [piece.document for piece in request.slices])
    if not found or request.role != "direct":
        return "\n\n".join(extract.shown for extract in found) or NOT_FOUND
    near = [pieces[one.piece][max(0, one.start - LONGEST) : one.end + LONGEST] for one in found]
    words, whole = question.words, "\n".join(pieces)
    is_absent = [word.factor == 1 and not re.search(word.pattern, whole) for word in words]
    weights = [word.factor / (2 if gone else 1) for word, gone in zip(words, is_absent, strict=True)]
    held = [sum(weights[n] for n, word in enumerate(words) if re.search(word.pattern, text)) for text in near]
    parts = []
    for number, one in enumerate(found, 1):
        text = re.sub(_OWN_MARK, r"(\1)", one.shown)
        parts.append(f"Code: {marker(number)}\n{text}" if one.is_code else f"{text} {marker(number)}")
    for text in question.counted:
        total = len(re.findall(_line_pattern(text), whole))
        parts.append(f"{'1 line matches' if total == 1 else f'{total:,} lines match'} {text}")
    heading = EXTRACTS if max(held) >= _ENOUGH * sum(weights) else NEAREST
    quotes = "\n".join('"' + " ".join(one.text.split()) + '"' for one in found)
    return f"{heading}\n" + "\n\n".join(parts) + f"\n\nEvidence:\n{quotes}"


def _line_pattern(text: str) -> str:
    """Return the pattern of a line that holds `text` as whole words. The rest of the line belongs to the
    match, so that it counts once."""
    left = r"\b" if text[0].isalnum() else ""
    right = r"\b" if text[-1].isalnum() else ""
    return f"{'' if text.isupper() else '(?i)'}{left}{re.escape(text)}{right}.*"


def extracts(question: Question, pieces: Sequence[str], names: Sequence[str | None] = ()) -> list[Extract]:
    """Return the sentences, lines and blocks of code that match the question best, the best first.

    A word counts by its rarity in the pieces, and less if it stands beside the sentence or in its heading.
    The name of a piece's document (`names`) belongs to each of its sentences. Earlier pieces weigh a little
    more.
    """
    units: list[Extract] = []
    for number, piece in enumerate(pieces):
        units += _units(number, piece, (names[number] if names else None) or "", question.words)
    counts = [sum(at in unit.held for unit in units) for at in range(len(question.words))]
    weights = [math.log(1 + len(units) / count) if count else 0.0 for count in counts]
    scored = sorted(
        (-_rate(at, units, weights) * (1 - 0.3 * unit.piece / len(pieces)), at)
        for at, unit in enumerate(units)
        if unit.held
    )
    found: list[Extract] = []
    seen: set[str] = set()
    for score, at in scored:
        if len(found) == _MOST_EXTRACTS or score > _NEAR * scored[0][0]:
            break
        extract = _extract(at, units, pieces, question.words)
        text = _TIME.sub("", extract.text)
        overlaps = any(
            one.piece == extract.piece and one.start < extract.end and extract.start < one.end
            for one in found
        )
        if not overlaps and text not in seen:
            seen.add(text)
            found.append(extract)
    return found


def _units(number: int, piece: str, name: str, words: Sequence[Word]) -> Iterator[Extract]:
    plain = re.sub(r"[\W_]+", " ", name)
    named = {at for at, word in enumerate(words) if re.search(word.pattern, plain)}
    filled = [(line.start(), line.end()) for line in re.finditer(r"[^\n]*\S", piece)]
    code = sum(_CODE.search(piece[start:end]) is not None for start, end in filled)
    is_code = code >= max(2, _CODE_SHARE * len(filled))
    for start, end in filled if is_code else sentences(piece):
        text = piece[start:end]
        held = frozenset(at for at, word in enumerate(words) if at in named or re.search(word.pattern, text))
        yield Extract(number, start, end, text, is_code, held)


def _rate(at: int, units: Sequence[Extract], weights: Sequence[float]) -> float:
    """Return how well the unit matches."""
    unit = units[at]
    headings = (one for one in reversed(units[max(0, at - _FAR) : at]) if _HEADING.match(one.text))
    near = [*units[max(0, at - 2) : at + 2], next(headings, unit)]
    beside = {word for one in near if one.piece == unit.piece for word in one.held} - unit.held
    score = sum(weights[word] for word in unit.held) + _BESIDE * sum(weights[word] for word in beside)
    return score * (0.5 if _HEADING.match(unit.text) else 1.0)


def _heading_start(unit: Extract, text: str) -> int | None:
    """Return where a heading begins, with its number; None for a sentence. A heading is marked, or stands
    alone between blank lines, or follows the number of its line without ending the item of a list."""
    line = text.rfind("\n", 0, unit.start) + 1
    before = text[line : unit.start]
    if unit.is_code or len(unit.text) > _LONGEST_HEADING:
        return None
    if _NUMBER.fullmatch(before):
        return None if _ITEM_END.match(text, unit.end) else unit.start - len(before.lstrip())
    is_alone = not (before + text[:line].rstrip(" \t").removesuffix("\n")[-1:]).strip()
    is_heading = unit.text[0] not in "-*•|>" and unit.text[-1] not in ".!?…:;,。！？"
    is_heading = is_heading and is_alone and _STANDS_APART.match(text, unit.end) is not None
    return unit.start if is_heading or unit.text.startswith("#") else None


def _extract(at: int, units: Sequence[Extract], pieces: Sequence[str], words: Sequence[Word]) -> Extract:
    """Return the unit, shortened around its words if it is long, code with the lines below it, and a heading
    with the passage below it."""
    unit = units[at]
    start, end, text, heading = unit.start, unit.end, pieces[unit.piece], 0
    for following in units[at + 1 : at + _CODE_LINES] if unit.is_code else ():
        # Whole lines of the same block, as many as fit.
        is_apart = following.piece != unit.piece or text.count("\n", end, following.start) > 1
        if is_apart or following.end - start > LONGEST:
            break
        end = following.end
    below = next((one for one in units[at + 1 : at + 2] if one.piece == unit.piece), None)
    begins = None if below is None else _heading_start(unit, text)
    if below is not None and begins is not None:
        paragraph = _BLANK_LINE.search(text, below.start)
        start, heading = begins, unit.end - begins
        end = len(text.rstrip()) if paragraph is None else paragraph.start()
    before = after = ""
    if end - start > LONGEST:
        places = [found.start() for n in unit.held if (found := re.search(words[n].pattern, unit.text))]
        middle = unit.start + min(places, default=0)
        low = start if heading else max(start, min(middle - LONGEST // 3, end - LONGEST))
        high = min(end, low + LONGEST)
        if low > start:
            low = text.find(" ", low, middle) + 1 or low
        if high < end:
            high = max(text.rfind(" ", middle, high), middle + 1) if " " in text[middle:high] else high
        before, after = "…" * (low > start), "…" * (high < end)
        start, end = low, high
    return replace(
        unit, start=start, end=end, text=text[start:end], before=before, after=after, heading=heading
    )


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
rarity = {{word: math.log(2 + meta.chars / 1_000 / (1 + n)) for word, n in frequency.items()}}
least = min((rarity[word] for word in rarity if frequency[word]), default=0)
# A word that stands nowhere may be one that asks (how long, wie hoch), unless it is a name.
weights = {{
    word: rarity[word] * factor if frequency[word] or factor > 1 else least / 2 for word, _, factor in words
}}
enough = {enough} * sum(weights.values())
counts = [(text, count(pattern)) for text, pattern in {counted}]
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
    before, after = peek(left, start), peek(end, right)
    left += before.find("\\n") + 1 if left > document.start else 0
    return left, right if right == document.end or "\\n" not in after else end + after.rfind("\\n")

windows = [(0, 0)]
for start, end in sorted(place for found in places.values() for place in found):
    left, right = window(start, end)
    is_joined = left < windows[-1][1] and right - windows[-1][0] < 3_000
    windows.append((windows.pop()[0] if is_joined else left, right))
weighed = sorted((-weigh(peek(left, right)), left, right) for left, right in windows[1:])
best = [(left, right) for weight, left, right in weighed[:12] if weight <= 0.5 * weighed[0][0]]
is_clear = bool(weighed) and -weighed[0][0] >= 1.5 * enough
if not is_clear or meta.chars <= {large}:
    # Ranking builds an index of the input.
    packs = [(pack.start, pack.end) for pack in rank(ranked, k=40)]
    best = best[:6] + packs if is_clear else packs + best
kept, room = [], {most_bytes}
for window in best:
    # Windows that overlap are one, so that no passage is cut where another begins.
    touched = [place for place in kept if window[0] < place[1] and window[1] > place[0]]
    joined = min([window, *touched])[0], max(right for _, right in [window, *touched])
    room -= len(peek(*joined).encode()) - sum(len(peek(*place).encode()) for place in touched)
    if room < 0 and kept:
        break
    at = kept.index(touched[0]) if touched else len(kept)
    kept = [place for place in kept if place not in touched]
    kept.insert(at, joined)
print(len(weighed), "windows around rare words;", len(kept), "are read:", kept[:8])
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

def passage(left, right):
    return f"{{document_at(left).name}}\\n{{peek(max(0, left - {longest}), right + {longest})}}"

chosen = [(extract, locate(extract.strip("… "))) for extract in extracts]
if not any(span for _, span in chosen):
    # No calls were left, or a model that plays the child wrote nothing that is in the text.
    lines = [max(peek(*window).splitlines(), key=weigh, default="") for window in kept[:3]]
    lines = [line.strip()[:{longest}] for line in lines]
    chosen = [(line, locate(line)) for line in lines]
chosen = [(extract, span) for extract, span in chosen if span]
is_found = any(weigh(passage(*span)) >= enough for _, span in chosen)

def shown(number, extract):
    mark = "[" + str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")) + "]"
    # Marks of the text itself must not look like ours.
    extract = re.sub({own_mark}, r"(\\1)", extract)
    return f"Code: {{mark}}\\n{{extract}}" if extract.startswith("```") else f"{{extract}} {{mark}}"

parts = [shown(number, extract) for number, (extract, _) in enumerate(chosen, 1)]
parts += [f"1 line matches {{t}}" if n == 1 else f"{{n:,}} lines match {{t}}" for t, n in counts]
heading = ({extracts} if is_found else {nearest}) + "\\n" if chosen else {nothing} + "\\n\\n"
text = (heading + "\\n\\n".join(parts)).strip()
finalize(text, confidence="low" if is_found else None, evidence=[span for _, span in chosen])
""",
)

_RESCUE = """
# Rescue: the last cell failed or took too long, so show where the words of the question stand first.
print("rescue")
found = []
for word, pattern, _ in {words}:
    if len(found) < 3:
        found += search(pattern, max_hits=1, context={longest} // 3)
lines = [" ".join(hit.snippet.split()) + mark for hit, mark in zip(found, (" [¹]", " [²]", " [³]"))]
text = "\\n\\n".join(lines)
finalize({nearest} + "\\n" + text if lines else {nothing}, evidence=[hit.snippet.span for hit in found])
"""


def _next_block(request: Request) -> str:
    """Return the reply of this round, one repl block. After a cell that failed, that is a shorter search.
    Raises ModelRejected when that failed, too."""
    question = read_question(request.task)
    cell = request.last_cell
    if cell is not None and cell.stdout.startswith("rescue"):
        why = f"its blocks of the last two rounds failed ({cell.ename}: {cell.evalue})"
        raise ModelRejected(f"extractive cannot continue: {why}; ask again, or use a model")
    failed = cell is not None and cell.status != "ok" and not request.final
    template = _RESCUE if failed else PHASES[min(request.round, len(PHASES)) - 1]
    block = template.format(
        question=repr(request.task),
        words=repr([(word.text, word.pattern, word.factor) for word in question.words]),
        ranked=repr(question.ranked),
        no_words=repr(_NO_WORDS),
        enough=_ENOUGH,
        large=_LARGE,
        most_bytes=_MAX_BYTES,
        longest=LONGEST,
        own_mark=repr(_OWN_MARK),
        extracts=repr(EXTRACTS),
        nearest=repr(NEAREST),
        nothing=repr(_NOTHING),
        counted=repr([(text, _line_pattern(text)) for text in question.counted]),
    )
    return f"```repl\n{block.strip()}\n```"
