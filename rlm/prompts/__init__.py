"""Build prompts with one pipeline: bounded, reported, and byte-identical for identical input.

This package uses no network, no model, no clock and no randomness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.report import Decision, Report, Totals
from rlm.prompts.assembly.section import Citation, Item, Section
from rlm.prompts.citation_check import CitationCheck, check_citations
from rlm.prompts.errors import (
    BudgetExceeded,
    InputError,
    PromptError,
    ScopedInputError,
    SectionError,
    SliceTooLarge,
    UnknownCounter,
    UnknownStage,
)
from rlm.prompts.recipes.abstention import NOT_FOUND, is_not_found, states_absence
from rlm.prompts.recipes.child import ChildInput, ChildPrompt, ChildSliceText
from rlm.prompts.recipes.earlier import EarlierQuestion, earlier_words
from rlm.prompts.recipes.root import HandleFacts, HelperDoc, RootInput, RootPrompt
from rlm.prompts.tokens.counters import Counter, counter_names, get_counter

if TYPE_CHECKING:
    from rlm.prompts.history import CompactedHistory, Message, compact_history, compact_history_async
    from rlm.prompts.recipes.card.context import CardContext, Document
    from rlm.prompts.recipes.card.prompt import CardInput, CardPrompt, is_complete
    from rlm.prompts.recipes.card.settings import CardBudget, CardSettings
    from rlm.prompts.recipes.cited import CitedInput, CitedPrompt, Pack
    from rlm.prompts.recipes.cited_answer import CitedAnswer
    from rlm.prompts.recipes.scoped.prompt import AssembledScoped, Npc, ScopedInput, ScopedPrompt
    from rlm.prompts.recipes.tiles import Tile, TileConfig, TileInput, TilePrompt, TileStats

__all__ = [
    "NOT_FOUND",
    "AssembledPrompt",
    "AssembledScoped",
    "Budget",
    "BudgetExceeded",
    "CardBudget",
    "CardContext",
    "CardInput",
    "CardPrompt",
    "CardSettings",
    "ChildInput",
    "ChildPrompt",
    "ChildSliceText",
    "Citation",
    "CitationCheck",
    "CitedAnswer",
    "CitedInput",
    "CitedPrompt",
    "CompactedHistory",
    "Counter",
    "Decision",
    "Document",
    "EarlierQuestion",
    "HandleFacts",
    "HelperDoc",
    "InputError",
    "Item",
    "Message",
    "Npc",
    "Pack",
    "PromptError",
    "Report",
    "RootInput",
    "RootPrompt",
    "ScopedInput",
    "ScopedInputError",
    "ScopedPrompt",
    "Section",
    "SectionError",
    "SliceTooLarge",
    "Tile",
    "TileConfig",
    "TileInput",
    "TilePrompt",
    "TileStats",
    "Totals",
    "UnknownCounter",
    "UnknownStage",
    "assemble",
    "check_citations",
    "compact_history",
    "compact_history_async",
    "counter_names",
    "earlier_words",
    "get_counter",
    "is_complete",
    "is_not_found",
    "states_absence",
]

# These are imported on first use: few runs need them.
_HOMES = {
    "AssembledScoped": "rlm.prompts.recipes.scoped.prompt",
    "CardBudget": "rlm.prompts.recipes.card.settings",
    "CardContext": "rlm.prompts.recipes.card.context",
    "CardInput": "rlm.prompts.recipes.card.prompt",
    "CardPrompt": "rlm.prompts.recipes.card.prompt",
    "CardSettings": "rlm.prompts.recipes.card.settings",
    "CitedAnswer": "rlm.prompts.recipes.cited_answer",
    "CitedInput": "rlm.prompts.recipes.cited",
    "CitedPrompt": "rlm.prompts.recipes.cited",
    "CompactedHistory": "rlm.prompts.history",
    "Document": "rlm.prompts.recipes.card.context",
    "Message": "rlm.prompts.history",
    "Npc": "rlm.prompts.recipes.scoped.prompt",
    "Pack": "rlm.prompts.recipes.cited",
    "ScopedInput": "rlm.prompts.recipes.scoped.prompt",
    "ScopedPrompt": "rlm.prompts.recipes.scoped.prompt",
    "Tile": "rlm.prompts.recipes.tiles",
    "TileConfig": "rlm.prompts.recipes.tiles",
    "TileInput": "rlm.prompts.recipes.tiles",
    "TilePrompt": "rlm.prompts.recipes.tiles",
    "TileStats": "rlm.prompts.recipes.tiles",
    "compact_history": "rlm.prompts.history",
    "compact_history_async": "rlm.prompts.history",
    "is_complete": "rlm.prompts.recipes.card.prompt",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
