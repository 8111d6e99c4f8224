"""Patterns for dates and times in the formats of logs and chats."""

from __future__ import annotations

import re

__all__ = ["DATE", "MOMENT", "TIME", "date_in"]

_MONTH = (
    r"(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
    # German, French, Spanish, Portuguese, Italian, Dutch, Russian
    r"|(?i:j[aä]n(?:uar|v(?:ier|\.?)|eiro)|f[eé]v(?:rier|ereiro|\.)|märz|mars|maart|avr(?:il|\.)|abr(?:il|\.)|mai|mei|maio"
    r"|juin|juil(?:let|\.)|okt(?:ober|\.)|oct(?:obre|\.)|août|dez(?:ember|embro|\.)|déc(?:embre|\.)|dic(?:iembre|embre|\.)"
    r"|enero|febrero|marzo|mayo|junio|julio|agosto|septiembre|setembro|outubro|novembro|noviembre|gennaio|febbraio"
    r"|aprile|maggio|giugno|luglio|settembre|ottobre|março|junho|julho"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря))"
)
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ ])?"

DATE = (
    rf"(?:{_DAY}(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}|\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}"
    r"|\d{4}年\d{1,2}月\d{1,2}日"
    rf"|\d{{1,2}}\.? (?:de )?{_MONTH},?(?: de)? \d{{4}}(?: г\.)?|{_MONTH}[ ]{{1,2}}\d{{1,2}}(?:,? \d{{4}})?))"
)
"""`2026-05-01`, `1/5/26`, `1 May 2026`, `May  1`."""

TIME = (
    r"(?:\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?(?:[ \u202f]?[aApP]\.?[mM]\b\.?)?"
    r"(?:[ ]?(?:Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}))?)"
)
"""`10:00`, `10:00:05.123Z`, `4:04 pm`."""

MOMENT = (
    rf"(?:{DATE}(?:(?:T|,?[ ]|[ ](?:at|um|à|a las|às|alle|om|в)[ ]|[ ]-[ ]){TIME}(?: Uhr)?)?"
    rf"|{TIME}(?:,?[ ](?:on[ ])?{DATE})?)"
)
"""A date, a time, or both in either order."""

_DATE = re.compile(rf"(?<![\w.-]){MOMENT}", re.IGNORECASE)


def date_in(line: str) -> str | None:
    """Return the first date or time in `line`, as it is written."""
    found = _DATE.search(line)
    return found[0].strip() if found else None
