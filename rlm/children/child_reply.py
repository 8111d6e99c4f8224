"""Reads what a child replied: takes off what is no part of the answer, and finds replies that are none.

Small models wrap an answer in JSON that nobody asked for, repeat their prompt, or answer in another script.
What can be understood is understood. The rest is a fault, for which the child is asked once more.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

from rlm.answers.checks import read_reply
from rlm.answers.json_schema import SchemaError
from rlm.answers.thinking import without_reasoning
from rlm.children.child_spec import ChildSpec
from rlm.models.base import Reply
from rlm.prompts import is_not_found
from rlm.prompts.templates import table, words
from rlm.sandbox.types import ChildAnswer

__all__ = ["clean_reply", "read_answer", "reply_fault", "says_nothing"]

_BOUNDARY = re.compile(r"^=====\s*slice [0-9a-f]{12,20} (?:begins|ends)\b.*$\n?", re.MULTILINE)
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(?P<inside>.*?)\n?```\s*\Z", re.DOTALL | re.IGNORECASE)
_WRAPPERS = frozenset({"answer", "final_answer", "response", "result", "output", "reply", "text"})
_WANTS_JSON = re.compile(r"\b(?:json|keys?|fields?|object)\b|[\[{]", re.IGNORECASE)
_WRAPPING = " .!\"'`*_()[]{}<>"
_NOTHING = frozenset(
    {
        "not found",
        "not in the slice",
        "not in the text",
        "nothing found",
        "none found",
        "no answer found",
        "null",
    }
    | {"nicht gefunden", "non trouvé", "no encontrado", "non trovato", "não encontrado", "niet gevonden"}
    | {"не найдено", "未找到", "没有找到", "見つかりません", "찾을 수 없음"}
)
_MIN_REPEATED = 35
"""Characters of an instruction that no answer holds by chance."""
_MIN_TASK = 8
"""Characters of a task that is looked for in its answer. A shorter one may be its own answer."""
_MIN_REST = 0.3
_SENTENCE = re.compile(r"(?<=\.)\s+|\n+")
_SPACE = re.compile(r"\s+")

_MIN_LETTERS = 20
_MAX_OWN_SHARE = 0.05
_MIN_FOREIGN_SHARE = 0.5
_SCRIPT_SAMPLE = 20_000
_NAMES_LANGUAGE = re.compile(
    r"translat|transliterat|language|chinese|mandarin|japanese|korean|russian|ukrainian|bulgarian|greek|arabic|"
    r"hebrew|persian|farsi|hindi|bengali|tamil|thai|cyrillic|kanji|script\b|\b(?:in|into|auf|en) [A-Z]",
    re.IGNORECASE,
)


async def read_answer(
    answer: ChildAnswer, reply: Reply, spec: ChildSpec, texts: Sequence[str]
) -> ChildAnswer:
    """Return `answer`, which holds what the call cost, with what the reply says or why it is no answer."""
    task, schema, empty = spec.prompt, spec.schema, spec.empty
    text = clean_reply(reply.text, task, has_schema=schema is not None)
    if spec.form is not None:
        text, _ = spec.form.read(text)
    answer = replace(answer, text=text, found=not says_nothing(text, texts))
    if reply.finish_reason == "length":
        return replace(answer, text="", error="the reply was cut by the output limit", error_type="truncated")
    if reply.finish_reason == "refusal":
        return replace(answer, text="", error="the model refused to answer", error_type="refused")
    if not answer.text:
        return replace(answer, error="the reply was empty", error_type="empty")
    # What is written in a picture may be of any script.
    fault = None if spec.pages else reply_fault(text, task, texts)
    if fault is not None:
        return replace(answer, text="", found=False, error_type=fault[0], error=fault[1])
    if schema is None:
        return answer
    if not answer.found:
        return replace(answer, value=empty)
    try:
        value = await read_reply(schema, answer.text)
        return replace(answer, value=value, found=empty is None or value != empty)
    except SchemaError as error:
        return replace(answer, text="", error=str(error), error_type="schema")


def clean_reply(reply: str, task: str, *, has_schema: bool) -> str:
    """Return a reply without its reasoning, the boundary lines of its prompt, and a wrapping that the task
    does not ask for: `{"answer": "in May"}` is `in May`."""
    text = _BOUNDARY.sub("", without_reasoning(reply)).strip()
    if has_schema or _WANTS_JSON.search(task):
        return text
    fence = _FENCE.match(text)
    inside = fence["inside"].strip() if fence else text
    if not (inside.startswith("{") and inside.endswith("}")):
        return text
    try:
        value = json.loads(inside)
    except (ValueError, RecursionError):
        return text
    if (
        len(value) == 1
        and (name := next(iter(value))).casefold() in _WRAPPERS
        and isinstance(value[name], str)
    ):
        return str(value[name]).strip()
    return text


def says_nothing(reply: str, texts: Sequence[str]) -> bool:
    """Return whether a reply says that its texts do not hold the answer: by NOT_FOUND, or in words that small
    models use instead, and that the texts do not hold."""
    if is_not_found(reply):
        return True
    flat = _flat(reply).strip(_WRAPPING)
    return flat in _NOTHING and not any(flat in _flat(text) for text in texts)


def reply_fault(reply: str, task: str, texts: Sequence[str]) -> tuple[str, str] | None:
    """Return the type of error and the reason why a reply is no answer to `task` over `texts`, or None."""
    faults = table("child.toml")["fault"]
    if _repeats_prompt(reply, task, texts):
        return "repeat", str(faults["repeat"])
    if _is_in_another_script(reply, task, texts):
        return "language", str(faults["language"])
    return None


def _repeats_prompt(reply: str, task: str, texts: Sequence[str]) -> bool:
    """Return whether hardly anything is left of a reply without our instructions and the task."""
    flat = rest = _flat(reply)
    own = _flat(task)
    asked = [own] if len(own) >= _MIN_TASK else []
    for sentence in (*_instructions(), _flat(table("child.toml")["task"]), *asked):
        rest = rest.replace(sentence, " ")
    if rest == flat:
        return False
    rest = _SPACE.sub(" ", rest).strip(" -=:.`\"'")
    if not any(map(str.isalnum, rest)):
        return not any(flat in _flat(text) for text in texts)
    removed = len(flat) - len(rest)
    return removed >= 2 * _MIN_REPEATED and len(rest) < _MIN_REST * len(flat) and _opens_like_prompt(flat)


def _opens_like_prompt(flat: str) -> bool:
    return any(sentence in flat for sentence in _instructions())


@cache
def _instructions() -> tuple[str, ...]:
    """Return the lines and sentences that a child is told, the longest first."""
    data = table("child.toml")
    told = (words("child_system.md"), data["close"], data["remarks"], data["numbered"], data["no_slice"])
    lines = [line for text in told for line in text.split("\n")]
    pieces = {_flat(one).removeprefix("- ") for line in lines for one in (line, *_SENTENCE.split(line))}
    return tuple(sorted((one for one in pieces if len(one) >= _MIN_REPEATED), key=len, reverse=True))


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()


def _is_in_another_script(reply: str, task: str, texts: Sequence[str]) -> bool:
    """Return whether most letters of a reply are of a script that neither task nor texts use."""
    letters = _scripts(reply)
    total = sum(letters.values())
    if total < _MIN_LETTERS or _NAMES_LANGUAGE.search(task):
        return False
    script, count = letters.most_common(1)[0]
    if count < _MIN_FOREIGN_SHARE * total:
        return False
    own = _scripts(task)
    for text in texts:
        own += _scripts(text)
    return own[script] <= _MAX_OWN_SHARE * sum(own.values())


def _scripts(text: str) -> Counter[str]:
    """Count the letters of a text by script. The three scripts of Japanese are one with Han."""
    counts: Counter[str] = Counter()
    sample = text if len(text) <= _SCRIPT_SAMPLE else text[:: len(text) // _SCRIPT_SAMPLE]
    for letter, count in Counter(sample).items():
        if letter.isalpha():
            counts[_script(letter)] += count
    return counts


@lru_cache(maxsize=10_000)
def _script(letter: str) -> str:
    script = unicodedata.name(letter, "?").split(" ")[0].split("-")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script
