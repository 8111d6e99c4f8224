"""The one pipeline every prompt comes out of.

gather → validate → order → measure → reserve → fill → degrade → render → measure the render → report.

It is pure: equal inputs give equal bytes, nothing is read but the arguments, and they are left as they
were. What it promises: the rendered prompt, measured whole, takes at most `Budget.allowed` tokens, or
BudgetExceeded is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from prompts.budget import Budget
from prompts.errors import BudgetExceeded, SectionError
from prompts.fitting import Fitting, Measure
from prompts.policy import Never
from prompts.render import JOINER, PromptMessage, RenderedSection, cache_borders, messages_of, prefix_hash
from prompts.report import Decision, Report, Totals
from prompts.section import Citation, Section, faults_of, stability_rank

__all__ = ["AssembledPrompt", "assemble"]


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """A prompt ready to be sent.

    `messages` in order, system first; `text` is the same as one string. `sections` holds every section
    in the order rendered, also those that are empty; `citations` those of the items that went in.
    """

    text: str
    messages: tuple[PromptMessage, ...]
    sections: tuple[RenderedSection, ...]
    citations: tuple[Citation, ...]
    report: Report

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return JOINER.join(message.content for message in self.messages if message.role == "system")

    @property
    def user(self) -> str:
        """The text of the user messages."""
        return JOINER.join(message.content for message in self.messages if message.role == "user")


def assemble(
    sections: Iterable[Section],
    budget: Budget,
    *,
    may_exceed: bool = False,
    remedy: str = "shorten them or raise the budget",
) -> AssembledPrompt:
    """The prompt made of `sections` within `budget`.

    Required sections are served first, then the others, each by priority. With `may_exceed`, required
    sections that do not fit go in all the same and `Report.over_budget` says so. `remedy` ends the message
    of BudgetExceeded. Raises SectionError and BudgetExceeded.
    """
    gathered = tuple(sections)
    faults = faults_of(gathered) + budget.faults()
    if faults:
        raise SectionError(tuple(faults))
    if budget.allowed < 0:
        raise BudgetExceeded(0, budget.allowed, (), "the headroom is larger than the budget")
    ordered = sorted(gathered, key=lambda section: section.order)
    assembly = _Assembly(ordered, budget, may_exceed, remedy)
    cut = step = 0
    while True:
        fittings = assembly.fill(cut)
        rendered = [_rendered(fitting) for fitting in fittings]
        messages = messages_of(rendered)
        text = JOINER.join(message.content for message in messages)
        tokens = assembly.measure.once(text)
        if tokens <= budget.allowed or assembly.exceeded:
            break
        # Texts measured apart may come to less than the whole: leave more room, ever faster, but never
        # more than half of what is left at once.
        left = budget.allowed - cut
        step = max(1, min(max(left - left * budget.allowed // tokens, 2 * step), left // 2))
        cut += step
    return AssembledPrompt(
        text=text,
        messages=messages,
        sections=tuple(rendered),
        citations=tuple(citation for fitting in fittings for citation in fitting.citations()),
        report=_report(ordered, fittings, rendered, budget, tokens),
    )


class _Assembly:
    """The sections on their way through reserve, fill and degrade."""

    def __init__(self, ordered: Sequence[Section], budget: Budget, may_exceed: bool, remedy: str) -> None:
        self.ordered = ordered
        self.budget = budget
        self.may_exceed = may_exceed
        self.remedy = remedy
        self.measure = Measure(budget.counter)
        self.measure.learn(item.text for section in ordered for item in section.items)
        self.joiner = self.measure(JOINER)
        self.exceeded = False

    def fill(self, cut: int) -> list[Fitting]:
        """Fit every section, leaving `cut` of the allowed tokens free; in the order of rendering."""
        fittings = [Fitting(section, self.measure) for section in self.ordered]
        queue = sorted(
            fittings, key=lambda fitting: (not fitting.section.required, -fitting.section.priority)
        )
        room = self.budget.allowed - cut + self.joiner  # the first section stands without a joiner
        kept_free = {
            required: sum(self._floor(fitting) for fitting in queue if fitting.section.required is required)
            for required in (True, False)
        }
        pools = {
            section.pool: bound
            for section in self.ordered
            if section.pool is not None and (bound := self.budget.cap(section.pool)) is not None
        }
        used = 0
        for fitting in queue:
            section = fitting.section
            if fitting.empty:
                continue
            kept_free[section.required] -= self._floor(fitting)
            left = room - used - kept_free[section.required] - self.joiner
            caps = (section.max_tokens, self.budget.cap(section.id), pools.get(section.pool or ""))
            bound = min([left, *(cap for cap in caps if cap is not None)])
            fits = fitting.fit(bound)
            if section.required and (fitting.empty or not fits):
                if self.may_exceed:
                    self.exceeded = True
                elif bound < left:
                    raise BudgetExceeded(fitting.whole, bound, (section.id,), self.remedy)
                else:
                    raise self._too_large(fittings, cut)
            elif not fits:
                fitting.drop(f"its section had {max(bound, 0):,} tokens")
            if not fitting.empty:
                used += fitting.cost + self.joiner
                if section.pool is not None and section.pool in pools:
                    pools[section.pool] -= fitting.cost + self.joiner
        return fittings

    def _floor(self, fitting: Fitting) -> int:
        """What is kept free for a section while those before it are filled."""
        section = fitting.section
        fixed = section.required and all(isinstance(step, Never) for step in section.ladder)
        kept = fitting.whole if fixed else min(fitting.whole, section.min_tokens)
        return kept + self.joiner if kept else 0

    def _too_large(self, fittings: Sequence[Fitting], cut: int) -> BudgetExceeded:
        costs = {
            fitting.section.id: fitting.whole
            for fitting in fittings
            if fitting.section.required and any(item.text for item in fitting.section.items)
        }
        largest = tuple(sorted(costs, key=lambda name: -costs[name]))
        needed = sum(costs.values()) + self.joiner * (len(costs) - 1) + cut
        return BudgetExceeded(needed, self.budget.allowed, largest, self.remedy)


def _rendered(fitting: Fitting) -> RenderedSection:
    section = fitting.section
    texts = fitting.texts()
    text = section.prefix + section.separator.join(texts) + section.suffix if texts else ""
    return RenderedSection(section.id, section.role, text, fitting.cost, section.stability)


def _report(
    ordered: Sequence[Section],
    fittings: Sequence[Fitting],
    rendered: Sequence[RenderedSection],
    budget: Budget,
    tokens: int,
) -> Report:
    decisions: list[Decision] = []
    actions: list[str] = []
    for fitting in fittings:
        decisions += fitting.decisions
        actions += fitting.actions
    items = sum(decision.tokens_after for decision in decisions)
    warnings = tuple(
        f"section {earlier.id!r} ({earlier.stability}) stands before {later.id!r} ({later.stability}): "
        f"what follows it is not cached"
        for earlier, later in pairwise(rendered)
        if stability_rank(earlier.stability) > stability_rank(later.stability)
    )
    return Report(
        decisions=tuple(decisions),
        order=tuple(section.id for section in ordered),
        totals=Totals(
            budget=budget.total,
            headroom=budget.headroom,
            allowed=budget.allowed,
            items=items,
            framing=tokens - items,
            prompt=tokens,
        ),
        actions=tuple(actions),
        warnings=warnings,
        counter=f"{budget.counter.name}/{budget.counter.version}",
        prefix_hash=prefix_hash(rendered),
        over_budget=tokens > budget.allowed,
        cache_borders=cache_borders(rendered),
    )
