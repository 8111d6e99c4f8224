"""Parses a root reply, which should hold exactly one closed `repl` block, into code or a violation.

Nothing here runs code. `parse` takes any string at all, never raises, and takes time proportional to the
reply's length.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from string import whitespace
from typing import Literal

from rlm.answers.thinking import without_reasoning
from rlm.models.base import FinishReason
from rlm.prompts.recipes.notices import calls_final
from rlm.prompts.recipes.root import Contract

__all__ = ["Cell", "Violation", "ViolationKind", "fenced", "parse", "parses"]

ViolationKind = Literal[
    "no_block",
    "several_blocks",
    "unclosed_block",
    "wrong_language",
    "empty_block",
    "truncated_reply",
    "prose_around",
    "final_call",
    "tool_call",
    "repeated_block",
]
"""`repeated_block` is found by the driver, which knows the blocks before. The others are found by `parse`."""

_MAX_CANDIDATES = 32
_MAX_BLOCKS = 3  # more of them change nothing: reading on would only cost time
_RECEIVED_CHARS = 200
# Trying candidate after candidate on a huge reply would cost seconds. Whatever a model can write in one
# reply stays far below this; past it a candidate counts as not parsing.
_PARSE_CHARS = 300_000

# Characters without width, like the byte order mark, which some models put before a fence.
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060"
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_ITEM = re.compile(r"((?:[-*+]|\d[.)]) )(`{3,}|~{3,})([^\n]*\w[^\n]*)")
"""An opening fence that begins a list item. The lines of its block may be indented like it."""
_CODE_TOOLS = frozenset({"python", "repl"})
"""Tools whose argument may be their code itself."""
_REPL = frozenset({"repl"})
_UNMARKED = frozenset({""})
_PYTHON_MARKS = frozenset({"python", "py", "python3", "tool_code"})
_MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_CALLED = json.JSONDecoder(strict=False)  # models write line breaks into a string as they are

TOOL_CALL = "tool call"


@dataclass(frozen=True, slots=True)
class Cell:
    """Code to run, without its fence. Soft breaches: `prose` is text around the block, and `mark` is the info
    string of its fence if that is not `repl`, in lower case, or TOOL_CALL for the code of a tool call."""

    code: str
    prose: str = ""
    mark: str = "repl"


@dataclass(frozen=True, slots=True)
class Violation:
    """A reply that is not run. `received` shows it, on one line of at most 200 characters."""

    kind: ViolationKind
    received: str


@dataclass(frozen=True, slots=True)
class _Fence:
    """A line that may open or close a block; `line` counts from 0."""

    line: int
    indent: int
    mark: str
    length: int
    info: str

    @property
    def name(self) -> str:
        return self.info.casefold()

    def may_open(self) -> bool:
        return self.mark == "~" or "`" not in self.info

    def may_close(self, opening: _Fence) -> bool:
        return not self.info and self.matches(opening)

    def matches(self, other: _Fence) -> bool:
        return self.mark == other.mark and self.length >= other.length

    def ends(self, opening: _Fence, names: frozenset[str]) -> bool:
        """Return whether it opens a block with one of these names that could not be nested in the other."""
        return self.name in names and self.matches(opening)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block to run: its lines are `opening < line < closing`. `closing` is None for an unclosed one."""

    opening: int
    closing: int | None
    code: str
    mark: str

    @property
    def is_python(self) -> bool:
        return self.closing is not None and bool(self.code.strip()) and parses(self.code)


def _holds_a_block(text: str) -> bool:
    return any(fence.name in _REPL for fence in _fences(text.split("\n"))) or any(
        _call_of(call[1]) is not None for call in _CALL.finditer(text)
    )


