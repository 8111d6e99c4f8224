"""Make working chats with planted facts, to measure what a summary keeps.

Each fact occurs once among other talk, in one of three manners. `usual` facts use words such as "must",
"error" or "decided". `plain` facts are recognizable by their numbers and names alone. `quietly` said facts
use everyday words without either. A fact survives if one line of the compacted text holds all its keys: the
values filled in, or for a quiet fact the words marked in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm.prompts.history import Message
from rlm.prompts.history.message import Role

__all__ = ["Chat", "Fact", "chat", "survives"]


@dataclass(frozen=True, slots=True)
class Fact:
    """`kind` is requirement, error, decision or state; `manner` is usual, plain or quiet."""

    kind: str
    manner: str
    keys: tuple[str, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Chat:
    messages: tuple[Message, ...]
    facts: tuple[Fact, ...]


# {n} a number, {name} a person, {thing} a product or module, {path} a file. The keys are what is filled in.
_USUAL = {
    "requirement": (
        "The export must finish within {n} seconds, even for the {thing} tenant.",
        "Please make sure {thing} never stores more than {n} rows per customer.",
        "One more requirement: uploads to {thing} are limited to {n} MB.",
        "It has to keep working with {thing} {n}, some clients will not upgrade.",
        "We need the audit trail in {path} kept for at least {n} days.",
        "{name} from legal insists that {thing} asks for consent again after {n} months.",
    ),
    "error": (
        "The build failed with exit code {n}: {thing} could not find {path}.",
        "Found the bug. {thing} crashed because {path} was read before the lock was taken, {n} times.",
        "Got `{thing}Error: unexpected token at byte {n}`; root cause was a stray BOM in {path}.",
        "The timeout on {thing} came from a pool of only {n} connections. Raising it in {path} fixed it.",
        "Deadlock in {thing}: two workers waited on row {n}. Resolved by ordering the locks in {path}.",
    ),
    "decision": (
        "We decided to go with {thing} rather than the old broker because it survives {n} reconnects.",
        "Decision: {thing} runs with {n} shards, since {name} measured that more only costs memory.",
        "Let's use {thing} for the queue; {name} is right that the alternative needs {n} more services.",
        "{name} and I agreed to drop {path} and generate it from {thing} at start-up, version {n}.",
        "I chose {thing} over a home-made parser, it handles {n} edge cases that ours doesn't.",
    ),
    "state": (
        "Status: {thing} is done, {n} of its tests pass, only {path} is left.",
        "So far {n} endpoints of {thing} are implemented and merged.",
        "{path} is in progress; I left off at step {n} of the {thing} checklist.",
        "Still to do: the {thing} importer and {n} fixtures in {path}.",
        "Next step is to roll {thing} out to the {n} pilot users {name} picked.",
    ),
}
_PLAIN = {
    "requirement": (
        "Invoices above {n} euros go through {name}'s desk first, whatever {thing} says.",
        "Our auditors look at {thing} every {n} weeks and expect a signed PDF.",
        "Half the crew works from ships with {n} kbit/s, so {thing} has to feel quick there as well.",
        "Blind users navigate {thing} by keyboard; {name} will try all {n} screens that way.",
        "Nobody outside {name}'s team may see what is in {path}, not even the first {n} lines.",
    ),
    "error": (
        "After {n} requests {thing} just sat there. {path} had a comma too many.",
        "{thing} gave me garbage from row {n} on: the file {path} is Latin-1, not UTF-8.",
        "Every {n}th message reached {thing} twice, the consumer in {path} acknowledged too late.",
        "Memory of {thing} climbed to {n} GB overnight; a listener in {path} was never removed.",
    ),
    "decision": (
        "{thing} it is, then: {name} ran both for {n} hours and the other one lost rows.",
        "No more nightly jobs for {thing}; a trigger every {n} minutes is simpler, says {name}.",
        "I'm keeping {path} as one file. Splitting it in {n} would only hide how {thing} hangs together.",
        "Between the two drafts {name} liked the one with {thing} at the edge and {n} replicas behind.",
    ),
    "state": (
        "{thing} answers on port {n} in staging and {name} has clicked through it.",
        "{n} of the 40 screens in {path} have the new {thing} layout.",
        "The {thing} branch sits in review with {name}, {n} comments open.",
        "Nobody has touched {path} since {thing} was frozen at revision {n}.",
    ),
}
# The keys are between asterisks.
_QUIET = {
    "requirement": (
        "Guests should be able to leave a *review* without an *account*.",
        "The dashboard has to work on *phones* held *sideways* too.",
        "Never send *reminders* on *weekends*, people hated that.",
        "Whoever deletes a *folder* needs a way to get it *back*.",
        "I want the *receipts* in the language of the *buyer*.",
        "People with slow *laptops* complain, so no *animations* please.",
        "Prices are shown with *tax*, in the *basket* as well.",
        "The *intern* account may look at *salaries* of nobody.",
    ),
    "error": (
        "The parser loses the last line when a file does not end in a *newline*: it stops too *early*.",
        "Logins failed for anyone with an *umlaut* in the *password*, it was encoded twice.",
        "The *thumbnails* came out *upside* down because the camera's orientation was ignored.",
        "It works on my machine but not in the *container*: the *locale* there is unset.",
        "Search returned nothing for *plurals*, the *stemmer* was switched off.",
        "The *clock* on the build server ran ahead and the *certificate* looked expired.",
    ),
    "decision": (
        "We'll keep *sessions* in the database, *cookies* are too small for them.",
        "I'd rather not write our own *scheduler*; plain *cron* is enough here.",
        "Let's skip *pagination* for now and load everything, the *lists* are short.",
        "The *mobile* team prefers one big *request* over many little ones, so that is what we do.",
        "We are dropping *webhooks*, nobody could explain who *listens*.",
        "After some back and forth the *blue* theme stays and the *sidebar* goes.",
    ),
    "state": (
        "The *importer* works end to end, only the *preview* is missing.",
        "*Billing* is finished and merged, *refunds* are not started.",
        "I am in the middle of the *migration*, the old *tables* still exist.",
        "The *translations* are half done, *Polish* comes next.",
        "The *signup* form is live for *staff*.",
    ),
}
_NAMES = ("Oduya", "Marit", "Tomasz", "Ines", "Keiko", "Brandt", "Salma", "Piotr", "Leila", "Anselm", "Yusuf")
_THINGS = (
    *(
        "Quillon",
        "Brasslet",
        "Fernway",
        "Okapi",
        "Tessel",
        "Marlow",
        "Vantree",
        "Pinnace",
        "Corvid",
        "Halyard",
    ),
    *("Juniper", "Sextant", "Larkspur", "Gantry", "Ombra", "Tindall", "Wicket", "Zephyr", "Cobble", "Drover"),
)
_PATHS = (
    *("src/ledger/close.rs", "app/jobs/sweep.py", "infra/edge.tf", "web/cart/Total.tsx", "db/0042_split.sql"),
    *("conf/limits.toml", "lib/geo/tiles.go", "tests/replay_spec.rb", "ops/rotate.sh", "docs/intake.md"),
)

_OPENERS = (
    "Okay.",
    "Sure.",
    "Thanks!",
    "Right,",
    "Hm.",
    "Good morning.",
    "Back from lunch.",
    "Let me see.",
    "Alright.",
)
_TALK = (
    "I am looking through the module now and will report what I see.",
    "That reads well to me, the naming is consistent with the rest.",
    "I renamed a few variables in chapter {k} so that the intent is clearer.",
    "Could you show me that part again before we go on?",
    "I ran the usual checks on batch {k} and there was nothing new.",
    "The function takes a list and gives back another list, as before.",
    "I will tidy this up a little and come back to you.",
    "No objections from my side, carry on.",
    "Here is the next piece, it is mostly plumbing around helper {k}.",
    "I added a docstring and moved the import to the top.",
    "The diff is small, about {k} lines, mostly whitespace.",
    "I like how that turned out, it is easier to follow now.",
    "Let me think about how the pieces fit together for a moment.",
    "I compared it with the version from last week and they look alike.",
    "The loop is straightforward, and the condition is the same as in part {k}.",
    "Coffee first, then I will have a proper look at it.",
    "We can talk about the wording of the comments another time.",
    "That test was already there, I only changed the order of the arguments.",
    "It is the same pattern as in the other handler, nothing surprising.",
    "I have read through everything up to section {k} without any questions.",
)
# Talk without facts that looks important: numbers, names and paths everywhere.
_BUSY = (
    "Opened {path} at line {k}, that is where {name} left a comment in May.",
    "Reading {thing} now, {k} lines of it.",
    "{name} says hello, by the way.",
    "`{thing}.load()` is called from {path} and from one more place.",
    "The log of {thing} has {k} entries for today, all of them quiet.",
    "As {name} wrote on the ticket #{k}, there is no hurry.",
    "{path} is {k} lines long, I had expected less.",
)
_LOG = "[{k:02d}:{j:02d}:07] INFO worker-{j} processed job {k} in {j} ms"


def chat(
    seed: int, messages: int = 500, facts: int = 80, *, talk: Sequence[str] = (), busy: bool = False
) -> Chat:
    """Make a chat of `messages` messages, the same for the same seed.

    `talk` are sentences of real chats to use between the facts. `busy` talk is full of numbers, names and
    paths.
    """
    dice = random.Random(seed)
    planted = set(dice.sample(range(2, messages - 1), facts))
    found: list[Fact] = []
    written = [Message("system", "You are an engineer on this project. Answer in English.")]
    for place in range(1, messages):
        sentences = _small_talk(dice, talk, busy=busy)
        role: Role = "user" if place % 2 else "assistant"
        if place in planted:
            fact, sentence = _fact(dice, place)
            found.append(fact)
            sentences.insert(dice.randrange(len(sentences) + 1), sentence)
            role = "user" if fact.kind == "requirement" else "assistant"
        elif dice.random() < 0.06:
            role, sentences = "tool", ["\n".join(_logged(dice) for _ in range(dice.randrange(4, 12)))]
        written.append(Message(role, " ".join(sentences)))
    return Chat(tuple(written), tuple(found))


def _fact(dice: random.Random, place: int) -> tuple[Fact, str]:
    kind = dice.choice(tuple(_USUAL))
    manner, phrases = dice.choice((("usual", _USUAL), ("plain", _PLAIN), ("quiet", _QUIET)))
    phrase = dice.choice(phrases[kind])
    if manner == "quiet":
        parts = phrase.split("*")
        return Fact(kind, manner, tuple(parts[1::2]), place), "".join(parts)
    values = _values(dice)
    keys = tuple(value for slot, value in values.items() if f"{{{slot}}}" in phrase)
    return Fact(kind, manner, keys, place), phrase.format(**values)


def _values(dice: random.Random) -> dict[str, str]:
    return {
        "n": str(dice.randrange(1_000, 9_999)),
        "name": dice.choice(_NAMES),
        "thing": dice.choice(_THINGS),
        "path": dice.choice(_PATHS),
    }


def _small_talk(dice: random.Random, talk: Sequence[str], *, busy: bool) -> list[str]:
    count = dice.randrange(2, 7)
    if talk:
        return [dice.choice(talk) for _ in range(count)]
    sentences = dice.sample(_TALK + _BUSY * 2 if busy else _TALK, count)
    filled = [sentence.format(k=dice.randrange(1, 400), **_values(dice)) for sentence in sentences]
    return [dice.choice(_OPENERS), *filled] if dice.random() < 0.4 else filled


def _logged(dice: random.Random) -> str:
    return _LOG.format(k=dice.randrange(24), j=dice.randrange(60))


def survives(fact: Fact, text: str) -> bool:
    """Return whether one line of `text` holds every key of the fact. Numbers must match as a whole."""
    keys = [re.compile(rf"(?<!\d){re.escape(key)}(?!\d)") for key in fact.keys]
    return any(all(key.search(line) for key in keys) for line in text.splitlines())
