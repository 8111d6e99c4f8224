"""Finds how the numbers of a column are written (`12.5%`, `1'234.50`, `€ 1,200`, `(1,200)`), and reads them.

A form belongs to a column: all of its values have it, and it can be read in one way only. `1,200` alone may
be 1200 or 1.2, so a column of nothing else stays text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NumberForm", "find_form"]

_SIGNS = "$€£¥₹"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|BRL|MXN|ZAR|SGD|HKD"
"""Currencies without three decimals."""
_CURRENCY = rf"US\$|[{_SIGNS}]|{_CODES}"
_MINUS = "-+−"
_WRITTEN = re.compile(
    rf"(?P<open>\()?(?P<sign>[{_MINUS}])?(?P<before>{_CURRENCY})?\s?(?P<sign2>[{_MINUS}])?"
    rf"(?P<digits>\d[\d.,'’\u00a0\u202f]*)\s?(?P<after>%|{_CURRENCY})?(?(open)\))",
    re.ASCII,
)
_LONGEST = 40
_GROUP = 3
_MOST_DIGITS = 15
"""Digits that a float holds exactly."""
_WITH_COMMAS = frozenset({"$", "US$", "£", "USD", "GBP"})
"""Currencies whose thousands are divided by commas."""
_SPACES = "\u00a0\u202f"
_DIVIDED = (
    *(("", "."), ("", ","), (",", "."), (".", ",")),
    *((group, point) for group in ("'", "’", *_SPACES) for point in ".,"),
)
"""What may divide thousands, and what comes before decimals."""


@dataclass(frozen=True, slots=True)
class _Value:
    """The parts of a text that may be a number."""

    digits: str
    unit: str
    is_negative: bool
    is_in_parens: bool


@dataclass(frozen=True, slots=True)
class NumberForm:
    """How numbers are written: `unit` is `%`, a currency or "", `group` what divides the thousands or "", and
    `point` what comes before the decimals."""

    unit: str
    group: str
    point: str

    def read(self, text: str) -> int | float | None:
        """Return the number of a text, as it is written: `12.5%` is 12.5. None if it has another form."""
        value = _split(text)
        if value is None or value.unit != self.unit:
            return None
        whole, point, decimals = value.digits.partition(self.point)
        digits = _joined(whole, self.group)
        if not digits or (point and not _is_digits(decimals)) or len(digits + decimals) > _MOST_DIGITS:
            return None
        sign = "-" if value.is_negative else ""
        return float(f"{sign}{digits}.{decimals}") if point else int(f"{sign}{digits}")


def find_form(texts: Sequence[str]) -> NumberForm | None:
    """Return the form that all of the texts have, or None if there is none, or if they may be read in two
    ways."""
    found: list[_Value] = []
    for text in texts:
        value = _split(text)
        if value is None:
            return None
        found.append(value)
    if not found:
        return None
    units = {value.unit for value in found}
    parens = sum(value.is_in_parens for value in found)
    # Numbers in parentheses only are those of notes or of a list.
    if len(units) != 1 or parens == len(found):
        return None
    (unit,) = units
    is_account = parens > 0 or unit not in ("", "%")
    forms = []
    for group, point in _DIVIDED:
        form = NumberForm(unit, group, point)
        numbers = [form.read(text) for text in texts]
        if None not in numbers and _is_likely(form, found, is_account=is_account):
            forms.append((form, numbers))
    if not forms or any(numbers != forms[0][1] for _, numbers in forms):
        return None
    form = forms[0][0]
    is_bare = not unit and not parens
    # `12,5` may be a list, and `123.456.789` a code.
    if is_bare and not any(_is_divided(form, value.digits) for value in found):
        return None
    return form


def _is_likely(form: NumberForm, values: Sequence[_Value], *, is_account: bool) -> bool:
    """Return whether a form may be meant, among others that the same texts have."""
    if form.unit in _WITH_COMMAS and form.point == ",":
        return False
    if form.unit == "%" and form.group == ".":
        return False  # `1.250%`
    parts = [value.digits.partition(form.point) for value in values]
    if not is_account or not any(len(decimals) == _GROUP for *_, decimals in parts):
        return True
    # Prices of fuel have three decimals, each of them. Other amounts have none or two.
    return all(point and len(whole) == 1 for whole, point, _ in parts)


def _is_divided(form: NumberForm, digits: str) -> bool:
    return bool(form.group) and form.group in digits and (form.group != "." or form.point in digits)


def _joined(whole: str, group: str) -> str:
    """Return the digits of a whole number without what divides them, or "" if it is not written so."""
    parts = whole.split(group) if group else [whole]
    if not all(map(_is_digits, parts)) or (len(whole) > 1 and whole[0] == "0"):
        return ""
    if len(parts) > 1 and (len(parts[0]) > _GROUP or any(len(part) != _GROUP for part in parts[1:])):
        return ""
    return "".join(parts)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _split(text: str) -> _Value | None:
    """Return the parts of a text that may be a number, or None."""
    text = text.strip()
    found = _WRITTEN.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["sign2"]):
        return None
    sign = found["sign"] or found["sign2"]
    if found["open"] and sign:
        return None
    unit = found["before"] or found["after"] or ""
    return _Value(found["digits"], unit, sign in ("-", "−") or bool(found["open"]), bool(found["open"]))
