"""Words that deny, in several languages."""

from __future__ import annotations

import re

__all__ = ["denies", "doubts"]

_DENIALS = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|nowhere|neither|nor|cannot|without)\b|n['’]t\b"
    r"|\b(?:nicht|nie|niemals|kein(?:e[nmrs]?)?|niemand|nichts|ohne|weder)\b"
    r"|\b(?:ne|pas|jamais|aucune?|rien|personne|sans)\b|\b(?:nunca|jamás|ningun[oa]?|ningún|nada|sin|nadie)\b"
    r"|\b(?:non|mai|nessun[oa]?|niente|senza)\b|\b(?:não|nem|nenhum[a]?|sem)\b|\b(?:niet|geen|nooit|zonder)\b"
    r"|\b(?:не|нет|никогда|никто|ничего|без)\b|不|没|沒|無|无|未|非|ない|ません|なかった|안|않|못|없",
    re.IGNORECASE,
)
_DOUBTS = re.compile(
    r"\b(?:fail|refus|reject|den(?:y|ie)|declin|lack|miss|hardly|barely|rarely|seldom|scarcely|instead|rather"
    r"|avoid|prevent|stop|cancel|los[et]|imposs|except|forb[ia]d|absen[ct]|quit|against|ignor|far from"
    r"|dis(?:like|agree|approv|continu|miss|allow)|un(?!der|ti|it|i[voq]|cle|less)\w{3})\w*"
    r"|\b(?:fehl|weiger|ablehn|verhinder|statt|un(?!d|ter|ser)\w{4})\w*",
    re.IGNORECASE,
)


def denies(text: str) -> bool:
    """Return whether the text has a word that plainly denies."""
    return _DENIALS.search(text) is not None


def doubts(text: str) -> bool:
    """Return whether the text has a word that denies or turns a statement, however softly."""
    return denies(text) or _DOUBTS.search(text) is not None
