"""Turns a root reply into a cell, by the contract or as the systems read it whose dialects models know.

In a dialect a reply may hold several blocks, which run in order as one cell, prose around them, or code
without a fence. It may end the run outside a block: `FINAL(the answer)`, `FINAL_VAR(name)`. Nothing here runs
code. `read_reply` takes any string, never raises, and takes time proportional to the reply's length.
"""

from __future__ import annotations

import ast
import re
from keyword import iskeyword

from rlm.answers.thinking import without_reasoning
from rlm.driver.reply_contract import Cell, Violation, closed_blocks, parse, parses
from rlm.models.base import FinishReason
from rlm.settings import RootSettings

__all__ = ["read_reply"]

_MARKS = frozenset({"repl", "python", "py", "python3", "tool_code", ""})
_FINAL = re.compile(r"^[ \t>*`]*(FINAL_VAR|FINAL)[ \t]?\(", re.MULTILINE)
_SUBMIT = re.compile(r"^[ \t]*SUBMIT[ \t]?\(", re.MULTILINE)
_CALLS = re.compile(r"[\w\])][ \t]*[(=]|^\s*(?:import|from|for|with|print)\b", re.MULTILINE)
"""Code that does something calls or assigns. Short sentences and numbers parse as code, too."""
_PARENTHESIS = re.compile(r"[()]")
_LINE_END = re.compile(r"\)(?=[ \t\r`*.]{0,20}$)", re.MULTILINE)
_QUOTES = " \t\r\n`'\""
_MAX_ANSWER = 1_000_000
"""The longest answer that `finalize` takes."""


def read_reply(text: str, root: RootSettings, finish_reason: FinishReason = "stop") -> Cell | Violation:
    """Return the cell of a reply in the dialect of the run, or its violation.

    The dialect "own" has the contract of `rlm.driver.reply_contract`. In the others, `Cell.shown` is what the
    root is shown of its reply: all but its reasoning.
    """
    contract = parse(
        text, finish_reason=finish_reason, contract="one-block" if root.dialect != "own" else root.contract
    )
    if root.dialect == "own" or finish_reason == "length":
        return contract
    reply = without_reasoning(text, is_reply=_is_reply)
    code, around = _code(reply)
    if code is None:
        # The contract reads tool calls, and names what is wrong with the rest.
        return Cell(contract.code, shown=reply.strip()) if isinstance(contract, Cell) else contract
    return Cell(_with_final(code, around), shown=reply.strip())


def _is_reply(rest: str) -> bool:
    return _FINAL.search(rest) is not None or any(code.strip() for code, _, _ in closed_blocks(rest, _MARKS))


def _code(reply: str) -> tuple[str | None, str]:
    """Return the code of a reply and the text around it. None for neither code nor a final answer."""
    lines = reply.split("\n")
    codes, around, position = [], [], 0
    found = [one for one in closed_blocks(reply, _MARKS) if one[0].strip()]
    # A block without a mark, or with another one than its neighbours, is an illustration if a `repl` block is
    # there, too.
    marked = [one for one in found if lines[one[1]].strip(" \t\r`~-*+").casefold() == "repl"]
    for code, opening, closing in marked or [one for one in found if parses(one[0])]:
        codes.append(code)
        around.extend(lines[position:opening])
        position = closing + 1
    around.extend(lines[position:])
    prose = "\n".join(around)
    if codes:
        return "\n\n".join(codes), prose
    stripped = reply.strip().strip("`").strip()
    is_code = bool(_CALLS.search(stripped)) and parses(stripped)
    if is_code and not _FINAL.match(stripped):
        return stripped, ""
    if _FINAL.search(reply) is not None:
        return "", reply
    submitted = _SUBMIT.search(reply)
    if submitted is not None and parses(call := reply[submitted.start() :].strip()):
        return call, ""
    return None, ""


def _with_final(code: str, around: str) -> str:
    """Return the code, and after it the final answer that stands outside the blocks."""
    match = None
    for found in _FINAL.finditer(around):
        if match is None or (found[1] == "FINAL_VAR" and match[1] == "FINAL"):
            match = found
    if match is None:
        return code
    inside = _inside(around, match.end())
    given = repr(inside.strip(_QUOTES)) if match[1] == "FINAL_VAR" else _value(inside)
    final = f"{match[1]}({given})"
    return f"{code}\n\n{final}" if code else final


def _inside(text: str, start: int) -> str:
    """Return the text of a call's parentheses: up to the one that closes the first, if the line ends there,
    else up to the last one that ends a line, else up to the end."""
    depth, last = 1, None
    text = text[start : start + _MAX_ANSWER]
    line_ends = {match.start() for match in _LINE_END.finditer(text)}
    for match in _PARENTHESIS.finditer(text):
        depth += 1 if match[0] == "(" else -1
        if match.start() in line_ends:
            last = match.start()
            if depth <= 0:
                break
    return text if last is None else text[:last]


def _value(text: str) -> str:
    """Return an expression for the answer in `FINAL(…)`: a literal is its value, the name of a variable that
    exists is the variable, anything else is text."""
    shown = text.strip()
    if shown.isidentifier() and not iskeyword(shown):
        return f"{shown} if {shown!r} in globals() else {shown!r}"
    try:
        value = ast.literal_eval(shown)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return repr(shown)
    return repr(value) if isinstance(value, str | int | float | bool | list | dict) else repr(shown)
