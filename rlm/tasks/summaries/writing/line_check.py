"""Check that the messages which a line cites support it, and let a model mend the lines that they do not."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from rlm.answers.support import Support, SupportCheck
from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.models.base import Model
from rlm.prompts.history.sentences import pieces
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.summary_lines import Line, Tracer, words_of
from rlm.tasks.summaries.writing.draft import edits_in

__all__ = ["Checked", "LineCheck"]

_COUNTER = get_counter()
_PROMPT_TOKENS = 60_000
_OUTPUT_TOKENS = 4_000
_MESSAGE_CHARS = 1_500
"""Longer messages are shown to a check by the sentences that share most words with the line."""
_ARRAY = re.compile(r"\[.*\]", re.DOTALL)
_MIN_SHARE = 0.2  # as in rlm.answers.support: below it a line is vague, not wrong


@dataclass(frozen=True, slots=True)
class Checked:
    """The lines after the check. `by` says what compared them with their messages. `mended` lines were
    corrected, `gone` ones taken out by the model, because nothing of them was true."""

    lines: tuple[Line, ...]
    by: Literal["words", "model"]
    mended: int = 0
    gone: tuple[Line, ...] = ()


class LineCheck:
    """Checks lines against the entries. Without a `model`, by words alone."""

    def __init__(self, job: Job, entries: Sequence[Entry], tracer: Tracer, model: Model | None) -> None:
        self._job = job
        self._model = model
        self._entries = entries
        self._tracer = tracer
        self._places = {entry.name: place for place, entry in enumerate(entries)}

    async def check(self, lines: Sequence[Line], known: Collection[Line] = ()) -> Checked:
        """Return the lines, mended or doubtful where their messages do not support them. The lines of `known`
        were checked before."""
        judged = list(lines)
        fresh = [at for at, line in enumerate(judged) if line not in known]
        texts = [entry.message.content for entry in self._entries]
        speakers = {entry.message.author for entry in self._entries if entry.message.author}
        with closing(SupportCheck(texts, speakers)) as support:
            verdicts = {at: self._judge(support, judged[at]) for at in fresh}
            faults = {at: _missing(verdicts[at]) for at in fresh if not verdicts[at].supported}
            if self._model is None or not fresh:
                for at in fresh:
                    judged[at] = replace(judged[at], doubtful=at in faults)
                return Checked(tuple(judged), "words")
            found = await self._ask_check(self._model, {at: judged[at] for at in fresh})
            faults = {**faults, **(found or {})}
            edits = await self._ask_mend(self._model, {at: judged[at] for at in faults}, faults)
            gone: list[int] = []
            mended = 0
            for at in fresh:
                old, new = judged[at], edits.get(at, judged[at])
                if new is None:
                    gone.append(at)
                    continue
                verdict = self._judge(support, new)
                is_wrong = not verdict.supported
                if new == old and at in (found or {}):
                    is_wrong = at not in edits or is_wrong  # the model saw it again, and says that it is right
                elif is_wrong and found is not None and at not in found and verdict.share < _MIN_SHARE:
                    is_wrong = not (new.names and _is_vague(verdict))
                mended += new != old
                judged[at] = replace(new, doubtful=is_wrong)
        kept = tuple(line for at, line in enumerate(judged) if at not in gone)
        by: Literal["words", "model"] = "words" if found is None else "model"
        return Checked(kept, by, mended, tuple(judged[at] for at in gone))

    def _judge(self, support: SupportCheck, line: Line) -> Support:
        """Compare a line with the messages that it cites. The ones just before and after are context."""
        cited = {self._places[name] for name in line.names}
        if not cited:
            return Support(False, 0.0)
        near = {at for place in cited for at in (place - 1, place + 1) if 0 <= at < len(self._entries)} - cited
        return support.judge(line.text, cited, near)

    async def _ask_check(self, model: Model, lines: Mapping[int, Line]) -> dict[int, str] | None:
        """Return why the model finds lines unsupported; None if it could not be asked."""
        found: dict[int, str] = {}
        ask = table("summaries.toml")["check"]["ask"].strip()
        for numbers, shown in self._batches({at: line for at, line in lines.items() if line.names}, around=0):
            try:
                reply = await self._job.ask(model, ask.format(lines=shown), _OUTPUT_TOKENS, keep_cut=True)
            except (ModelError, BudgetExhausted) as error:
                self._job.warn(f"the lines were compared with their messages by words alone: {cause_of(error)}")
                return None
            verdicts = _verdicts(reply, len(numbers))
            if verdicts is None:
                self._job.warn("the lines were compared with their messages by words alone: the model's check "
                               "has no list of lines")  # fmt: skip
                return None
            found |= {numbers[place]: why for place, why in verdicts.items()}
        return found

    async def _ask_mend(
        self, model: Model, lines: Mapping[int, Line], faults: Mapping[int, str]
    ) -> dict[int, Line | None]:
        """Return what the model makes of unsupported lines: other lines, the same if it finds them right, or
        None for those that are not true."""
        made: dict[int, Line | None] = {}
        ask = table("summaries.toml")["mend"]["ask"].strip()
        for numbers, shown in self._batches(lines, around=1, faults=faults):
            try:
                reply = await self._job.ask(model, ask.format(lines=shown), _OUTPUT_TOKENS, keep_cut=True)
            except (ModelError, BudgetExhausted) as error:
                self._job.warn(f"unsupported lines were not mended: {cause_of(error)}")
                return made
            edits, _ = edits_in(reply, len(numbers))
            for edit in edits:
                at = numbers[edit.places[0]]
                if edit.line is None:
                    made[at] = lines[at] if edit.is_right else None
                    continue
                line = replace(lines[at], text=edit.line.text, names=edit.line.names or lines[at].names)
                made[at] = replace(line, names=self._tracer.find_sources(line) or lines[at].names)
        return made

    def _batches(
        self, lines: Mapping[int, Line], *, around: int, faults: Mapping[int, str] | None = None
    ) -> Iterator[tuple[list[int], str]]:
        """Yield numbered lines with their messages, as many as fit a prompt, and the place of each."""
        model = self._model
        assert model is not None
        room = min(_PROMPT_TOKENS, (model.window.context - _OUTPUT_TOKENS) * 3 // 4)
        numbers: list[int] = []
        rows: list[str] = []
        size = 0
        for at, line in lines.items():
            sources = "\n".join(self._source(place, line) for place in self._shown(line, around))
            fault = f"\n  (doubt: {faults[at]})" if faults and faults.get(at) else ""
            shown = f"{line.text}{fault}\n{sources}"
            cost = _COUNTER.count(shown) + 6
            if numbers and size + cost > room:
                yield numbers, "\n\n".join(rows)
                numbers, rows, size = [], [], 0
            numbers.append(at)
            rows.append(f"L{len(numbers)}: {shown}")
            size += cost
        if numbers:
            yield numbers, "\n\n".join(rows)

    def _shown(self, line: Line, around: int) -> list[int]:
        """Return the places of the messages that a check sees: those that the line cites, with `around` more
        on each side, and for a line without any those that share most words with it."""
        cited = [self._places[name] for name in line.names]
        if around:
            cited += self._tracer.nearest(line, 2)
        last = len(self._entries) - 1
        places = {max(0, min(last, at + step)) for at in cited for step in range(-around, around + 1)}
        return sorted(places)

    def _source(self, place: int, line: Line) -> str:
        entry = self._entries[place]
        head = ", ".join(filter(None, (entry.message.author, entry.message.created_at)))
        return f"  [{entry.name}]{f' {head}' if head else ''}: {_excerpt(entry.message.content, line.text)}"


def _excerpt(text: str, claim: str) -> str:
    """Return the text, of a long one the sentences that share most words with the claim, in order."""
    flat = " ".join(text.split())
    if len(flat) <= _MESSAGE_CHARS:
        return flat
    sentences = list(pieces(text))
    wanted = words_of(claim)
    ranked = sorted(range(len(sentences)), key=lambda at: (-len(wanted & words_of(sentences[at])), at))
    chosen: set[int] = set()
    room = _MESSAGE_CHARS
    for at in ranked:
        if len(sentences[at]) <= room:
            chosen.add(at)
            room -= len(sentences[at])
    parts = [sentences[at] if at in chosen else "…" for at in range(len(sentences))]
    return " ".join(part for at, part in enumerate(parts) if part != "…" or at == 0 or parts[at - 1] != "…")


def _missing(verdict: Support) -> str:
    return f"not in its messages: {', '.join(verdict.missing)}" if verdict.missing else ""


def _is_vague(verdict: Support) -> bool:
    """Return whether only common words are missing: no number and no quoted name."""
    return not any(any(letter.isdigit() for letter in word) or " " in word for word in verdict.missing)


def _verdicts(reply: str, count: int) -> dict[int, str] | None:
    """Return the places (from 0) of the lines that a reply finds unsupported, with the reasons; None if the
    reply has no list."""
    found = _ARRAY.search(reply)
    if found is None:
        return None
    try:
        rows = json.loads(found[0])
    except ValueError:
        return None
    made: dict[int, str] = {}
    for row in rows:
        line = row.get("line") if isinstance(row, Mapping) else row
        number = re.sub(r"\D", "", str(line))
        if number and 1 <= int(number) <= count:
            why = row.get("why", "") if isinstance(row, Mapping) else ""
            made[int(number) - 1] = " ".join(str(why).split())[:200]
    return made
