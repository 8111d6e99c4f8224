"""Compute the answer to a question about records, and name the records it was computed from."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Iterable

from rlm.models.offline.extractive.records.asking import understand
from rlm.models.offline.extractive.records.fields import Field, measure, norm
from rlm.models.offline.extractive.records.query import Query
from rlm.models.offline.extractive.records.rows import Place, Rows, TooSlow, timed
from rlm.models.offline.extractive.records.tally import AMOUNTS, Tally
from rlm.models.offline.extractive.records.wording import (
    BY_CODE,
    CITED,
    SHOWN,
    Answer,
    cut,
    form,
    lines,
    mark,
    shifted,
    where,
)

__all__ = ["answer_records", "joined"]

_SECONDS = 40.0
_LEVELS = {"error": "ERROR", "warning": "WARN", "warn": "WARN", "critical": "CRITICAL", "fatal": "FATAL"}
_PERIOD_NAMES = {4: "year", 7: "month", 10: "day"}


def answer_records(
    question: str,
    rows: Rows,
    plain: Collection[str],
    nouns: Collection[str],
    *,
    is_log: bool = False,
    is_alone: bool = True,
    source: str = "",
) -> Answer | None:
    """Return the computed answer, or None if the question asks for nothing that the fields tell. If the rows
    are not alone (`is_alone`), other documents may hold what their fields do not explain. `source` is the
    name of the table where there are several."""
    limit = time.monotonic() + _SECONDS
    try:
        fields, total = measure(record for _, record, _ in timed(rows, limit))
        if is_log and "level" in fields:
            _name_levels(fields["level"])
        query = understand(question, fields, plain, nouns) if total else None
        if query is None or (query.words and not is_alone):
            return None
        if query.work in ("list", "show") and not (query.conditions or query.words):
            return None
        if query.work == "distinct" and query.words:
            query.work = "count" if query.counts else "list"
        records = f"records of {source}" if source else "records"
        return _report(query, Tally(query, fields, timed(rows, limit)), f"{total:,} {records}")
    except TooSlow:
        return None


def joined(answers: Iterable[Answer | None]) -> Answer | None:
    """Return the answers of several tables as one. Those that only have the words of the question are left
    out if the fields of another table tell."""
    found = [one for one in answers if one is not None]
    sure = [one for one in found if one.confidence == "high"] or found
    if len(sure) < 2:
        return sure[0] if sure else None
    texts: list[str] = []
    places: list[Place] = []
    for one in sure:
        texts.append(shifted(one.text, len(places)))
        places += one.evidence
    return Answer("\n".join(texts), "medium", places)


def _name_levels(level: Field) -> None:
    """Make `error` and `warnings` values of the level, also where no line has them."""
    for word, name in _LEVELS.items():
        own = next((shown for key, shown in level.shown.items() if key[0].startswith(word[:4])), name)
        level.shown.setdefault((word,), own)
        level.values[word,] += 0


def _report(query: Query, tally: Tally, total: str) -> Answer | None:
    told = where(query)
    sure = "medium" if query.words else "high"
    records = total.partition(" ")[2]
    among = f" of the {tally.matching:,} {records} with {told}" if told else f" of {total}"
    if tally.matching == 0:
        # If nothing explains a word, the text is searched instead.
        return None if query.words else _report_none(query, tally, total, told)
    if query.group is not None:
        return _report_groups(query, tally, among, sure)
    if query.work == "distinct":
        return _report_distinct(query, tally, among, sure)
    if query.work in AMOUNTS:
        return _report_amount(query, tally, among, sure)
    if query.work == "top":
        return _report_best(query, tally, among, sure)
    if query.work == "show" and tally.matching == 1:
        return _show(query, tally)
    return _report_list(query, tally, total, told, sure)


def _report_none(query: Query, tally: Tally, total: str, told: str) -> Answer:
    parts = [f"{tally.alone[at]:,} with {condition}" for at, condition in enumerate(query.conditions)]
    detail = f"; there are {', '.join(parts)}" if len(parts) > 1 else ""
    return Answer(f"0 of {total} have {told}{detail} {BY_CODE}.", "high")


def _report_list(query: Query, tally: Tally, total: str, told: str, sure: str) -> Answer:
    """Return the number of records. Few of them are listed, and as many as asked for of a list."""
    places = [place for place, _ in tally.first]
    if not told:
        return Answer(f"{total} (counted by code).", sure, places[:CITED])
    text = f"{tally.matching:,} of {total} have {told} {BY_CODE}"
    if query.work == "count" and tally.matching > CITED:
        return Answer(f"{text}.", sure, places[:CITED])
    shown = []
    for _, line in tally.first:
        times = tally.times(line)
        shown.append(f"{line} ({times:,} times)" if times > 1 else line)
    rest = f"\nThe first {SHOWN} are listed." if len(shown) == SHOWN < tally.matching else ""
    return Answer(f"{text}:\n{lines(shown)}{rest}", sure, places)


def _report_distinct(query: Query, tally: Tally, among: str, sure: str) -> Answer:
    ordered = tally.sizes.most_common()
    listed = ", ".join(f"{name} ({count:,})" for name, count in ordered[:SHOWN])
    rest = f" and {len(ordered) - SHOWN:,} more" if len(ordered) > SHOWN else ""
    text = f"{len(ordered):,} different values of {query.target}{among} {BY_CODE}: {listed}{rest}."
    return Answer(text, sure, [tally.examples[name] for name, _ in ordered[:CITED]])


def _report_best(query: Query, tally: Tally, among: str, sure: str) -> Answer | None:
    best = tally.best
    if not best:
        return None
    is_date = query.target is not None and tally.fields[query.target].is_date
    sides = ("latest", "earliest") if is_date else ("highest", "lowest")
    subjects = dict.fromkeys(one.subject for one in best if one.subject) if query.limit == 1 else {}
    value = best[0].value
    shown = form(value) if isinstance(value, float) else value
    named = f"{', '.join(subjects)} ({shown}). " if subjects else ""
    head = f"{named}The {sides[0 if query.highest else 1]} {query.target}{among} {BY_CODE}:"
    return Answer(f"{head}\n{lines([one.line for one in best])}", sure, [one.place for one in best])


def _report_groups(query: Query, tally: Tally, among: str, sure: str) -> Answer:
    is_amount = query.work in AMOUNTS
    totals = dict(tally.groups)
    if query.work in ("mean", "median"):
        totals = {name: total / tally.sizes[name] for name, total in totals.items()}
    ordered = sorted(totals.items(), key=lambda item: item[0] if query.period else -item[1])
    if not query.highest:
        ordered.reverse()
    listed = ordered[: SHOWN + 2]
    left = len(ordered) - len(listed)
    rest = f"\n{left:,} more are not shown." if left else ""
    head = ""
    if query.is_most:
        tied = [name for name, total in ordered if total == ordered[0][1]]
        more = f" and {len(tied) - CITED:,} more" if len(tied) > CITED else ""
        head = f"{', '.join(tied[:CITED])}{more} ({form(ordered[0][1])}). "
    what = f"{'Sum' if query.work == 'sum' else 'Mean'} of {query.target}" if is_amount else "Records"
    by = f"{query.group}, by {_PERIOD_NAMES[query.period]}" if query.period else query.group
    rows = lines([f"{name}: {form(total)}" for name, total in listed])
    text = f"{head}{what} by {by}{among} {BY_CODE}:\n{rows}{rest}"
    return Answer(text, sure, [tally.examples[name] for name, _ in listed])


def _report_amount(query: Query, tally: Tally, among: str, sure: str) -> Answer | None:
    amounts = tally.amounts
    if not amounts:
        return None
    total = sum(amounts)
    values = {"mean": total / len(amounts), "median": statistics.median(amounts), "sum": total}
    text = (
        f"{form(round(values[query.work], 2))}: the {query.work} of {query.target}{among} {BY_CODE}. "
        f"Lowest {form(min(amounts))}, highest {form(max(amounts))}, {len(amounts):,} values."
    )
    return Answer(text, sure, [place for place, _ in tally.first[:CITED]])


def _show(query: Query, tally: Tally) -> Answer:
    """Return the fields of one record that the question names, or the start of each."""
    (place, line), record = tally.first[0], tally.only
    asked = [name for name in query.asked if name in record and not tally.fields[name].is_id]
    reasons = [name for name in record if "reason" in norm(name)]
    names = reasons if query.asks_why and reasons else asked
    names = names or [name for name in record if record[name][0] not in line][:SHOWN]
    told = [f"{name}: {cut('; '.join(record[name]), 300)}" for name in names]
    return Answer("\n".join([f"{line} {mark(1)}", *told]), "high", [place])
