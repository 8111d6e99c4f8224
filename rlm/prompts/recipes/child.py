"""Build a child's prompt: one task, and one slice between boundary lines. Its size is checked before
sending."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from rlm.escaping import json_text
from rlm.prompts.boundary import CODE_DIGITS, boundary_code
from rlm.prompts.errors import BudgetExceeded, InputError, SliceTooLarge
from rlm.prompts.fitting import Part, Section, assemble
from rlm.prompts.json_input import Bounds, read
from rlm.prompts.prompt import AssembledPrompt
from rlm.prompts.templates import table, words
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["ChildInput", "ChildPrompt", "ChildSliceText", "child_prompt"]

_CHILD_TOKENS = 32_000
_SHORT_TASK_CHARS = 600
"""A task of up to this size stands before the slice in full."""
_BRIEF_CHARS = 200
_SHARED_TASK_CHARS, _MAX_SHARED_CHARS = 4_000, 100_000
"""A task of at least this size stands before the slice if the slice is no longer. All children of a batch
then begin with it, so that a provider's cache can keep it, which takes 512 to 4,096 tokens at least."""
_LABEL_CHARS = 160
_LABEL_DIGITS = 8  # of the code, before the label of each of many pieces; no piece holds them
_FRAMED_PIECES = 16
"""More pieces than these stand in one frame, each under a short label: a frame takes some 65 tokens."""
_SPARE = 0.9  # margin on a size estimated from the average of the slice


@dataclass(frozen=True, slots=True)
class ChildSliceText:
    """A piece of text for a child to read, and its source.

    `start` and `end` are characters of the body, or None for text made by a cell. `section` are the headings
    that the text is under, and `message` is the number of a message, with its author and time. `first_line`
    is the 0-based number of its first line in the body. `cut_start` and `cut_end`: it begins or ends in the
    middle of a sentence or line.
    """

    text: str
    start: int | None = None
    end: int | None = None
    document: str | None = None
    section: str | None = None
    page: int | None = None
    first_line: int = 0
    message: str | None = None
    cut_start: bool = False
    cut_end: bool = False


@dataclass(frozen=True, slots=True)
class ChildInput:
    """One child call.

    `part` is (i, n), counted from 1. `schema` is the text of a JSON Schema that the answer must match, and
    `empty` the JSON that says "nothing there" under it, if it has one. `pictures` counts those that the
    message carries. `remarks`: the child may add some.
    `window` is the child model's, in tokens. Of it `output_reserve` stays free, and the prompt takes at most
    `child_tokens` of the rest. Tokens are `counter`'s, times `safety_factor`.
    """

    prompt: str
    window: int
    output_reserve: int
    slices: tuple[ChildSliceText, ...] = ()
    pictures: int = 0
    part: tuple[int, int] | None = None
    stage: str | None = None
    numbered: bool = False
    schema: str | None = None
    empty: str | None = None
    remarks: bool = False
    child_tokens: int = _CHILD_TOKENS
    counter: Counter = field(default_factory=get_counter)
    safety_factor: float = 1.0
    warnings: tuple[str, ...] = ()

    @property
    def limit(self) -> int:
        """Return the tokens that the prompt may take."""
        total = min(self.window, self.child_tokens + self.output_reserve)
        return math.floor((total - self.output_reserve) / self.safety_factor)


class ChildPrompt:
    """Builds a child's prompt: a system message, the same for a whole batch, and a user message."""

    def assemble(self, given: ChildInput | Mapping[str, Any]) -> AssembledPrompt:
        """Return `child_prompt` of an input, or of plain data. Raises as it does, and InputError."""
        return child_prompt(given if isinstance(given, ChildInput) else _from_json(given))


class _SliceJson(NamedTuple):
    text: str
    start: Annotated[int, Bounds(0)] | None = None
    end: Annotated[int, Bounds(0)] | None = None
    document: str | None = None


@dataclass(frozen=True, slots=True)
class _CallJson:
    """The JSON of a call."""

    prompt: str
    slice: _SliceJson | None = None
    window: Annotated[int, Bounds(1)] = 128_000
    output_reserve: Annotated[int, Bounds(0)] = 4_000
    warnings: tuple[str, ...] = ()


