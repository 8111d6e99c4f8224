"""Make chats in many styles (engineers, customers, other languages, bots, reviews) with planted facts.

The phrasings are in `seen.toml` and `unseen.toml`. The rules of the summary were tuned on the first only,
and measured on the second when they were finished.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from chats import Chat, Fact

from rlm.prompts.history import Message
from rlm.prompts.history.message import Role

__all__ = ["styled_chat"]

_BURIED = 0.35  # share of the facts in the middle of other talk
_KEY = re.compile(r"\[\[(.+?)\]\]")
_SLOT = re.compile(r"\{(\w+?)2?\}")
_FOLDER = Path(__file__).parent
_WORDS: dict[str, list[str]] = tomllib.loads((_FOLDER / "words.toml").read_text(encoding="utf-8"))


def _a(dice: random.Random, kind: str) -> str:
    return dice.choice(_WORDS[kind])


def _of(dice: random.Random, words: str) -> str:
    return dice.choice(words.split())


def _name(dice: random.Random) -> str:
    return _a(dice, "first") + (f" {_a(dice, 'last')}" if dice.random() < 0.5 else "")


def _date(dice: random.Random) -> str:
    day, month = dice.randint(1, 28), dice.randint(1, 12)
    named = _WORDS["months"][month - 1]
    return dice.choice((f"{day} {named}", f"2027-{month:02}-{day:02}", f"{day}.{month}.", f"{named} {day}"))


def _path(dice: random.Random) -> str:
    file = _of(dice, "main sync codec loader rules quota") + _of(dice, ".py .go .toml .ts")
    return f"{_of(dice, 'src lib etc ops pkg tools')}/{_a(dice, 'services').replace('-', '_')}/{file}"


_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "ver": lambda dice: f"{dice.randint(1, 9)}.{dice.randint(0, 30)}.{dice.randint(0, 20)}",
    "svc": lambda dice: _a(dice, "services") + (f"-{dice.randint(2, 9)}" if dice.random() < 0.3 else ""),
    "ms": lambda dice: str(dice.randint(12, 990)),
    "n": lambda dice: str(dice.randint(11, 9_800)),
    "gb": lambda dice: str(dice.randint(3, 480)),
    "pct": lambda dice: str(dice.randint(61, 99)),
    "path": _path,
    "flag": lambda dice: f"{_of(dice, 'ENABLE USE')}_{_of(dice, 'V2_AUTH SHADOW')}{dice.randint(1, 9)}",
    "corp": lambda dice: _a(dice, "companies"),
    "sha": lambda dice: f"{dice.getrandbits(28):07x}",
    "table": lambda dice: f"{_of(dice, 'orders ledger seats')}_{_of(dice, 'v2 archive raw eu')}",
    "lib": lambda dice: _a(dice, "libraries"),
    "name": _name,
    "date": _date,
    "hour": lambda dice: f"{dice.randint(6, 22)}:{_of(dice, '00 15 30 45')}",
    "field": lambda dice: _of(dice, "cost_centre iban birth_date tax_code batch_no shelf_mark"),
    "acct": lambda dice: f"{_of(dice, 'A B K Q')}{dice.randint(100_000, 999_999)}",
    "money": lambda dice: f"{_of(dice, '€ $ £')}{dice.randint(2, 99)},{dice.randint(100, 999)}",
    "errtext": lambda dice: f"{_a(dice, 'sayings')} ({dice.randint(100, 999)})",
    "ticket": lambda dice: f"{_of(dice, 'OPS CS RMA FIN')}-{dice.randint(1_000, 9_999)}",
    "city": lambda dice: _a(dice, "cities"),
    "plan": lambda dice: _of(dice, "Harbour Summit Orchard Meadow Basalt Copper"),
    "opt": lambda dice: f"{_of(dice, 'A B C D E F')}{dice.randint(1, 9)}",
    "mail": lambda dice: f"{_a(dice, 'first')}.{_a(dice, 'last')}@example.org".lower(),
    "port": lambda dice: str(dice.randint(1_025, 65_000)),
    "func": lambda dice: f"{_of(dice, 'parse flush resolve')}_{_of(dice, 'frame index lease')}()",
    "exc": lambda dice: _a(dice, "errors"),
    "login": lambda dice: f"{_a(dice, 'first').lower()}{dice.randint(2, 99)}",
    "host": lambda dice: f"{_of(dice, 'db web edge')}{dice.randint(1, 40):02}.{_of(dice, 'fra ams iad')}",
    "clock": lambda dice: f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}",
}


def styled_chat(
    seed: int, phrasings: str, messages: int = 500, facts: int = 70, *, talk: Sequence[str] = ()
) -> Chat:
    """Make a chat of `messages` messages, the same for the same seed. `phrasings` is `seen` or `unseen`."""
    styles = tomllib.loads((_FOLDER / f"{phrasings}.toml").read_text(encoding="utf-8"))
    dice = random.Random(f"{phrasings}{seed}")
    choices = [
        (kind, style, phrase)
        for style, kinds in styles.items()
        for kind, phrases in kinds.items()
        for phrase in phrases
    ]
    people = dice.sample(_WORDS["first"], 5)
    planted = set(dice.sample(range(messages), facts))
    written: list[Message] = []
    found: list[Fact] = []
    for place in range(messages):
        text = " ".join(_small_talk(dice, talk) for _ in range(dice.choice((1, 1, 2, 3))))
        if place in planted:
            kind, style, phrase = dice.choice(choices)
            filled = _filled(dice, phrase)
            found.append(Fact(kind, style, tuple(_KEY.findall(filled)), place))
            text = _KEY.sub(r"\1", filled)
            if dice.random() < _BURIED:
                text = _buried(dice, text, talk)
        role: Role = "assistant" if place % 2 else "user"
        day = f"2026-03-{1 + place * 28 // messages:02}"
        written.append(Message(role, text, author=dice.choice(people), created_at=day))
    return Chat(tuple(written), tuple(found))


def _filled(dice: random.Random, phrase: str) -> str:
    values: dict[str, str] = {}
    for slot in _SLOT.finditer(phrase):
        values.setdefault(slot[0], _MAKERS[slot[1]](dice))
    return _SLOT.sub(lambda slot: values[slot[0]], phrase)


def _buried(dice: random.Random, fact: str, talk: Sequence[str]) -> str:
    around = [_ended(_small_talk(dice, talk)) for _ in range(dice.randint(1, 5))]
    around.insert(dice.randrange(1, len(around) + 1), _ended(fact))
    return dice.choice((" ", "\n")).join(around)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "。")) else f"{text}."


def _small_talk(dice: random.Random, talk: Sequence[str]) -> str:
    return dice.choice(talk) if talk and dice.random() < 0.6 else _a(dice, "talk")
