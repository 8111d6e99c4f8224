"""Choose the sentences and lines of a slice that match a question: the answer of a child without a model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import permutations

from rlm.citation_markers import marker
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Request
from rlm.models.offline.extractive.question import Question, Word, read_question
from rlm.models.offline.extractive.texts import EXTRACTS, NEAREST
from rlm.prompts import NOT_FOUND
from rlm.retrieval.sentences import sentences

__all__ = ["ENOUGH", "LONGEST", "OWN_MARK", "Extract", "extracts", "read"]

LONGEST = 300
"""Characters of an extract. Of a longer sentence or line, the part around the words is shown."""
ENOUGH = 0.5
"""The share of the question's words, weighed by their rarity, that a passage has to hold."""
OWN_MARK = "\\[([⁰¹²³⁴-⁹][⁰¹²³⁴-⁹,; ]*)\\]"
"""A mark of the text itself that looks like one of ours."""
_MOST = 5
_NEAR = 0.6
"""The share of the best score that another extract needs."""
_BESIDE = 0.4
"""What a word counts that stands in the sentence before or after, or in the heading above."""
_PAIR = 0.25
"""What two words count more that stand together in the question and here."""
_FAR = 40
"""Sentences above which a heading is looked for."""
_CODE_LINES = 6
_TIME = re.compile(r"^\W*\d[\d:./T -]*(?:[.,]\d+)?Z?\W*")
_HEADING = re.compile(
    r"#{1,6} |={2,} |(?:From|To|Cc|Bcc|Date|Sent|Subject|Reply-To|Message-ID):\s", re.IGNORECASE
)
_CODE = re.compile(
    r"[;{}]\s*$|^\s*(?:(?:async )?(?:def|class|function|fn|func)\s\w|import\s|from\s\S+\simport|return\b|@\w+"
    r"|(?:if|for|while|elif|else|try|except|with)\b.*:\s*$|(?:const|let|var|public|private|static)\s"
    r"|#include|[\w.\[\]]+ *[-+*/|]?= *\S|[\w.]+\(.*\)\s*$)"
)
_CODE_SHARE = 0.4
_CODE_NAME = re.compile(r"\.(?:py|[jt]sx?|[ch]|cc|[ch]pp|go|rs|java|kt|rb|php|sh|pl|swift|cs|scala|lua|sql)$")
_DEFINES = re.compile(r"\s*(?:async )?(?:def|class|function|fn|func)\s+\w")


@dataclass(frozen=True, slots=True)
class Extract:
    """A verbatim sentence, line or block of code of one of the pieces."""

    piece: int
    start: int
    end: int
    text: str
    is_code: bool = False

    @property
    def shown(self) -> str:
        """The text as the answer shows it: code as it stands, wrapped lines of prose joined."""
        return f"```\n{self.text}\n```" if self.is_code else " ".join(self.text.split())


@dataclass(slots=True)
class _Unit:
    piece: int
    start: int
    end: int
    text: str
    is_code: bool
    is_heading: bool
    held: frozenset[int]


def read(request: Request) -> str:
    """Return the extracts, best first, with blank lines between them; NOT_FOUND if the slices hold no word of
    the question. A direct answer has marks, and its evidence."""
    question = read_question(request.task)
    pieces = [piece.text for piece in request.slices]
    found = extracts(question, pieces, [piece.document for piece in request.slices])
    if not found:
        return NOT_FOUND
    if request.role != "direct":
        return "\n\n".join(extract.shown for extract in found)
    near = [pieces[one.piece][max(0, one.start - LONGEST) : one.end + LONGEST] for one in found]
    held = max(sum(word.factor for word in question.words if re.search(word.pattern, text)) for text in near)
    whole = sum(word.factor for word in question.words)
    heading = EXTRACTS if held >= ENOUGH * whole else NEAREST
    shown = [re.sub(OWN_MARK, r"(\1)", one.shown) for one in found]
    marked = "\n\n".join(
        f"Code: {marker(number)}\n{text}" if one.is_code else f"{text} {marker(number)}"
        for number, (one, text) in enumerate(zip(found, shown, strict=True), 1)
    )
    quotes = "\n".join('"' + " ".join(one.text.split()) + '"' for one in found)
    return f"{heading}\n{marked}\n\nEvidence:\n{quotes}"


