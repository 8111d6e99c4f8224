"""Write the short messages of a run: earlier questions, corrections, folded rounds. Recognize NOT_FOUND."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm.escaping import json_text
from rlm.prompts.boundary import ForeignText, bounded
from rlm.prompts.errors import PromptError
from rlm.prompts.templates import table, words

__all__ = [
    "NOT_FOUND",
    "EarlierQuestion",
    "advice_on",
    "calls_final",
    "correction",
    "earlier_lines",
    "earlier_words",
    "excerpt",
    "folded_rounds",
    "is_not_found",
    "last_round_notice",
    "repetition_notice",
    "soft_breach_reminders",
    "states_absence",
]

NOT_FOUND = "NOT_FOUND"
"""The reply of a child, on a line of its own, if its slice does not hold the answer."""

_NOT_IN_DOCUMENTS = "not in the documents"
"""The start of a root's answer when it found none, as its prompt asks."""
_FENCE = re.compile(r"\A(?P<mark>```+|~~~+)[^\n`]*\n(?P<inside>.*?)\n?(?P=mark)\s*\Z", re.DOTALL)
_WRAPPING = r"[\s\"'`*_«»“”‘’\[\](){}<>#]*"
# Some models escape the underscore as Markdown would have it.
_TOKEN = re.compile(
    rf"\A{_WRAPPING}NOT\\?_FOUND{_WRAPPING}(?P<border>[.:;!,—–-]*){_WRAPPING}(?P<rest>.*)\Z", re.DOTALL
)
_STATEMENT = re.compile(
    rf"\A{_WRAPPING}{_NOT_IN_DOCUMENTS}(?:{_WRAPPING}[.:;!—–-]|{_WRAPPING}\Z)", re.IGNORECASE
)
_REMARK_CHARS = 200
_SENTENCE_BORDER = re.compile(r"[.!?。！？]\s+\S|\n")


def is_not_found(reply: str) -> bool:
    """Return whether a reply says that the answer is not there. Never raises.

    A root says it by a text that begins with `Not in the documents:`, whatever follows. A child says
    NOT_FOUND and nothing else of weight: quotes, emphasis, brackets, punctuation and a code fence around it
    are ignored, and so are lines that begin with `Note:`, and one short sentence after it, if a line break,
    full stop, colon or dash separates it. Anything before it, or more after it, makes the reply an answer,
    because losing evidence is worse than keeping a remark.
    """
    text = reply.strip()
    if states_absence(text):
        return True
    fence = _FENCE.match(text)
    found = _TOKEN.match(fence["inside"] if fence else text)
    if found is None:
        return False
    remark = found["rest"].strip()
    if all(line.lstrip().startswith("Note:") for line in remark.splitlines() if line.strip()):
        return True  # remarks in the form that the prompt asks for, or none
    before = found.string[: found.start("rest")]
    set_apart = "\n" in before or found["border"].strip(",") != ""
    return set_apart and len(remark) <= _REMARK_CHARS and _SENTENCE_BORDER.search(remark) is None


def states_absence(answer: str) -> bool:
    """Return whether an answer is a statement for its reader that begins with `Not in the documents`."""
    return _STATEMENT.match(answer.strip()) is not None


MAX_QUESTIONS = 20
_MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class EarlierQuestion:
    """A previous question about the same text, and its answer as text."""

    question: str
    answer: str


def earlier_lines(earlier: Sequence[EarlierQuestion]) -> list[tuple[int, str]]:
    """Return the number and the text of each of the last 20 questions, in order."""
    words = table("root.toml")["earlier"]
    left_out = max(0, len(earlier) - MAX_QUESTIONS)
    return [
        (
            number,
            words["one"].format(number=number, question=_short(one.question), answer=_short(one.answer)),
        )
        for number, one in enumerate(earlier[left_out:], left_out + 1)
    ]


def earlier_words(earlier: Sequence[EarlierQuestion]) -> str:
    """Return the questions as one text to put before a new question, or ""."""
    if not earlier:
        return ""
    lines = [table("root.toml")["earlier"]["direct"], *(line for _, line in earlier_lines(earlier))]
    return "\n".join(lines) + "\n\n"


