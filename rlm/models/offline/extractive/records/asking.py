"""Understand a question about records: what to compute, over which of them, and by which fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from rlm.models.offline.extractive.records.fields import Field, norm, plural
from rlm.models.offline.extractive.records.query import NO_LIMIT, Condition, Query, Work
from rlm.models.offline.extractive.records.relating import is_told_by

__all__ = ["understand"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATES = (
    re.compile(r"\b(?P<y>(?:19|20)\d\d)-(?P<n>\d\d)(?:-(?P<d>\d\d))?\b"),
    re.compile(rf"\b(?P<m>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>(?:19|20)\d\d)\b"),
    re.compile(rf"\b(?P<d>\d{{1,2}})\.? (?P<m>{_MONTH})\.?,? (?P<y>(?:19|20)\d\d)\b"),
    re.compile(rf"\b(?P<m>{_MONTH})\.?,? (?:of )?(?P<y>(?:19|20)\d\d)\b"),
    re.compile(r"(?<=\b(?:in|of|by) )(?P<y>(?:19|20)\d\d)\b"),
    re.compile(r"(?<=\bsince )(?P<y>(?:19|20)\d\d)\b"),
    re.compile(r"(?:(?<=\bafter )|(?<=\buntil ))(?P<y>(?:19|20)\d\d)\b"),
    re.compile(r"(?:(?<=\bbefore )|(?<=\bduring ))(?P<y>(?:19|20)\d\d)\b"),
)
_DATE_SIGNS = {"since": ">=", "from": ">=", "after": ">", "before": "<", "until": "<=", "by": "<="}
_COMPARED = re.compile(
    r"(?P<sign>above|over|more than|greater than|larger than|higher than|at least|exceed(?:s|ing)?|>=?|below"
    r"|under|less than|fewer than|smaller than|lower than|at most|up to|<=?|between)\s*[$€£]?"
    r"(?P<one>\d[\d,]*(?:\.\d+)?)(?:\s+and\s+[$€£]?(?P<two>\d[\d,]*(?:\.\d+)?))?"
)
_UP = {"at least": ">=", ">=": ">="}
_DOWN = {"at most": "<=", "up to": "<=", "<=": "<=", "below": "<", "under": "<", "less than": "<", "<": "<"}
_DOWN |= {"fewer than": "<", "smaller than": "<", "lower than": "<"}
_QUOTED = re.compile("[\"“«`]([^\"”»`]{1,80})[\"”»`]|(?<!\\w)['‘]([^'’]{1,80})['’](?!\\w)")
_NEWEST = {"newest", "latest", "recent", "last", "recently"}
_OLDEST = {"oldest", "earliest", "first"}
_HIGHEST = {"highest", "largest", "biggest", "greatest", "maximum", "max", "expensive", "top", "most"}
_LOWEST = {"lowest", "smallest", "cheapest", "minimum", "min", "least", "fewest"}
_SUM, _MEAN, _MEDIAN = {"sum", "total", "totals", "altogether"}, {"average", "mean", "avg"}, {"median"}
_LIST = {"which", "list", "show", "find", "give", "name"}
_BY = {"by", "per", "each", "every"}
_NOT = {"not", "no", "non", "without", "isn", "aren", "never", "except"}
_MONEY = {"amount", "price", "total", "cost", "revenue", "value", "sum"}
_SPENT = {"spent", "spend", "revenue", "paid", "cost", "sale", "sales", "earned"}
_NOUNS = {
    "record",
    "row",
    "entry",
    "entrie",
    "item",
    "line",
    "issue",
    "card",
    "ticket",
    "thing",
    "one",
    "log",
}
_WHOLE = {"table", "sheet", "spreadsheet", "file", "database", "data", "dataset"}
_PERIODS = {"year": 4, "month": 7, "day": 10}
_MAIN_DATES = ("date", "created", "time", "timestamp", "day", "opened")
_ADDED = {
    "opened": "created",
    "filed": "created",
    "reported": "created",
    "added": "created",
    "made": "created",
}
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_YES, _NO = ("yes",), ("no",)


class _Reading:
    """The words of a question, and which of them are explained."""

    def __init__(self, question: str, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self.quoted = [one or two for one, two in _QUOTED.findall(question)]
        self.text = _QUOTED.sub(lambda found: " " * len(found[0]), question).casefold()
        found = list(re.finditer(r"[^\W_]+", self.text))
        self.raw = [match[0] for match in found]
        self.words = [(norm(match[0]) or ("",))[0] for match in found]
        self.places = [match.span() for match in found]
        self.known = [False] * len(found)
        self.mentions: dict[int, str] = {}

    def at(self, char: int) -> int:
        """Return the number of the first word that ends after a character."""
        return next((n for n, (_, end) in enumerate(self.places) if end > char), len(self.words))

    def explain(self, start: int, end: int) -> None:
        for number, (low, high) in enumerate(self.places):
            if low < end and high > start:
                self.known[number] = True

    def has(self, words: Collection[str]) -> bool:
        """Return whether one of the words is there, and explain it."""
        found = [number for number, raw in enumerate(self.raw) if raw in words]
        for number in found:
            self.known[number] = True
        return bool(found)

    def nearest(self, at: int, wanted: Collection[str]) -> str | None:
        """Return the mentioned field, one of `wanted`, that is nearest to a word."""
        own = [(abs(at - number), name) for number, name in self.mentions.items() if name in wanted]
        return min(own)[1] if own else None


def understand(
    question: str, fields: Mapping[str, Field], plain: Collection[str], nouns: Collection[str]
) -> Query | None:
    """Return what the question asks of records with these fields. None if it asks for nothing that can be
    computed. `plain` are words without a meaning of their own, `nouns` what a record may be called."""
    reading = _Reading(question, fields)
    query = Query()
    _find_fields(reading)
    _find_quoted(reading, query)
    _find_dates(reading, query)
    _find_compared(reading, query)
    _find_values(reading, query, plain)
    _find_groups(reading, query)
    if not _choose_work(reading, query):
        return None
    _find_flags(reading, query)
    query.asks_why = "why" in reading.raw
    ids = {own.words[0] for own in fields.values() if own.words[1:] and own.is_id}
    explained = _NOUNS | ids | {norm(noun)[0] for noun in nouns if norm(noun)}
    for number, (raw, word) in enumerate(zip(reading.raw, reading.words, strict=True)):
        # `Did Ben create` is explained by the field `created_by`.
        verb = len(word) > 4 and any(
            own.words[0].startswith(word) for own in fields.values() if own.words[1:]
        )
        told = reading.known[number] or verb or raw in plain or word in explained
        if not told and len(raw) > 1 and not _is_relating(reading, query, number):
            query.words.append(raw)
    return query


def _is_relating(reading: _Reading, query: Query, number: int) -> bool:
    """Return whether a word adds nothing to the fields: `live`, `in the table`, `are used?`."""
    raw = reading.raw
    if raw[number] in _WHOLE and number and raw[number - 1] in ("the", "this"):
        return True
    if number == len(raw) - 1 and raw[number] == "used" and query.work == "distinct":
        return True
    names = {condition.name for condition in query.conditions} | set(query.asked)
    return is_told_by(raw[number], [reading.fields[name].words for name in names])


def _find_fields(reading: _Reading) -> None:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, own in sorted(reading.fields.items(), key=lambda item: item[0].count(".")):
        words = own.words
        names.setdefault(words, []).append(name)
        names.setdefault(plural(words), []).append(name)
        if len(words) > 1 and not own.is_id:
            names.setdefault(words[-1:], []).append(name)
            names.setdefault(plural(words[-1:]), []).append(name)
        if len(words) > 1 and own.is_date and reading.raw[:1] != ["who"]:
            names.setdefault(words[:1], []).append(name)
        if words[1:] == ("by",) and reading.raw[:1] == ["who"]:
            names.setdefault(words[:1], []).append(name)
    at = 0
    while at < len(reading.words):
        for size in (4, 3, 2, 1):
            own_names = names.get(tuple(reading.words[at : at + size]))
            if own_names and at + size <= len(reading.words):
                reading.mentions[at] = own_names[0]
                for number in range(at, at + size):
                    reading.known[number] = True
                at += size - 1
                break
        at += 1


def _find_quoted(reading: _Reading, query: Query) -> None:
    for literal in reading.quoted:
        key = norm(literal)
        holders = [name for name, own in reading.fields.items() if key in own.values]
        named = [name for name in reading.mentions.values() if name in holders]
        mentioned = [name for name in reading.mentions.values() if not reading.fields[name].is_text]
        if named or holders:
            _add(query, (named or holders)[0], "is", literal)
        elif len(mentioned) == 1:
            _add(query, mentioned[0], "is", literal)
        else:
            query.words.append(literal)


def _add(query: Query, name: str, sign: str, value: str) -> None:
    for condition in query.conditions:
        if condition.name == name and condition.sign == sign and sign in ("is", "not"):
            if value not in condition.values:
                condition.values.append(value)
            return
    query.conditions.append(Condition(name, sign, [value]))


def _find_dates(reading: _Reading, query: Query) -> None:
    dates = [name for name, own in reading.fields.items() if own.is_date]
    if not dates:
        return
    text = reading.text
    for pattern in _DATES:
        for found in pattern.finditer(text):
            parts = found.groupdict()
            year = parts["y"]
            month = parts.get("n") or (f"{_MONTHS.index(parts['m'][:3]) + 1:02}" if parts.get("m") else None)
            day = f"{int(parts['d']):02}" if parts.get("d") else None
            bound = "-".join(part for part in (year, month, day) if part)
            at = reading.at(found.start())
            before = reading.raw[at - 1] if at else ""
            name = reading.nearest(at, dates) or _main_date(reading, at, dates)
            _add(query, name, "@" + _DATE_SIGNS.get(before, "="), bound)
            reading.explain(*found.span())
            text = text[: found.start()] + " " * len(found[0]) + text[found.end() :]
    reading.text = text


def _main_date(reading: _Reading, at: int, dates: list[str]) -> str:
    """Return the date that is meant where none is named: of the verb before it, else of the record."""
    for word in reversed(reading.raw[:at]):
        own = [name for name in dates if reading.fields[name].words[0] == norm(_ADDED.get(word, word))[0]]
        if own:
            return own[0]
    for wanted in _MAIN_DATES:
        own = [name for name in dates if reading.fields[name].words[0] == wanted]
        if own:
            return own[0]
    return dates[0]


def _find_compared(reading: _Reading, query: Query) -> None:
    amounts = [name for name, own in reading.fields.items() if own.is_number and not own.is_id]
    for found in _COMPARED.finditer(reading.text):
        at = reading.at(found.start())
        name = reading.nearest(at, amounts) or (amounts[0] if len(amounts) == 1 else None)
        if name is None:
            continue
        one, two, sign = found["one"], found["two"], found["sign"]
        if sign == "between" and two:
            query.conditions += [Condition(name, ">=", [one]), Condition(name, "<=", [two])]
        else:
            query.conditions.append(Condition(name, _UP.get(sign) or _DOWN.get(sign) or ">", [one]))
        reading.explain(*found.span())


def _find_values(reading: _Reading, query: Query, plain: Collection[str]) -> None:
    holders: dict[tuple[str, ...], list[Field]] = {}
    for own in reading.fields.values():
        if not own.is_text and not own.is_date:
            for key in own.values:
                if key:
                    holders.setdefault(key, []).append(own)
    at = 0
    while at < len(reading.words):
        for size in (5, 4, 3, 2, 1):
            key = tuple(reading.words[at : at + size])
            owners = holders.get(key, []) if len(key) == size else []
            owner = _choose_owner(reading, at, key, owners, plain)
            if owner is not None:
                _add(query, owner.name, "not" if _is_negated(reading, at, plain) else "is", owner.shown[key])
                for number in range(at, at + size):
                    reading.known[number] = True
                at += size - 1
                break
        at += 1
    # `P1` is a priority of 1.
    ranked = next((own for own in reading.fields.values() if own.words == ("priority",)), None)
    for number, raw in enumerate(reading.raw):
        if ranked is not None and re.fullmatch(r"p\d", raw) and norm(raw[1]) in ranked.values:
            _add(query, ranked.name, "is", raw[1])
            reading.known[number] = True


def _is_negated(reading: _Reading, at: int, plain: Collection[str]) -> bool:
    """Return whether a value is denied: `not Basel`, `do not live in Basel`."""
    for number in range(at - 1, max(-1, at - 5), -1):
        raw = reading.raw[number]
        if raw in _NOT:
            return True
        relates = is_told_by(raw, [own.words for own in reading.fields.values()])
        if number < at - 2 and (reading.known[number] or not (raw in plain or relates)):
            return False
    return False


def _choose_owner(
    reading: _Reading, at: int, key: tuple[str, ...], owners: list[Field], plain: Collection[str]
) -> Field | None:
    """Return the field whose value these words of the question are, or None."""
    close = [reading.mentions.get(number) for number in range(max(0, at - 3), at + len(key) + 2)]
    named = [own for own in owners if own.name in close]
    if len(key) == 1:
        word = reading.raw[at]
        digits = word.isdigit()
        if digits or word in plain or len(word) < 3:
            # `Order 1019` names the order with this id.
            ids = [
                own for own in owners if digits and own.is_id and reading.words[at - 1 : at] == [own.words[0]]
            ]
            named = named + ids
            return named[0] if named and (digits or len(word) > 1) and not reading.known[at] else None
        if at in reading.mentions and reading.fields[reading.mentions[at]].words == key:
            return None
    if named:
        return named[0]
    names = [own for own in owners if not own.is_number]
    return min(names, key=lambda own: len(own.values), default=None)


def _find_groups(reading: _Reading, query: Query) -> None:
    for number, raw in enumerate(reading.raw[:-1]):
        if raw in _BY:
            following = next((n for n in (number + 1, number + 2) if n in reading.mentions), None)
            period = next((_PERIODS.get(word) for word in reading.words[number + 1 : number + 2]), None)
            dates = [name for name, own in reading.fields.items() if own.is_date]
            if following is not None and not reading.known[number]:
                query.group = reading.mentions[following]
                reading.known[number] = True
            elif period and dates:
                query.group, query.period = _main_date(reading, number, dates), period
                reading.known[number] = reading.known[number + 1] = True


def _choose_work(reading: _Reading, query: Query) -> bool:
    """Set what is computed. Return False if nothing can be."""
    fields, raw = reading.fields, set(reading.raw)
    amounts = [name for name, own in fields.items() if own.is_number and not own.is_id and not own.is_date]
    conditioned = {condition.name for condition in query.conditions}
    for number, word in enumerate(reading.raw):
        if (word.isdigit() and not reading.known[number]) or word in _NUMBERS:
            query.limit = max(1, min(10, int(word) if word.isdigit() else _NUMBERS.index(word)))
    query.asked = [name for name in dict.fromkeys(reading.mentions.values()) if name not in conditioned]
    query.highest = not raw & (_LOWEST | _OLDEST)
    counted = re.search(r"\b(?:how (?:many|often)|count|number of)\s+", reading.text)
    named = [name for name in reading.mentions.values() if name in amounts]
    target = next((name for name in named if name not in conditioned), named[0] if named else None)
    money = next((name for name in amounts if _MONEY & set(fields[name].words)), None)
    if target is None and money and not counted and reading.has(_SPENT):
        target = money
    if _asks_most(reading, query, target):
        return True
    if counted:
        _count(reading, query, conditioned)
        return True
    supposed = target or money or (amounts[0] if len(amounts) == 1 else None)
    works: tuple[tuple[set[str], Work], ...] = ((_MEAN, "mean"), (_MEDIAN, "median"), (_SUM, "sum"))
    for words, work in works:
        if supposed and reading.has(words):
            query.work, query.target = work, supposed
            return True
    if _asks_best(reading, query, amounts, supposed):
        return True
    if any(condition.sign == "is" and fields[condition.name].is_id for condition in query.conditions):
        query.work = "show"
        return True
    if query.group is not None:
        query.work = "count"
        return True
    listing = reading.has(_LIST) or re.match(r"\s*what (?:are|is)\b", reading.text) is not None
    if listing and not conditioned and len(query.asked) == 1 and not fields[query.asked[0]].is_text:
        query.work, query.target = "distinct", query.asked[0]
    return listing


def _subject(reading: _Reading) -> str | None:
    """Return the field that `Which customer …` asks for."""
    if reading.raw[0] not in ("which", "what", "who"):
        return None
    return next((name for number, name in sorted(reading.mentions.items()) if 0 < number <= 2), None)


def _asks_most(reading: _Reading, query: Query, target: str | None) -> bool:
    """Set the work of `Which customer has the most orders?` Return False for other questions."""
    fields, raw = reading.fields, set(reading.raw)
    subject = _subject(reading)
    if subject is None or subject == target:
        return False
    usable = not fields[subject].is_id and not fields[subject].is_date
    if not usable or not raw & (_HIGHEST | _LOWEST):
        return False
    if target is not None and not raw & (_SUM | _MEAN | _SPENT | {"most", "least", "fewest"}):
        return False
    reading.has(_HIGHEST | _LOWEST)
    query.group, query.is_most, query.target = subject, True, target
    query.work = "mean" if reading.has(_MEAN) else "sum" if target else "count"
    reading.has(_SUM)
    return True


def _count(reading: _Reading, query: Query, conditioned: Collection[str]) -> None:
    """Set the work of `How many orders …`, or of `How many customers …` if that is a field."""
    query.work, query.counts = "count", True
    words = r"\b(?:how many|number of|count)\s+(?:different |distinct |unique )?"
    after = re.search(words, reading.text)
    at = reading.at(after.end()) if after else -1
    own = reading.mentions.get(at)
    named = (reading.words[at],) if own is not None else ()
    exact = own is not None and named in (reading.fields[own].words, plural(reading.fields[own].words))
    if (
        own is not None
        and exact
        and own != query.group
        and not reading.fields[own].is_text
        and own not in conditioned
    ):
        query.work, query.target = "distinct", own
    reading.has({"how", "many", "often", "count", "number", "total", "different", "distinct", "unique"})


def _asks_best(reading: _Reading, query: Query, amounts: list[str], supposed: str | None) -> bool:
    """Set the work of `the newest issue` and `the largest order`. Return False for other questions."""
    raw = set(reading.raw)
    dates = [name for name, own in reading.fields.items() if own.is_date]
    if dates and raw & (_NEWEST | _OLDEST):
        at = next(number for number, word in enumerate(reading.raw) if word in _NEWEST | _OLDEST)
        query.target = reading.nearest(at, dates) or _main_date(reading, len(reading.raw), dates)
        reading.has(_NEWEST | _OLDEST | {"most"})
    elif supposed and reading.has(_HIGHEST | _LOWEST):
        query.target = supposed
        if query.group in amounts:
            query.target, query.group = query.group, None  # `The top orders by amount` are ranked by it
    else:
        return False
    query.subject = _subject(reading)
    query.work, query.limit = "top", query.limit if query.limit != NO_LIMIT else 1
    return True


def _find_flags(reading: _Reading, query: Query) -> None:
    """Add `no description` and, for a field of yes and no, `active`."""
    conditioned = {condition.name for condition in query.conditions}
    for number, name in reading.mentions.items():
        own = reading.fields[name]
        if name in conditioned or name in (query.target, query.group):
            continue
        before = reading.raw[max(0, number - 2) : number]
        negated = bool({"no", "without"} & set(before))
        if set(own.values) <= {_YES, _NO, ("true",), ("false",)} and own.values:
            wanted = [shown for key, shown in own.shown.items() if (key in (_YES, ("true",))) != negated]
            query.conditions += [Condition(name, "is", wanted)] if wanted else []
        elif negated:
            query.conditions.append(Condition(name, "empty"))
