"""Review a model's plan without a model: what is asked twice, continues a chain, or is guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace

from rlm.lazy_dataclass import dataclass
from rlm.retrieval.words import FUNCTION_WORDS, Tokens
from rlm.tasks.reports.questions import Plan, Question, from_task, leans_back, renumber

__all__ = [
    "Review",
    "asks_for_form",
    "find_guesses",
    "is_look_up",
    "own_plan",
    "review_plan",
    "strip_guesses",
]

_ALIKE = 0.85
"""The share of all words of two questions that both must have to be the same."""
_ASKING = frozenset(["how", "long", "many", "much", "when", "where", "who", "whom", "whose", "why"])
"""Function words that say what is asked for: `who built it` and `when was it built` are two questions."""
_REQUEST = frozenset(["answer", "find", "following", "question", "questions", "research", "these"])
"""What may stand before the questions of a task and adds nothing to them."""
_ALIKE_BEGINNING = 4
_WORD = re.compile(r"[^\W\d_][\w'’-]*|\d[\d.,:/-]*\d|\d")
_REFERENCE_NUMBER = re.compile(r"\b(?:found under|question|number|no\.?) \d[\d.]*", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|[.?!:]\s+|[\"“‘(]\s*)$")
_ASIDE = re.compile(
    r"\s*[(\[][^()\[\]]*[)\]]"
    r"|,?\s*[—–-]?\s*\b(?:e\.\s?g\.|i\.\s?e\.|(?:for (?:instance|example)|such as|like|namely|possibly|"
    r"probably|presumably|perhaps|maybe|likely)\b)[^,;?!()]*,?",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"\w (?:that|which|who|whom|whose|where)\b")
_STATEMENT = re.compile(r"[.!:;]\s+\S")
_LOOK_UP = re.compile(
    r"^(?:\w+,\s+)?(?:(?:in|on|at|to|from|by|for|under|with|of) )?(?:who|whom|whose|when|where|which|what|"
    r"how (?:old|long|far|high|tall|large|big|deep|heavy|fast|wide|much))\b",
    re.IGNORECASE,
)
_NO_LOOK_UP = re.compile(
    r"\b(?:all|any|average|between|both|change[ds]?|compare[ds]?|count|current(?:ly)?|difference|differ|each|"
    r"earliest|every|fewest|final(?:ly)?|first|highest|how many|how often|largest|last|latest|least|list|"
    r"longest|lowest|main|most|never|newest|now|number of|oldest|opinions?|overall|reasons?|role|several|"
    r"shortest|smallest|still|summar\w*|themes?|times|total|various|views?|why)\b"
    r"|\b(?:which|what) (?:\w+ ){0,2}\w{2,}s (?:have|had|are|were|do|did|got|can|will|name|mention)\b"
    r"|\bwhat are\b|\bwhat (?:were|do|does|did)\b.*\band\b",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\b(?:the |a |one )?(?:letter|number|word|name|date|id|figure|choice|option)s?(?: of [\w ]{1,40})? "
    r"(?:only|alone|and nothing else)\b|\bonly (?:with )?(?:the |a |one )?(?:\w+ )?"
    r"(?:letter|number|word|name|date|id|figure|choice|option)\b|\b(?:yes or no|true or false)\b",
    re.IGNORECASE,
)
_LONGEST_LOOK_UP = 300


@dataclass(frozen=True, slots=True)
class Review:
    """A plan as it is asked, and what was changed, one line each."""

    plan: Plan
    notes: tuple[str, ...] = ()


def own_plan(task: str, most: int) -> Plan | None:
    """Return the plan that the task itself is: a list of questions of which each stands alone, or one
    look-up. Return None if the task has to be planned."""
    plan = from_task(task, most)
    texts = [leaf.text for leaf in plan.leaves]
    if not all(text.rstrip("\"'”’)").endswith(("?", "？")) for text in texts):
        return None
    if any(_STATEMENT.search(text) for text in texts):  # it may be the subject of all questions
        return None
    with closing(Tokens()) as tokens:
        words, asked = (Counter(one) for one in tokens.words([task, " ".join(texts)]))
    more = {word for word in words - asked if not word.isdigit() and word not in FUNCTION_WORDS}
    if not more <= _REQUEST:  # a subject or a wish beside the questions, or questions beyond `most`
        return None
    if len(texts) == 1:
        return plan if is_look_up(texts[0]) else None
    return review_plan(plan).plan


def is_look_up(text: str) -> bool:
    """Return whether the question asks for one fact, which one or two passages can hold. A question for all
    of something, for the last or the most, or for reasons is none: it takes more than the best passages."""
    return (
        len(text) <= _LONGEST_LOOK_UP
        and _LOOK_UP.search(text.strip()) is not None
        and _NO_LOOK_UP.search(text) is None
    )


def asks_for_form(task: str) -> bool:
    """Return whether the task fixes the form of its answer: `Answer with the letter only`."""
    return _FORM.search(task) is not None


def review_plan(plan: Plan) -> Review:
    """Return the plan as a flat list: a chain is one question, and nothing is asked twice.

    A question that leans on the one before it (`the height of that bridge`) is joined to it. Of questions
    that ask the same only the first is kept, and references follow. A question that only repeats the whole
    task is dropped if there are others.
    """
    notes: list[str] = []
    moved: dict[str, str] = {}
    joined = _join_chains(plan.questions, notes, moved)
    kept: list[Question] = []
    with closing(Tokens()) as tokens:
        asked = dict(zip([one.number for one in joined], _asked(tokens, joined), strict=True))
        task = _words_asked(tokens.words([plan.task])[0], tokens)
        for one in joined:
            same = next((other for other in kept if _is_same(asked[one.number], asked[other.number])), None)
            if same is not None:
                notes.append(f"asks the same as “{same.text}” and was merged with it: {one.text}")
                moved[one.number] = same.number
            elif len(joined) > 2 and _is_same(asked[one.number], task) and not is_look_up(one.text):
                notes.append(f"repeats the whole task and was dropped: {one.text}")
            else:
                kept.append(one)
    kept = kept or joined[:1]
    numbers = {one.number: str(at) for at, one in enumerate(kept, 1)}
    for old in moved:
        new = old
        while new in moved:
            new = moved[new]
        numbers[old] = numbers.get(new, old)
    return Review(Plan(plan.task, renumber(kept, numbers)), tuple(notes))


def _join_chains(questions: Sequence[Question], notes: list[str], moved: dict[str, str]) -> list[Question]:
    """Return the leaves. A leaf that leans on the one before is joined to it; a question whose parts lean on
    each other is asked itself, because it names the whole chain."""
    joined: list[Question] = []
    for question in questions:
        if question.parts:
            leaves = list(question.leaves())
            if question.text.endswith("?") and _is_chain(leaves):
                notes.append(f"is a chain and was asked as one question: {question.text}")
                moved.update((leaf.number, question.number) for leaf in leaves)
                joined.append(replace(question, parts=()))
                continue
            below = _join_chains(question.parts, notes, moved)
            moved[question.number] = below[-1].number
            joined += below
        elif joined and leans_back(question.text):
            notes.append(f"continues the question before it and was joined to it: {question.text}")
            moved[question.number] = joined[-1].number
            joined[-1] = replace(joined[-1], text=f"{joined[-1].text} {question.text}")
        else:
            joined.append(question)
    return joined


def _is_chain(leaves: Sequence[Question]) -> bool:
    """Return whether parts of a question are the steps of one chain: one leans on the one before, or says all
    of it in a relative clause (`the town of the yard that built it`)."""
    if any(leans_back(leaf.text) for leaf in leaves[1:]):
        return True
    with closing(Tokens()) as tokens:
        asked = [set(one) - _ASKING for one in _asked(tokens, leaves)]
    return any(
        step < whole and _RELATIVE.search(leaf.text)
        for step in asked
        for whole, leaf in zip(asked, leaves, strict=True)
    )


def _asked(tokens: Tokens, questions: Sequence[Question]) -> list[tuple[str, ...]]:
    words = tokens.words([question.text for question in questions])
    return [_words_asked(one, tokens) for one in words]


def _words_asked(words: Sequence[str], tokens: Tokens) -> tuple[str, ...]:
    """Return the stems that make a question what it asks, in order."""
    telling = [word for word in words if word in _ASKING or word not in FUNCTION_WORDS]
    return tuple(next(iter(stems), word) for word, stems in zip(telling, tokens.stems(telling), strict=True))


def _is_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two questions have nearly all words in common, in the same order. All numbers must be
    the same."""
    left, right = set(one), set(other)
    shared = left & right
    if not shared or len(shared) < _ALIKE * len(left | right):
        return False
    if any(word[0].isdigit() or word in _ASKING for word in left ^ right):
        return False
    return [word for word in one if word in shared] == [word for word in other if word in shared]