def _short(text: str) -> str:
    return json_text(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")


_RECEIVED_CHARS = 200
_FINAL_CALL = re.compile(r"^[ \t>*`]*(?:FINAL|FINAL_VAR|SUBMIT)[ \t]?\(", re.MULTILINE)
_ASKED = re.compile(r"'([\w.]{1,80})'")


def correction(violation: str, received: str) -> str:
    """Return a message with the violation, an excerpt of the reply and the right shape.

    `violation` is a key of the table `violations`. Raises PromptError for any other. The excerpt has at most
    200 characters.
    """
    data = table("corrections.toml")
    what = data["violations"].get(violation)
    if what is None:
        known = ", ".join(data["violations"])
        raise PromptError(f"there is no correction for {violation!r}: use one of {known}")
    template: str = data["correction"]
    shape = data["shape"]["answer" if violation == "final_call" else "look"]
    return template.strip().format(violation=violation, what=what, received=excerpt(received), shape=shape)


def soft_breach_reminders(prose: str, mark: str) -> list[str]:
    """Return the reminders for a block that ran despite `prose` around it, or despite the `mark` of its fence
    (`repl` is the right one, and `tool call` means that it had none)."""
    data = table("corrections.toml")
    found = [data["reminder"]] if prose else []
    if mark != "repl":
        found = [data["call_reminder" if mark == "tool call" else "mark_reminder"]]
    if calls_final(prose):
        found.append(data["final_reminder"])
    return found


def calls_final(reply: str) -> bool:
    """Return whether a reply ends the run as in other RLM systems: FINAL(…), FINAL_VAR(…), SUBMIT(…)."""
    return _FINAL_CALL.search(reply) is not None


def repetition_notice() -> str:
    """Return a notice for a block that repeats the one before it."""
    return str(table("corrections.toml")["repeated"])


def last_round_notice(reason: str) -> str:
    """Ask for `finalize` now. `reason` is a clause such as "the limit of 30 rounds is reached"."""
    return str(table("corrections.toml")["last_round"]).format(reason=reason.strip().rstrip("."))


def advice_on(ename: str, evalue: str) -> str:
    """Return advice on an exception that models rarely understand by themselves, or "".

    These are missing names, modules and files, quotes in an f-string, `await` and `sys.exit()`. `ename` and
    `evalue` are the exception's type and message.
    """
    data = table("corrections.toml")
    if ename == "SyntaxError" and evalue.startswith("f-string"):
        return str(data["f_string"])
    if ename == "TypeError" and "'await' expression" in evalue:
        return str(data["awaited"])
    if ename == "SystemExit":
        return str(data["exited"])
    if ename == "FileNotFoundError":
        return str(data["missing_file"])
    asked = _ASKED.search(evalue)
    if asked is not None and ename == "NameError":
        return str(data["missing_name"].get(asked[1], ""))
    if asked is not None and ename == "ModuleNotFoundError":
        return str(data["missing_module"]).format(name=asked[1].partition(".")[0])
    return ""


def excerpt(received: str) -> str:
    """Return the beginning of a reply, quoted on one line, so that a fence in it opens nothing."""
    text = received.strip()
    excerpt = json_text(text[:_RECEIVED_CHARS])
    kept = min(len(text), _RECEIVED_CHARS)
    while len(excerpt) > _RECEIVED_CHARS:
        kept -= 1 + (len(excerpt) - _RECEIVED_CHARS) // 6  # quoting takes at most six characters for one
        excerpt = json_text(text[:kept] + "…")
    return excerpt


_MAX_VARIABLES = 60


def folded_rounds(last: int, notes: str, variables: Sequence[str]) -> str:
    """Return the message that replaces rounds 1 to `last`.

    `variables` lists what the kernel holds (`name: type, size`). `notes` is the summary of the rounds, or ""
    if there is none.
    """
    shown = "\n".join(variables[:_MAX_VARIABLES]) or "none"
    more = ""
    if len(variables) > _MAX_VARIABLES:
        more = f"and {len(variables) - _MAX_VARIABLES} more: SHOW_VARS() lists all"
    texts = (
        ForeignText("variables", shown, more),
        ForeignText("notes", notes or "No notes could be made of them."),
    )
    return words("folded.md").format(last=last, notes=bounded(texts, "end of the notes"))
