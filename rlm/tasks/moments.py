"""Dates and times as logs and chats write them, at the beginning of a line."""

from __future__ import annotations

import re

__all__ = ["DATE", "MOMENT", "TIME", "date_in"]

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ ])?"

DATE = (
    rf"(?:{_DAY}(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}|\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}"
    rf"|\d{{1,2}}\.? {_MONTH},? \d{{4}}|{_MONTH}[ ]{{1,2}}\d{{1,2}}(?:,? \d{{4}})?))"
)
"""`2026-05-01`, `1/5/26`, `1 May 2026`, `May  1`."""

TIME = (
    r"(?:\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?(?:[ \u202f]?[aApP]\.?[mM]\b\.?)?"
    r"(?:[ ]?(?:Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}))?)"
)
"""`10:00`, `10:00:05.123Z`, `4:04 pm`."""

MOMENT = rf"(?:{DATE}(?:(?:T|,?[ ]|[ ]at[ ]|[ ]-[ ]){TIME})?|{TIME}(?:,?[ ](?:on[ ])?{DATE})?)"
"""A date, a time, or both in either order."""

_DATE = re.compile(rf"(?<![\w.-]){MOMENT}", re.IGNORECASE)


def date_in(line: str) -> str | None:
    """The first date or time in `line`, as it is written."""
    found = _DATE.search(line)
    return found[0].strip() if found else None
