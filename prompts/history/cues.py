"""Turns of phrase that say what a sentence of a working chat is about (`text/cues.toml`).

A sentence without any of them can still be kept: names, numbers and rare words speak in every language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from prompts.words import table

__all__ = [
    "CORRECTION",
    "DEPENDENT",
    "FIRST_PERSON",
    "HEADINGS",
    "OWN_VOICE",
    "SMALL_TALK",
    "Hits",
    "cues_in",
]

HEADINGS = ("Task Summary", "Key Decisions", "Errors Resolved", "Current State", "Remaining Work")


def _pattern(phrases: Sequence[str], unspaced: str = "") -> re.Pattern[str]:
    """For text in small letters: matching in any case takes four times as long. `unspaced` may stand within a
    word."""
    within = f"|{unspaced}" if unspaced else ""
    return re.compile(rf"(?<![\w-])(?:{'|'.join(phrases)})(?!\w){within}")


class Hits(NamedTuple):
    """The turns of phrase of one heading that a sentence holds, in small letters."""

    strong: frozenset[str]
    weak: frozenset[str]


@cache
def _cues() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """For each heading: phrases that tell much, and phrases that tell a little. Made when first asked for:
    that takes longer than the import of all the rest."""
    found = table("cues.toml")
    return tuple(
        (
            _pattern([*found[heading]["strong"], *found[heading]["other"]], found[heading]["unspaced"]),
            _pattern(found[heading]["weak"]),
        )
        for heading in HEADINGS
    )


def cues_in(text: str) -> tuple[Hits, ...]:
    """What `text` says that belongs under each of `HEADINGS`."""
    small = text.lower()
    return tuple(
        Hits(frozenset(strong.findall(small)), frozenset(weak.findall(small))) for strong, weak in _cues()
    )


CORRECTION = _pattern(
    [
        "actually|correction|scratch that|no longer|update:|to clarify|revis\\w+|supersed\\w+|i was wrong",
        r"chang\w+ (?:my|our) minds?|on second thoughts?|forget (?:what|that|the)|from now on",
        "new (?:limit|rule|requirement|deadline|plan)",
    ]
)
"""A later word on something said before."""

OWN_VOICE = _pattern(
    [
        r"i|we|my|our|us|me|ours|mine|\w+['’](?:m|d|ve|ll|re)|\w+n['’]t|(?:it|that|there|what|who)['’]s",
        "by the way|keep in mind|after all|all right|fine|please|for good|any ?more|of course|anyway",
        r"(?:they|users?|customers?|clients?|staff|people|partners?|management|legal|boss|manager)"
        r"(?:'d| would| will)? (?:really |still |also )?"
        r"(?:want|like|love|hate|care|need|ask|tell|told|keep|complain)\w*",
    ]
)
"""Somebody speaks for themselves, or for those the work is for."""

FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|we|our|ours|us|ich|mein\w*|mir|mich|wir|uns\w*|yo|mi|nosotr[oa]s|nuestr[oa]s?|je|mon|nous|nos|notre"
    r"|io|noi|ik|wij|я|мой|моя|меня|мне|мы|наш\w*|нас)\b|\bj['’]|我|私|僕",
    re.IGNORECASE,
)
"""Words that mean nothing to who does not know who is speaking."""

DEPENDENT = re.compile(
    r"(?:because|this|that|it|they|these|those|so|turns? out|turned out|due to"
    r"|(?:the )?(?:reason|cause|culprit|fix|root cause|problem|idea|rationale)"
    r"|which|otherwise|namely|we'd|mainly|specifically|instead)\b",
    re.IGNORECASE,
)
"""How a sentence begins that means little without the one before it."""

SMALL_TALK = frozenset(
    """
    about actually after again all also always and another any anybody anyone anything are around away back
    because been before being best better both but came can can't come could couldn't did didn't different does
    doesn't doing don't done down each else even ever every everybody everyone everything exactly few find first
    for from gave get gets getting give given going gone gonna good got gotta great guess had happen happened has
    have haven't having hello her here hers hey hi him his hmm how however i'd i'll i'm i've idea into isn't it'd
    it'll it's its just keep kind kinda knew know last least less let let's like little long look looking looks lot
    lots made make makes making many maybe mean means might mine more most much must need never new next nice nobody
    not nothing now off often okay old once one only other others our out over own people perhaps please point
    pretty probably put quite rather really right said same saw say saying says see seems seen several shall she
    should since some somebody someone something sometimes soon sorry sort still stuff such sure take taking talk
    talking tell than thank thanks that that'd that'll that's the their them then there there's these they they'd
    they'll they're they've thing things think thinking this those though thought through time times together told
    too took tried true try trying two uhm under until upon use used using usually very wanna want wanted wants
    was wasn't way well went were what what's whatever when where whether which while who who's whole why will with
    without won't work works would wouldn't wow yeah yep yes yet you you'd you'll you're you've your yours
    auch aber alles also ausserdem bei bin bist dann das dass dem den der des die doch eine einem einen einer eines
    gut haben hat hatte hier ich ihr ihre ist jetzt kann kein keine man mein mich mir mit nach nicht noch nur oder
    schon sehr sein sich sie sind und uns unser vielleicht von vor war was wenn wer wie wir wird zum zur
    ahora algo como con cuando del donde ella ellos eso esta estaba estamos están estar este esto hay las los más muy
    nada nos otra otro para pero por porque pues que qué quien ser siempre sin sobre solo son sus también tan
    tengo tiene todo todos una uno vamos voy
    ainsi alors après au aussi avec bien c'est cela ces cette comme dans des donc elle elles est être fait ils
    j'ai juste les leur mais mes moi mon même notre nous on ont par parce pas peu peut plus pour quand qu'il
    sans ses son sont sur toi tout très une votre vous
    без больше был была были было быть вам вас все всё где для его ещё если есть или как когда кто мне можно мы нас
    него нет она они оно вот вообще просто так там тебя то тоже только ты уже хорошо что чтобы это этого этот
    """.split()  # noqa: SIM905
)
"""Words that all talk is full of. They are no subject."""