def find_guesses(text: str, seen: Iterable[str]) -> list[str]:
    """Return the proper names and numbers of a question that stand in none of the texts `seen`. The first
    word of a sentence is taken for a name only if the rest of the name follows it."""
    plain = _REFERENCE_NUMBER.sub(" ", text)
    known = {_fold(word) for one in seen for word in _WORD.findall(one)}
    beginnings = {word[:_ALIKE_BEGINNING] for word in known if len(word) >= _ALIKE_BEGINNING}
    found: list[str] = []
    for match in _WORD.finditer(plain):
        word = match[0]
        folded = _fold(word)
        named = word[0].isupper() and not _SENTENCE_START.search(plain[: match.start()])
        if not (named or word[0].isdigit()) or folded in FUNCTION_WORDS or word in found:
            continue
        is_known = folded in known or (named and folded[:_ALIKE_BEGINNING] in beginnings)
        if not is_known:
            found.append(word)
    return found


def _fold(word: str) -> str:
    """Return the word in lower case, without the ending of a possessive."""
    folded = word.casefold().replace("’", "'")
    return folded.removesuffix("'s").removesuffix("'")


def strip_guesses(text: str, seen: Sequence[str]) -> str:
    """Return the question without asides that name a guess: `(for instance the Galt House Hotel)`."""

    def aside(match: re.Match[str]) -> str:
        return "" if find_guesses(f"x {match[0]}", seen) else match[0]

    stripped = re.sub(r"\s+([?.,;])", r"\1", _ASIDE.sub(aside, text)).strip()
    if text.rstrip().endswith("?") and not stripped.endswith("?"):
        stripped = stripped.rstrip(" ,;") + "?"
    return stripped