def fenced(code: str) -> str:
    """Return `code` as a reply that obeys the contract. The fence is longer than any backticks in the
    code."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}repl\n{code}\n{fence}"


def parse(
    reply: str,
    *,
    finish_reason: FinishReason = "stop",
    contract: Contract = "one-block",
) -> Cell | Violation:
    """Return the cell of a reply, or its violation of the contract.

    A leading `<think>…</think>` is dropped. Then exactly one closed fence with the info string `repl` must
    remain; other fences only illustrate. Without one, a single block that is marked as Python, or is the only
    block and not marked at all, counts if its code parses (`Cell.mark`). Text around the block is kept as
    `Cell.prose`. So does the code of a single tool call, if the reply has no `repl` block. The contract
    `strict` refuses all of these (`wrong_language`, `tool_call`, `prose_around`). Syntax errors in a
    `repl` block are not checked here. A reply that the provider's output limit cut
    (`finish_reason="length"`) is never run.
    """
    if finish_reason == "length":
        return Violation("truncated_reply", _excerpt(reply))
    lines = without_reasoning(reply, is_reply=_holds_a_block).split("\n")
    fences = _fences(lines)
    blocks, others = _blocks(lines, fences, _REPL)
    if not blocks:
        called = _called("\n".join(lines), contract)
        if called is not None:
            return called
        if contract != "strict":
            is_unmarked = len(others) == 1 and not others[0].info
            blocks, _ = _blocks(lines, fences, _UNMARKED if is_unmarked else _PYTHON_MARKS)
        if not blocks or (len(blocks) == 1 and not blocks[0].is_python):
            return _without_block(lines, others, reply)
    if len(blocks) > 1:
        count = f"{len(blocks)} blocks" + (" or more" if len(blocks) == _MAX_BLOCKS else "")
        heads = " | ".join(_excerpt(block.code, 40) for block in blocks)
        return Violation("several_blocks", _excerpt(f"{count}: {heads}"))
    block = blocks[0]
    if block.closing is None:
        return Violation("unclosed_block", _excerpt(block.code))
    if not block.code.strip():
        return Violation("empty_block", _excerpt(reply))
    blank = f"{whitespace}{_INVISIBLE}"
    around = ["\n".join(part).strip(blank) for part in (lines[: block.opening], lines[block.closing + 1 :])]
    prose = "\n".join(part for part in around if part)
    if prose and contract == "strict":
        return Violation("prose_around", _excerpt(prose))
    return Cell(block.code, prose, block.mark)


def _called(text: str, contract: Contract) -> Cell | Violation | None:
    """Return the cell of a reply that calls a tool in place of a block, its violation, or None.

    A root has no tools, but some models insist on calling one. `rlm/models/structured.py` writes a native
    call into the text as JSON in a tag, as many models write their calls themselves.
    """
    found = [(match, call) for match in _CALL.finditer(text) if (call := _call_of(match[1])) is not None]
    codes = [code for _, (_, code) in found if code is not None]
    if len(codes) > 1:
        heads = " | ".join(_excerpt(code, 40) for code in codes[:_MAX_BLOCKS])
        return Violation("several_blocks", _excerpt(f"{len(codes)} tool calls: {heads}"))
    if not found or (not codes and calls_final(text)):
        return None
    if not codes or contract == "strict":
        return Violation("tool_call", _excerpt(", ".join(name for _, (name, _) in found[:_MAX_BLOCKS])))
    if not codes[0].strip():
        return Violation("empty_block", _excerpt(text))
    around = text[: found[0][0].start()] + text[found[-1][0].end() :]
    return Cell(codes[0], around.strip(), TOOL_CALL)


def _call_of(text: str) -> tuple[str, str | None] | None:
    """Return the name of a called tool and the code that it would run, or None for what is no call. A tool of
    another kind runs no code."""
    try:
        called = _CALLED.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(called, dict) or not isinstance(name := called.get("name"), str):
        return None
    given = called.get("arguments")
    code = given.get("code") if isinstance(given, dict) else given if name in _CODE_TOOLS else None
    return name, code if isinstance(code, str) else None


def _without_block(lines: Sequence[str], others: Sequence[_Fence], reply: str) -> Violation:
    """Return the violation of a reply that holds no block to run."""
    if calls_final("\n".join(lines)):
        return Violation("final_call", _excerpt(reply))
    if others:
        return Violation("wrong_language", _excerpt("\n".join(lines[others[0].line :][:20])))
    return Violation("no_block", _excerpt(reply))


def _fences(lines: Sequence[str]) -> list[_Fence]:
    found = []
    for number, line in enumerate(lines):
        shown = line.lstrip(_INVISIBLE)
        match = _FENCE.match(shown) or _ITEM.match(shown)
        if match is not None:
            before, marks, info = match.groups()
            info = info.strip().strip(_INVISIBLE)
            found.append(_Fence(number, len(before), marks[0], len(marks), info))
    return found


def _blocks(
    lines: Sequence[str], fences: Sequence[_Fence], names: frozenset[str]
) -> tuple[list[_Block], list[_Fence]]:
    """Return the first blocks with these names in order, and the openings of the other blocks among them."""
    blocks: list[_Block] = []
    others: list[_Fence] = []
    allowance = _PARSE_CHARS
    position = 0
    while position < len(fences) and len(blocks) < _MAX_BLOCKS:
        opening = fences[position]
        position += 1
        if not opening.may_open():
            continue
        rest = range(position, len(fences))
        closings = (index for index in rest if fences[index].may_close(opening))
        if opening.name not in names:
            others.append(opening)
            # A stray fence must not swallow the block that follows.
            after = (
                index + fences[index].may_close(opening)
                for index in rest
                if fences[index].may_close(opening) or fences[index].ends(opening, names)
            )
            position = next(after, len(fences))
            continue
        later = next((index for index in rest if fences[index].ends(opening, names)), len(fences))
        tried = list(islice(closings, _MAX_CANDIDATES))
        chosen, allowance = _choose(lines, opening, fences, tried, later=later, allowance=allowance)
        # Another opening after an unclosed block is a block of its own.
        end = later if chosen is None else chosen
        last = fences[end].line if end < len(fences) else len(lines)
        closing = None if chosen is None else last
        blocks.append(_Block(opening.line, closing, _code(lines, opening, last), opening.name))
        position = end if chosen is None else end + 1
    return blocks, others


def _choose(
    lines: Sequence[str],
    opening: _Fence,
    fences: Sequence[_Fence],
    closings: Sequence[int],
    *,
    later: int,
    allowance: int,
) -> tuple[int | None, int]:
    """Return the closing that ends the block, and the rest of the parsing allowance.

    The first that makes the code parse: code may hold fences inside strings. If none does, the code is
    broken anyway and the last one counts, short of `later`, the next `repl` opening: another block.
    """
    for index in closings:
        code = _code(lines, opening, fences[index].line)
        if len(code) > allowance:
            break
        allowance -= len(code)
        if parses(code):
            return index, allowance
    before = [index for index in closings if index < later]
    return (before[-1] if before else None), allowance


def _code(lines: Sequence[str], opening: _Fence, end: int) -> str:
    inside = list(lines[opening.line + 1 : end])
    if lines[opening.line].endswith("\r"):
        inside = [line.removesuffix("\r") for line in inside]
    margin = " " * opening.indent
    if margin and all(line.startswith(margin) or not line.strip() for line in inside):
        inside = [line[opening.indent :] for line in inside]
    return "\n".join(inside)


def parses(code: str) -> bool:
    """Return whether IPython could run `code`. Its magic lines (`%time`, `!ls`) count as statements."""
    if _compiles(code):
        return True
    plain, changed = _MAGIC.subn(r"\1pass", code)
    return changed > 0 and _compiles(plain)


def _compiles(code: str) -> bool:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<reply>", "exec", flags=flags, dont_inherit=True)
    except Exception:
        # The boundary to CPython's parser: SyntaxError, ValueError, RecursionError, MemoryError.
        return False
    return True


def _excerpt(text: str, limit: int = _RECEIVED_CHARS) -> str:
    """Return the head of `text` on one line, at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1] + "…"