def _from_json(value: object) -> ChildInput:
    given = read(_CallJson, value)
    one = given.slice
    if one and ((one.start is None) != (one.end is None) or (one.start or 0) > (one.end or 0)):
        raise InputError("$.slice", "has an invalid range", "give start and end, or neither")
    slices = (ChildSliceText(*one),) if one else ()
    return ChildInput(given.prompt, given.window, given.output_reserve, slices, warnings=given.warnings)


def child_prompt(given: ChildInput) -> AssembledPrompt:
    """Return sections system, agent, history, context and task. None is ever cut.

    Raises SliceTooLarge if the slice does not fit, and BudgetExceeded if the rest alone does not fit.
    """
    given = replace(given, slices=_joined(given.slices))
    pieces = [_number_lines(piece) if given.numbered else piece.text for piece in given.slices]
    try:
        return _assemble(given, pieces)
    except BudgetExceeded as error:
        if not any(pieces):
            raise
        too_large = error
    many = len(pieces) > _FRAMED_PIECES
    # The labels of many pieces take room like their texts. Without pieces the prompt must fit.
    rest = _assemble(given, [] if many else [""] * len(pieces)).report.totals.prompt
    left = max(given.limit - rest, 0)
    chars = sum(len(piece.text) for piece in given.slices)
    if many:
        tokens = max(1, too_large.needed - rest)
        fitting = max(1, int(len(pieces) * left / tokens * _SPARE))
        raise SliceTooLarge(tokens, left, chars, 0, pieces=len(pieces), max_pieces=fitting) from too_large
    tokens = sum(given.counter.count_each(pieces))
    raise SliceTooLarge(tokens, left, chars, int(chars * left / tokens * _SPARE)) from too_large


def _joined(pieces: Sequence[ChildSliceText]) -> tuple[ChildSliceText, ...]:
    """Join pieces that touch or overlap, in the order of the text: each is read once, in one frame."""
    groups: list[tuple[ChildSliceText, list[str]]] = []
    for piece in pieces:
        if groups and piece.start is not None and piece.end is not None:
            last, texts = groups[-1]
            if last.start is not None and last.end is not None and last.start <= piece.start <= last.end:
                exact = len(piece.text) == piece.end - piece.start
                if exact and piece.document == last.document:
                    if piece.end > last.end:
                        texts.append(piece.text[last.end - piece.start :])
                        groups[-1] = (replace(last, end=piece.end, cut_end=piece.cut_end), texts)
                    continue
        groups.append((piece, [piece.text]))
    return tuple(piece if len(texts) == 1 else replace(piece, text="".join(texts)) for piece, texts in groups)


def _assemble(given: ChildInput, pieces: Sequence[str]) -> AssembledPrompt:
    data = table("child.toml")
    task = [_again(given.prompt)] if _is_shared(given) else [data["task"], given.prompt]
    texts: dict[str, list[str]] = {
        "system": [words("child_system.md")],
        "agent": _agent(given),
        "history": [],
        "context": _frame_pieces(given, pieces),
        "task": [*task, _close(given, pieces)],
    }
    sections = [
        Section(
            name,
            "system" if name in ("system", "agent") else "user",
            [Part(f"{name}-{number}", text) for number, text in enumerate(own, 1)],
            stable=name in ("system", "agent", "history"),
        )
        for name, own in texts.items()
    ]
    remedy = "shorten the task or raise child_tokens"
    if given.limit < 0:
        remedy = f"the headroom is larger than the budget; {remedy}"
    made = assemble(sections, given.limit, given.counter, remedy=remedy)
    return replace(made, report=made.report.with_warnings(given.warnings)) if given.warnings else made


def _agent(given: ChildInput) -> list[str]:
    """Return the lines that all calls of one batch share."""
    data = table("child.toml")
    lines: list[str] = []
    if given.stage:
        lines.append(data["stage"].format(stage=given.stage))
    if given.numbered and given.slices:
        lines.append(data["numbered"])
    if given.schema:
        lines.append(data["schema"].strip().format(schema=given.schema))
    elif given.remarks:
        lines.append(data["remarks"])
    if _is_shared(given):
        lines.append(f"{data['task']}\n{given.prompt}")
    else:
        lines.append(_brief(given.prompt) if given.slices else data["no_slice"])
    return lines


