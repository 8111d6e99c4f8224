"""Build the messages that tell the root what is wrong with its reply, or that this is its last round."""

from __future__ import annotations

import re

from rlm.escaping import json_text
from rlm.prompts.errors import PromptError
from rlm.prompts.templates import table

__all__ = [
    "advice_on",
    "calls_final",
    "correction",
    "excerpt",
    "last_round_notice",
    "repetition_notice",
    "soft_breach_reminders",
]

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
