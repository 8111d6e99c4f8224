"""Assemble sections into a prompt that fits its budget.

Steps: gather, validate, order, measure, reserve, fill, degrade, render, measure the render, report.

`assemble` is pure: equal inputs give equal bytes, and it neither reads nor changes anything else. The
rendered prompt, measured as a whole, takes at most `Budget.allowed` tokens. Otherwise `assemble` raises
BudgetExceeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.derived_sections import DerivedSections
from rlm.prompts.assembly.measure import Measure
from rlm.prompts.assembly.policy import Never
from rlm.prompts.assembly.section import Section, faults_of, stability_rank
from rlm.prompts.assembly.section_fitter import SectionFitter
from rlm.prompts.errors import BudgetExceeded, SectionError
from rlm.prompts.prompt import JOINER, AssembledPrompt, PromptSection, Report, Totals, joined, make_report

__all__ = ["AssembledPrompt", "assemble"]


def assemble(
    sections: Iterable[Section],
    budget: Budget,
    *,
    may_exceed: bool = False,
    remedy: str = "shorten them or raise the budget",
) -> AssembledPrompt:
    """Return the prompt made of `sections` within `budget`.

    Required sections are filled first, then the others, each by priority. With `may_exceed`, required
    sections go in even if they do not fit, and `Report.over_budget` is set. `remedy` ends the message of
    BudgetExceeded. Raises SectionError and BudgetExceeded.
    """
    gathered = tuple(sections)
    faults = faults_of(gathered) + budget.faults()
    if faults:
        raise SectionError(tuple(faults))
    ordered = sorted(gathered, key=lambda section: section.order)
    if budget.allowed < 0:
        remedy = f"the headroom is larger than the budget; {remedy}"
    assembly = _Assembly(ordered, budget, may_exceed, remedy)
    if budget.allowed < 0:
        raise assembly.too_large_error(assembly.fitters().values())
    cut = step = 0
    while True:
        fitters = assembly.fill(cut)
        rendered = [_render(fitter) for fitter in fitters]
        tokens = assembly.measure_prompt(rendered)
        if tokens <= budget.allowed or assembly.exceeded:
            break
        # The parts, measured alone, can add up to less than the whole. Then leave more room and fill again.
        # The step doubles so that the loop ends soon, but takes at most half of the remaining room.
        left = assembly.allowed - cut
        step = max(1, min(max(left - left * budget.allowed // tokens, 2 * step), left // 2))
        cut += step
    return AssembledPrompt(tuple(rendered), _report(fitters, rendered, budget, tokens))


class _Assembly:
    """Holds the sections during reserve, fill and degrade. All sizes are in units of its measure."""

    def __init__(self, ordered: Sequence[Section], budget: Budget, may_exceed: bool, remedy: str) -> None:
        self.ordered = ordered
        self.derived = [section for section in ordered if section.derived is not None]
        self.budget = budget
        self.may_exceed = may_exceed
        self.remedy = remedy
        self.measure = Measure(budget.counter)
        self.sizes = {
            section.id: self.measure.each([item.text for item in section.items]) for section in ordered
        }
        self.allowed = self.measure.bound(budget.allowed)
        self.joiner = self.measure(JOINER)
        self.exceeded = False

    def measure_prompt(self, sections: Sequence[PromptSection]) -> int:
        """Return the tokens of the prompt, measured whole."""
        return self.measure.count(joined(sections))

    def fitters(self) -> dict[str, SectionFitter]:
        """Return a fresh fitter for every section, by section id."""
        return {
            section.id: SectionFitter(section, self.measure, self.sizes[section.id])
            for section in self.ordered
        }

    def fill(self, cut: int) -> list[SectionFitter]:
        """Fit every section while `cut` units stay free. Return the fitters in rendered order.

        Sections are filled by importance. While one section is filled, the room that later sections are
        guaranteed (`_floor`) counts as taken. Sections derived from a section are filled right after it:
        their text depends on the items that went in, and the source section has already left room for it.
        """
        fitters = self.fitters()
        queue = sorted(
            (fitter for fitter in fitters.values() if fitter.section.derived is None),
            key=lambda fitter: (not fitter.section.required, -fitter.section.priority),
        )
        # The first section has no joiner, nor has the first of a message that is measured alone.
        room = self.allowed - cut + self.joiner * (1 + self._free_borders())
        floors = {fitter.section.id: self._floor(fitter) for fitter in queue}
        kept_free = {True: 0, False: 0}
        for fitter in queue:
            kept_free[fitter.section.required] += floors[fitter.section.id]
        pools = {
            section.pool: self.measure.bound(bound)
            for section in self.ordered
            if section.pool is not None and (bound := self.budget.cap(section.pool)) is not None
        }
        no_derived = DerivedSections((), (), self.measure, 0)
        used = 0
        for place, fitter in enumerate(queue):
            section = fitter.section
            pool_floor = sum(
                floors[later.section.id]
                for later in queue[place + 1 :]
                if later.section.pool == section.pool is not None
                and later.section.required == section.required
            )
            derived = [part for part in self.derived if part.derived and part.derived.of == section.id]
            derived_sections = (
                DerivedSections(derived, section.items, self.measure, self.joiner) if derived else no_derived
            )
            if not fitter.empty:
                kept_free[section.required] -= floors[section.id]
                left = room - used - kept_free[section.required] - self.joiner
                used += self._fit(fitter, left, pools, derived_sections, fitters, pool_floor)
            for part in derived_sections.sections():
                sizes = self.measure.each([item.text for item in part.items])
                derived_fitter = fitters[part.id] = SectionFitter(part, self.measure, sizes)
                left = room - used - kept_free[section.required] - self.joiner
                if not derived_fitter.empty:
                    used += self._fit(derived_fitter, left, pools, no_derived, fitters)
        return list(fitters.values())

    def _fit(
        self,
        fitter: SectionFitter,
        left: int,
        pools: dict[str, int],
        derived_sections: DerivedSections,
        fitters: dict[str, SectionFitter],
        pool_floor: int = 0,
    ) -> int:
        """Fit one section into `left`, and into its pool without `pool_floor`, which later sections of the
        pool are guaranteed. Return the size it takes, including its joiner."""
        section = fitter.section
        caps = [
            self.measure.bound(cap)
            for cap in (section.max_tokens, self.budget.cap(section.id))
            if cap is not None
        ]
        if section.pool in pools:
            caps.append(pools[section.pool or ""] - pool_floor)
        bound = min([left, *caps])
        fits = fitter.fit(bound, derived_sections)
        if section.required and (fitter.empty or not fits):
            if self.may_exceed:
                self.exceeded = True
            elif bound < left:
                tokens = self.measure.tokens
                raise BudgetExceeded(tokens(fitter.whole), tokens(bound), (section.id,), self.remedy)
            else:
                raise self.too_large_error(fitters.values())
        elif not fits:
            fitter.drop(f"its section had {max(self.measure.tokens(bound), 0):,} tokens")
        if fitter.empty:
            return 0
        taken = fitter.cost + self.joiner
        if section.pool in pools:
            pools[section.pool or ""] -= taken
        return taken

    def _free_borders(self) -> int:
        """Count the borders between messages where no joiner is counted.

        Only borders between required, non-empty sections count, because only those are certain to exist.
        """
        if not self.budget.by_message:
            return 0
        roles = [
            section.role
            for section in self.ordered
            if section.required and any(item.text for item in section.items)
        ]
        return sum(former != latter for former, latter in pairwise(roles))

    def _floor(self, fitter: SectionFitter) -> int:
        """Return the room to keep free for a section while earlier ones are filled."""
        section = fitter.section
        if section.required and all(isinstance(step, Never) for step in section.ladder):
            kept = fitter.whole
        elif section.min_tokens:
            kept = min(fitter.whole, self.measure.bound(section.min_tokens))
        else:
            kept = 0
        return kept + self.joiner if kept else 0

    def too_large_error(self, fitters: Iterable[SectionFitter]) -> BudgetExceeded:
        """Return the error that names the required sections that do not fit."""
        costs = {
            fitter.section.id: fitter.whole
            for fitter in fitters
            if fitter.section.required and any(item.text for item in fitter.section.items)
        }
        largest = tuple(sorted(costs, key=lambda name: -costs[name]))
        needed = self.measure.tokens(sum(costs.values()) + self.joiner * max(len(costs) - 1, 0))
        needed = max(needed, self.budget.allowed + 1)  # the whole can take more than its parts
        return BudgetExceeded(needed, self.budget.allowed, largest, self.remedy)


def _render(fitter: SectionFitter) -> PromptSection:
    section = fitter.section
    texts = fitter.texts()
    text = section.prefix + section.separator.join(texts) + section.suffix if texts else ""
    stable = stability_rank(section.stability) < stability_rank("turn")
    return PromptSection(section.id, section.role, text, fitter.tokens, stable)


def _report(
    fitters: Sequence[SectionFitter], rendered: Sequence[PromptSection], budget: Budget, tokens: int
) -> Report:
    decisions = [
        decision
        for fitter in fitters
        for decision in fitter.decisions
        if decision.reason != "its text is empty"
    ]
    return make_report(rendered, decisions, budget.counter, Totals(budget.allowed, tokens))