def _is_shared(given: ChildInput) -> bool:
    """Return whether the whole task stands before the slice, where the calls of a batch share it."""
    chars = sum(len(piece.text) for piece in given.slices)
    return bool(given.slices) and max(_SHARED_TASK_CHARS, chars) <= len(given.prompt) <= _MAX_SHARED_CHARS


def _again(task: str) -> str:
    """Return the reminder of a task that stands before the slice."""
    return str(table("child.toml")["task_before"].format(brief=_first_words(" ".join(task.split()))))


def _brief(task: str) -> str:
    """Return the task on one line: in full if it is short, or else its first words."""
    data, brief = table("child.toml"), " ".join(task.split())
    if len(brief) <= _SHORT_TASK_CHARS:
        return str(data["brief"].format(brief=brief))
    return str(data["brief_cut"].format(brief=_first_words(brief)))


def _first_words(task: str) -> str:
    return task[:_BRIEF_CHARS].rpartition(" ")[0] or task[:_BRIEF_CHARS]


def _close(given: ChildInput, pieces: Sequence[str]) -> str:
    """Return the last line: what to answer if nothing is there. It is said nowhere else."""
    data = table("child.toml")
    if not pieces:
        return str(data["close_no_slice"])
    return str(data["close"] if given.empty is None else data["close_empty"].format(empty=given.empty))


def _frame_pieces(given: ChildInput, pieces: Sequence[str]) -> list[str]:
    """Return the pieces between boundary lines, preceded by the part number if there are several parts."""
    data = table("child.toml")
    if not pieces:
        return []
    labels = [_label(piece) for piece in given.slices]
    texts = [piece.text for piece in given.slices]
    many = len(pieces) > _FRAMED_PIECES
    digits = _LABEL_DIGITS if many else CODE_DIGITS
    code = boundary_code([*labels, *texts], given.prompt, digits=digits)
    end = data["end"].format(code=code)
    if many:
        short = _short_labels(given.slices, labels)
        lines = [f"{code[:digits]} {label}\n{text}" for label, text in zip(short, pieces, strict=True)]
        label = data["pieces"].format(count=f"{len(pieces):,}", code=code[:digits])
        framed = ["\n".join([data["begin"].format(code=code, label=label), *lines, end])]
    else:
        framed = [
            f"{data['begin'].format(code=code, label=label)}\n{text}\n{end}"
            for label, text in zip(labels, pieces, strict=True)
        ]
    if given.pictures:
        framed.insert(0, data["pictures"].format(count=given.pictures, code=code))
    if given.part is not None and given.part[1] > 1 and framed:
        part, parts = given.part
        framed.insert(0, data["part"].format(part=f"{part:,}", parts=f"{parts:,}"))
    return framed


def _label(piece: ChildSliceText) -> str:
    facts = []
    if piece.document:
        facts.append(f"document {json_text(piece.document[:_LABEL_CHARS])}")
    if piece.section:
        facts.append(f"section {json_text(piece.section[:_LABEL_CHARS])}")
    if piece.page is not None:
        facts.append(f"page {piece.page}")
    if piece.message is not None:
        facts.append(f"message {json_text(piece.message[:_LABEL_CHARS])}")
    if piece.start is not None and piece.end is not None:
        facts.append(f"characters {piece.start} to {piece.end}")
    if piece.cut_start or piece.cut_end:
        where = [name for name, cut in (("start", piece.cut_start), ("end", piece.cut_end)) if cut]
        facts.append(f"cut off at its {' and its '.join(where)}")
    return ", ".join(facts) or str(table("child.toml")["made"])


def _short_labels(pieces: Sequence[ChildSliceText], labels: Sequence[str]) -> list[str]:
    """Return a label for each of many pieces. What is the same as before it is left out."""
    short, before = [], None
    for piece, label in zip(pieces, labels, strict=True):
        place = (piece.document, piece.section, piece.page, piece.message)
        is_same = place == before and piece.start is not None
        short.append(f"{piece.start}-{piece.end}" if is_same else label)
        before = place
    return short


def _number_lines(piece: ChildSliceText) -> str:
    lines = piece.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, piece.first_line))
