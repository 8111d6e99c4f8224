"""Removes the reasoning that some models put in tags before their reply."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["reply_so_far", "without_reasoning"]

_THINK_OPEN = re.compile(r"\s*<(think|thinking)>", re.IGNORECASE)
_THINK_CLOSE = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in ("think", "thinking")}
_THINK_BARE_CLOSE = re.compile(r"</(?:think|thinking)>[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def without_reasoning(
    reply: str, *, is_reply: Callable[[str], bool] = lambda rest: bool(rest.strip())
) -> str:
    """Return the reply after its leading `<think>…</think>` or `<thinking>…</thinking>`.

    An unclosed tag is kept as text, because the model may have forgotten to close it. A closing tag without
    an opening tag also ends the reasoning, if `is_reply` accepts the text after it.
    """
    start = 0
    while (opened := _THINK_OPEN.match(reply, start)) is not None:
        closed = _THINK_CLOSE[opened[1].casefold()].search(reply, opened.end())
        if closed is None:
            break
        start = closed.end()
    if start == 0 and (bare := _THINK_BARE_CLOSE.search(reply)) is not None:
        # Some chat templates write the opening tag themselves, so the reply begins inside the reasoning.
        rest = reply[bare.end() :]
        if is_reply(rest):
            return rest
    return reply[start:]


def reply_so_far(begun: str) -> str:
    """Return what of the beginning of a reply is no reasoning. Empty while the reasoning lasts, or may."""
    opening = begun.lstrip().casefold()
    if any(f"<{tag}>".startswith(opening) for tag in _THINK_CLOSE):
        return ""
    rest = without_reasoning(begun)
    return "" if _THINK_OPEN.match(rest) else rest.strip()
