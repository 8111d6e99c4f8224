"""The texts of the trial: invented, of one seed, so that every machine makes the same bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

__all__ = ["TEXTS", "write_texts"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PLACES = _words("north east south west upper lower old new inner outer mill harbour chapel quarry orchard")
_NOUNS = _words(
    "sluice ladder gauge valve bridge cellar pump gate boiler hoist basin winch ledger filter beacon"
)
_VERBS = _words("checks paints oils moves measures cleans counts repairs labels empties locks lifts")
_PEOPLE = _words("Ada Bram Cleo Dov Edda Finn Gita Hugo Ines Jonas Kaya Leon Mira Nils Odile Pavel")


def _filler(chance: random.Random) -> str:
    person, verb, noun = chance.choice(_PEOPLE), chance.choice(_VERBS), chance.choice(_NOUNS)
    day = chance.choice(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"])
    return (
        f"{person} {verb} the {chance.choice(_PLACES)} {noun} on {day} and notes the reading in the book. "
        f"If the {chance.choice(_NOUNS)} is wet, {chance.choice(_PEOPLE)} is told before noon."
    )


def _handbook() -> Mapping[str, str]:
    chance = random.Random(1)
    lines = [_filler(chance) for _ in range(1_400)]
    for number, place in enumerate(_PLACES):
        code = 7_315 if place == "north" else 4_100 + 37 * number
        lines[90 * number + 17] += f" The override code of the {place} sluice is {code}."
    lines[1_300] += " The override code of the north ladder is 2290, which is no secret."
    return {"handbook.txt": "\n\n".join(lines) + "\n"}


def _tickets() -> Mapping[str, str]:
    chance = random.Random(2)
    rows = [
        {
            "id": f"T-{number:04d}",
            "opened": f"2025-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
            "team": chance.choice(["payments", "payments-mobile", "search", "accounts", "shipping"]),
            "severity": chance.choice([1, 2, 2, 3, 3, 3]),
            "status": chance.choice(["open", "open", "closed", "closed", "reopened", "duplicate"]),
            "title": _filler(chance).partition(".")[0],
        }
        for number in range(1, 1_801)
    ]
    return {"tickets.jsonl": "".join(json.dumps(row) + "\n" for row in rows)}


def _shop() -> Mapping[str, str]:
    chance = random.Random(3)
    lands = ["Norway", "Chile", "Ghana", "Japan", "Latvia", "Peru"]
    customers = "".join(
        f"{number},{chance.choice(_PEOPLE)},{chance.choice(lands)}\n" for number in range(1, 401)
    )
    states = ["paid", "paid", "paid", "refunded", "open"]
    orders = "".join(
        f"{number},{chance.randint(1, 400)},{chance.choice(states)},{chance.randint(5, 900)}\n"
        for number in range(1, 5_001)
    )
    return {
        "customers.csv": "id,name,country\n" + customers,
        "orders.csv": "id,customer_id,status,euros\n" + orders,
    }


def _log() -> Mapping[str, str]:
    chance = random.Random(4)
    now, lines = datetime(2025, 3, 9, 0, 0), []
    for _ in range(9_000):
        now += timedelta(seconds=chance.randint(0, 3))
        worker = f"worker-{chance.randint(1, 12):02d}"
        kind = chance.choices(["ok", "slow", "timeout", "retry after timeout"], [80, 10, 6, 4])[0]
        level = {"ok": "INFO", "slow": "WARN", "timeout": "ERROR", "retry after timeout": "WARN"}[kind]
        detail = f"job {chance.randint(10_000, 99_999)} {kind} in {chance.randint(3, 900)} ms"
        lines.append(f"{now:%Y-%m-%dT%H:%M:%S}Z {level} {worker} {detail}")
    return {"jobs.log": "\n".join(lines) + "\n"}


def _lease() -> Mapping[str, str]:
    chance = random.Random(5)
    clauses = [f"{number // 10 + 1}.{number % 10 + 1} {_filler(chance)}" for number in range(420)]
    clauses[133] = (
        "14.4 The lessee may end this lease early by written notice of 90 days, which begins on the first "
        "day of the month after the lessor received it."
    )
    clauses[212] = (
        "22.3 The lessee shall not sublet the mill or a part of it without the prior written consent of "
        "the lessor."
    )
    clauses[301] = "31.2 The lessor may end this lease early by written notice of 180 days."
    clauses[340] = "35.1 A penalty of 2 percent a month is due on rent that is paid late."
    amendments = [
        "Amendment 1. In clause 31.2 the words `180 days` are replaced by `120 days`.",
        "Amendment 2. In clause 14.4 the notice period is halved. All else in the clause stays as it is.",
        "Amendment 3. Clause 9.9 is deleted.",
    ]
    return {"lease.txt": "\n\n".join(["LEASE OF THE OLD MILL", *clauses, *amendments]) + "\n"}


def _policies() -> Mapping[str, str]:
    chance = random.Random(6)
    sections = [f"Section {number}. {_filler(chance)} {_filler(chance)}" for number in range(1, 161)]
    newer = list(sections)
    newer[36] = newer[36].replace("before noon", "before dusk", 1)
    newer[88] = newer[88].replace("notes the reading", "does not note the reading", 1)
    newer[141] = newer[141].replace(" is wet", " is dry", 1)
    # Other line breaks, which are no difference in what a section says.
    newer[10] = newer[10].replace(". ", ".\n", 1)
    return {"policy-a.txt": "\n\n".join(sections) + "\n", "policy-b.txt": "\n\n".join(newer) + "\n"}


def _chat() -> Mapping[str, str]:
    chance = random.Random(7)
    said = {
        80: ("Ada", "For the boat trip: shall we take the Petrel? It is 980 for the day."),
        81: ("Dov", "The Petrel is fine with me. 7 June then."),
        84: ("Cleo", "Good, boat trip on 7 June with the Petrel."),
        510: ("Dov", "Bad news on the trip: the owner has sold the Petrel. We need another boat."),
        517: ("Ines", "There is the Marlin, 1,240 with fuel, but not on the 7th."),
        523: ("Ada", "Then 14 June. Who can do the 14th?"),
        530: ("Cleo", "I can. Everybody? Then it is settled: the Marlin, 14 June."),
        902: ("Hugo", "I can't be captain on the trip after all, my licence has run out."),
        911: ("Odile", "I have mine. I'll be captain on the trip."),
        912: ("Ada", "Thanks Odile, that is that."),
        1_190: ("Finn", "Could the trip be on the 21st instead?"),
        1_196: ("Ada", "No, the boat is booked. We stay with what we said."),
    }
    lines = []
    for number in range(1_400):
        person, words = said.get(number, (chance.choice(_PEOPLE), _filler(chance)))
        lines.append(
            f"[{number // 60 + 1:02d}/05/2025, {number % 24:02d}:{number % 60:02d}] {person}: {words}"
        )
    return {"chat.txt": "\n".join(lines) + "\n"}


_STAYS = [
    "We had already asked for the same room in spring before we left the car park.",
    "My mother, who complains about everything, wanted to know the price of a whole month.",
    "The children cried at the gate, and I promised them another summer there.",
    "It was loud on the first night, they moved us at once, and the rest made us forget it.",
    "Not cheap at all, and worth every coin; our friends come along the next time.",
    "I expected little from the photographs and was ashamed of it by the evening.",
    "The soup was salty. That is all I can find against it, and I looked hard.",
    "Three years in a row now, and the landlord still remembers how we take our coffee.",
]
_LEAVES = [
    "Next year we shall see what the other side of the lake has to offer.",
    "They were all smiles at the desk. The mould behind the wardrobe smiled less.",
    "A lovely breakfast, I grant them that, and one night of it was enough for a lifetime.",
    "I still have the key, and no wish to bring it back in person.",
    "The view is everything they say. You will want to look at it, given the beds.",
    "We left two days early and slept well for the first time, in the car.",
    "If you like to hear your neighbours think, this is your house; we don't.",
    "Splendid staff. I hope they find better work soon, so that nobody needs to go.",
]


def _reviews() -> Mapping[str, str]:
    chance = random.Random(8)
    leaving = [True] * 19 + [False] * 37
    chance.shuffle(leaving)
    reviews = []
    for number, leaves in enumerate(leaving, 1):
        middle = chance.choice(_LEAVES if leaves else _STAYS)
        reviews.append(
            f"Review {number} by {chance.choice(_PEOPLE)}\nWe came on a {chance.choice(['rainy', 'bright'])} "
            f"afternoon and stayed {chance.randint(2, 9)} nights in the {chance.choice(_PLACES)} wing. "
            f"{middle} "
            f"The {chance.choice(_NOUNS)} in the yard was painted."
        )
    return {"reviews.txt": "\n\n".join(reviews) + "\n"}


def _minutes() -> Mapping[str, str]:
    chance = random.Random(9)
    keys = {
        11: "Bram takes the key of the archive from Edda.",
        29: "As Bram travels, the archive's key goes to Kaya until he is back.",
        34: "Bram is back from his travels.",
        47: "Nils gets the key of the archive from whoever has it now.",
        58: "Nils hands the key of the cellar to Mira, and keeps the other one.",
        66: "The archive's key changes hands: Pavel has it from today.",
    }
    pages = []
    for week in range(80):
        day = datetime(2024, 1, 1) + timedelta(weeks=week)
        points = [_filler(chance) for _ in range(7)]
        points.insert(chance.randint(0, 7), keys.get(week, _filler(chance)))
        numbered = "\n".join(f"{number}. {point}" for number, point in enumerate(points, 1))
        pages.append(f"# Minutes of {day:%d %B %Y}\n\n{numbered}")
    return {"minutes.md": "\n\n".join(pages) + "\n"}


TEXTS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "handbook": _handbook,
    "tickets": _tickets,
    "shop": _shop,
    "log": _log,
    "lease": _lease,
    "policies": _policies,
    "chat": _chat,
    "reviews": _reviews,
    "minutes": _minutes,
}


def write_texts(name: str, folder: Path) -> list[Path]:
    """Write the files of a text below `folder`, and return their paths."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for file, text in TEXTS[name]().items():
        paths.append(target / file)
        paths[-1].write_text(text, "utf-8")
    return paths
