"""What the root is told about its replies: a violation, a soft breach, a missing name, the last round."""

from __future__ import annotations

import re

from prompts.errors import PromptError
from prompts.quoting import quoted
from prompts.words import table

__all__ = ["correction", "last_round_notice", "missing_name_advice", "soft_breach_reminder"]

_RECEIVED_CHARS = 200
_ASKED = re.compile(r"'([\w.]{1,80})'")


def correction(violation: str, received: str) -> str:
    """Names the violation, says in at most 200 characters what was received, shows the one right shape.

    `violation` is one of no_block, several_blocks, unclosed_block, wrong_language, empty_block,
    truncated_reply, prose_around; PromptError for any other.
    """
    data = table("corrections.toml")
    what = data["violations"].get(violation)
    if what is None:
        known = ", ".join(data["violations"])
        raise PromptError(f"there is no correction for {violation!r}: use one of {known}")
    template: str = data["correction"]
    return template.strip().format(violation=violation, what=what, received=_excerpt(received))


def soft_breach_reminder() -> str:
    """One line for a reply whose block ran although there was text around it."""
    return str(table("corrections.toml")["reminder"])


def last_round_notice(reason: str) -> str:
    """Asks for `finalize` now. `reason` is a clause such as "the limit of 30 rounds is reached"."""
    return str(table("corrections.toml")["last_round"]).format(reason=reason.strip().rstrip("."))


def missing_name_advice(ename: str, evalue: str) -> str:
    """What to use in the place of a name or a module that a block asked for and that is not there, from the
    error's name and message; "" when there is nothing to be said."""
    asked = _ASKED.search(evalue)
    if asked is None or ename not in ("NameError", "ModuleNotFoundError"):
        return ""
    data = table("corrections.toml")
    if ename == "NameError":
        return str(data["missing_name"].get(asked[1], ""))
    return str(data["missing_module"]).format(name=asked[1].partition(".")[0])


def _excerpt(received: str) -> str:
    """The beginning, on one line, so that a fence in it opens nothing."""
    text = received.strip()
    excerpt = quoted(text[:_RECEIVED_CHARS])
    kept = min(len(text), _RECEIVED_CHARS)
    while len(excerpt) > _RECEIVED_CHARS:
        kept -= 1 + (len(excerpt) - _RECEIVED_CHARS) // 6  # no character is quoted in more than six
        excerpt = quoted(text[:kept] + "…")
    return excerpt