def extracts(question: Question, pieces: Sequence[str], names: Sequence[str | None] = ()) -> list[Extract]:
    """Return the sentences, lines and blocks of code that match the question best, the best first.

    A word counts by its rarity in the pieces, and less if it stands beside the sentence or in its heading.
    The name of a piece's document (`names`) belongs to each of its sentences. Words next to each other in the
    question count more where they stand so here. Earlier pieces weigh a little more.
    """
    units: list[_Unit] = []
    for number, piece in enumerate(pieces):
        name = (names[number] if names else None) or ""
        units += _units(number, piece, name, question.words)
    counts = [sum(at in unit.held for unit in units) for at in range(len(question.words))]
    weights = [math.log(1 + len(units) / count) if count else 0.0 for count in counts]
    pairs = _find_pairs(question)
    scored = sorted(
        (-_rate(at, units, weights, pairs) * (1 - 0.3 * unit.piece / len(pieces)), at)
        for at, unit in enumerate(units)
        if unit.held
    )
    found: list[Extract] = []
    seen: set[str] = set()
    for score, at in scored:
        if len(found) == _MOST or score > _NEAR * scored[0][0]:
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


def _units(number: int, piece: str, name: str, words: Sequence[Word]) -> list[_Unit]:
    plain = re.sub(r"[\W_]+", " ", name)
    named = {at for at, word in enumerate(words) if re.search(word.pattern, plain)}
    lines = piece.split("\n")
    filled = [line for line in lines if line.strip()]
    is_code = _CODE_NAME.search(name) is not None or sum(
        _CODE.search(line) is not None for line in filled
    ) >= max(2, _CODE_SHARE * len(filled))
    if is_code:
        places, at = [], 0
        for line in lines:
            if line.strip():
                places.append((at, at + len(line.rstrip())))
            at += len(line) + 1
    else:
        places = sentences(piece)
    units = []
    for start, end in places:
        text = piece[start:end]
        held = frozenset(at for at, word in enumerate(words) if at in named or re.search(word.pattern, text))
        units.append(
            _Unit(number, start, end, text, is_code, bool(_HEADING.match(text)) and not is_code, held)
        )
    return units


def _find_pairs(question: Question) -> list[tuple[int, int, re.Pattern[str]]]:
    """Return the words that stand next to each other in the question, with a pattern of the two."""
    bare = [word.pattern.removeprefix("(?i)") for word in question.words]
    pairs = []
    for one, two in permutations(range(len(bare)), 2):
        both = re.compile(rf"{bare[one]}\W{{1,3}}{bare[two]}", re.IGNORECASE)
        if both.search(question.ranked):
            pairs.append((one, two, both))
    return pairs


def _rate(
    at: int,
    units: Sequence[_Unit],
    weights: Sequence[float],
    pairs: Sequence[tuple[int, int, re.Pattern[str]]],
) -> float:
    """Return how well the unit matches."""
    unit = units[at]
    near = [units[n] for n in (at - 2, at - 1, at + 1) if 0 <= n < len(units)]
    for above in reversed(units[max(0, at - _FAR) : at]):
        if above.is_heading or above.piece != unit.piece:
            near.append(above)
            break
    beside = {word for one in near if one.piece == unit.piece for word in one.held} - unit.held
    score = sum(weights[word] for word in unit.held) + _BESIDE * sum(weights[word] for word in beside)
    for one, two, both in pairs:
        if {one, two} <= unit.held and both.search(unit.text):
            score += _PAIR * (weights[one] + weights[two])
    if _DEFINES.match(unit.text):
        score *= 1.5
    return score * (0.5 if unit.is_heading else 1.0)


def _extract(at: int, units: Sequence[_Unit], pieces: Sequence[str], words: Sequence[Word]) -> Extract:
    """Return the unit, shortened around its words if it is long, and code with the lines below it."""
    unit = units[at]
    start, end = unit.start, unit.end
    if unit.is_code:
        # Whole lines of the same block, as many as fit.
        for following in units[at + 1 : at + _CODE_LINES]:
            if (
                following.piece != unit.piece
                or pieces[unit.piece].count("\n", end, following.start) > 1
                or following.end - start > LONGEST
            ):
                break
            end = following.end
    if end - start > LONGEST:
        places = [
            found.start()
            for word in sorted(unit.held)
            if (found := re.search(words[word].pattern, unit.text))
        ]
        middle = start + min(places, default=0)
        low = max(start, min(middle - LONGEST // 3, end - LONGEST))
        high = min(end, low + LONGEST)
        text = pieces[unit.piece]
        if low > start:
            low = text.find(" ", low, middle) + 1 or low
        if high < end:
            high = max(text.rfind(" ", middle, high), middle + 1) if " " in text[middle:high] else high
        start, end = low, high
    return Extract(unit.piece, start, end, pieces[unit.piece][start:end], unit.is_code)
