"""Build the prompt that checks claims against their passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlm.escaping import json_text
from rlm.prompts.boundary import boundary_code
from rlm.prompts.fitting import Part, Section, assemble
from rlm.prompts.prompt import AssembledPrompt
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["ClaimText", "PassageText", "SupportInput", "planted_claim", "support_prompt"]

_LABEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class PassageText:
    """A passage with its number, its place and the text around it ("" for none). `is_row`: it is a short
    message, shown on one line. `follows`: it stands right after the passage of the number before in the
    text."""

    number: int
    text: str
    label: str = ""
    near: str = ""
    is_row: bool = False
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ClaimText:
    """A claim with its number and the numbers of its passages."""

    number: int
    text: str
    passages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SupportInput:
    """Claims and the passages that they cite. The prompt takes at most `max_tokens`, counted by `counter`."""

    claims: Sequence[ClaimText]
    passages: Sequence[PassageText]
    max_tokens: int
    counter: Counter = field(default_factory=get_counter)


def support_prompt(given: SupportInput) -> AssembledPrompt:
    """Return sections system, passages and claims: instructions, and what they are about. None is ever cut.
    Raises BudgetExceeded if they do not fit."""
    words = table("support.toml")
    texts = [text for one in given.passages for text in (one.text, one.label, one.near)]
    texts += [one.text for one in given.claims]
    code = boundary_code(texts)
    passages = ["\n".join(_block(rows, code)) for rows in _blocks(given.passages)]
    claims = "\n".join(
        [words["claims"].format(code=code), *map(_claim, given.claims), words["end"].format(code=code)]
    )
    return assemble(
        [
            Section("system", "system", [Part("system", words["check"].strip())], stable=True),
            Section(
                "passages",
                "user",
                [Part(f"passages-{number}", text) for number, text in enumerate(passages, 1)],
                separator="\n",
            ),
            Section("claims", "user", [Part("claims", claims)]),
        ],
        given.max_tokens,
        given.counter,
        remedy="give fewer claims",
    )


def planted_claim(number: int) -> str:
    """Return a claim with a number, for claims that have none."""
    return str(table("support.toml")["planted"].format(number=number))


def _blocks(passages: Sequence[PassageText]) -> list[list[PassageText]]:
    """Return the passages, rows that follow each other together."""
    blocks: list[list[PassageText]] = []
    for one in passages:
        before = blocks[-1][-1] if blocks else None
        if one.is_row and one.follows and before and before.is_row and before.number == one.number - 1:
            blocks[-1].append(one)
        else:
            blocks.append([one])
    return blocks


def _block(rows: Sequence[PassageText], code: str) -> list[str]:
    if not rows[0].is_row:
        return [_passage(rows[0], code)]
    words = table("support.toml")
    shown = [
        words["row"].format(
            number=one.number,
            label=" ".join(one.label[:_LABEL_CHARS].split()),
            text=" ".join(one.text.split()),
        )
        for one in rows
    ]
    return [words["rows"].format(code=code, first=rows[0].number, last=rows[-1].number), *shown]


def _passage(one: PassageText, code: str) -> str:
    words = table("support.toml")
    label = f": {json_text(one.label[:_LABEL_CHARS])}" if one.label else ""
    near = words["around"].format(near=" … ".join(one.near.split("\n"))) if one.near.strip() else ""
    return f"{words['passage'].format(code=code, number=one.number, label=label)}\n{one.text}{near}"


def _claim(one: ClaimText) -> str:
    words = table("support.toml")
    form = words["cited" if len(one.passages) == 1 else "cited_many"]
    passages = form.format(numbers=", ".join(map(str, one.passages)))
    text = " ".join(one.text.split())
    return str(words["claim"].format(number=one.number, passages=passages, text=text))
