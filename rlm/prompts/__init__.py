"""Build prompts with one pipeline: bounded, reported, and byte-identical for identical input.

This package uses no network, no model, no clock and no randomness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from rlm.prompts.fitting import Part, Section, assemble
    from rlm.prompts.history import CompactedHistory, Message, compact_history, compact_history_async
    from rlm.prompts.packs import Citation, Pack
    from rlm.prompts.prompt import AssembledPrompt, Decision, Report, Totals
    from rlm.prompts.recipes.abstention import NOT_FOUND, is_not_found, states_absence
    from rlm.prompts.recipes.card import CardContext, CardInput, CardPrompt, Document, is_complete
    from rlm.prompts.recipes.card_settings import CardBudget, CardSettings
    from rlm.prompts.recipes.child import ChildInput, ChildPrompt, ChildSliceText
    from rlm.prompts.recipes.cited import CitedInput, CitedPrompt
    from rlm.prompts.recipes.cited_answer import CitedAnswer, check_citations
    from rlm.prompts.recipes.earlier import EarlierQuestion, earlier_words
    from rlm.prompts.recipes.root import HandleFacts, HelperDoc, RootInput, RootPrompt
    from rlm.prompts.recipes.scoped import AssembledScoped, Npc, ScopedInput, ScopedPrompt
    from rlm.prompts.recipes.tiles import Tile, TileConfig, TileInput, TilePrompt, TileStats
    from rlm.prompts.tokens.counters import Counter, counter_names, get_counter

__all__ = [
    "NOT_FOUND",
    "AssembledPrompt",
    "AssembledScoped",
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
    "Message",
    "Npc",
    "Pack",
    "Part",
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

# Each name is imported on first use: few runs need all of them.
_HOMES = {
    "AssembledPrompt": "rlm.prompts.prompt",
    "AssembledScoped": "rlm.prompts.recipes.scoped",
    "BudgetExceeded": "rlm.prompts.errors",
    "CardBudget": "rlm.prompts.recipes.card_settings",
    "CardContext": "rlm.prompts.recipes.card",
    "CardInput": "rlm.prompts.recipes.card",
    "CardPrompt": "rlm.prompts.recipes.card",
    "CardSettings": "rlm.prompts.recipes.card_settings",
    "ChildInput": "rlm.prompts.recipes.child",
    "ChildPrompt": "rlm.prompts.recipes.child",
    "ChildSliceText": "rlm.prompts.recipes.child",
    "Citation": "rlm.prompts.packs",
    "CitedAnswer": "rlm.prompts.recipes.cited_answer",
    "CitedInput": "rlm.prompts.recipes.cited",
    "CitedPrompt": "rlm.prompts.recipes.cited",
    "CompactedHistory": "rlm.prompts.history",
    "Counter": "rlm.prompts.tokens.counters",
    "Decision": "rlm.prompts.prompt",
    "Document": "rlm.prompts.recipes.card",
    "EarlierQuestion": "rlm.prompts.recipes.earlier",
    "HandleFacts": "rlm.prompts.recipes.root",
    "HelperDoc": "rlm.prompts.recipes.root",
    "InputError": "rlm.prompts.errors",
    "Message": "rlm.prompts.history",
    "NOT_FOUND": "rlm.prompts.recipes.abstention",
    "Npc": "rlm.prompts.recipes.scoped",
    "Pack": "rlm.prompts.packs",
    "Part": "rlm.prompts.fitting",
    "PromptError": "rlm.prompts.errors",
    "Report": "rlm.prompts.prompt",
    "RootInput": "rlm.prompts.recipes.root",
    "RootPrompt": "rlm.prompts.recipes.root",
    "ScopedInput": "rlm.prompts.recipes.scoped",
    "ScopedInputError": "rlm.prompts.errors",
    "ScopedPrompt": "rlm.prompts.recipes.scoped",
    "Section": "rlm.prompts.fitting",
    "SectionError": "rlm.prompts.errors",
    "SliceTooLarge": "rlm.prompts.errors",
    "Tile": "rlm.prompts.recipes.tiles",
    "TileConfig": "rlm.prompts.recipes.tiles",
    "TileInput": "rlm.prompts.recipes.tiles",
    "TilePrompt": "rlm.prompts.recipes.tiles",
    "TileStats": "rlm.prompts.recipes.tiles",
    "Totals": "rlm.prompts.prompt",
    "UnknownCounter": "rlm.prompts.errors",
    "UnknownStage": "rlm.prompts.errors",
    "assemble": "rlm.prompts.fitting",
    "check_citations": "rlm.prompts.recipes.cited_answer",
    "compact_history": "rlm.prompts.history",
    "compact_history_async": "rlm.prompts.history",
    "counter_names": "rlm.prompts.tokens.counters",
    "earlier_words": "rlm.prompts.recipes.earlier",
    "get_counter": "rlm.prompts.tokens.counters",
    "is_complete": "rlm.prompts.recipes.card",
    "is_not_found": "rlm.prompts.recipes.abstention",
    "states_absence": "rlm.prompts.recipes.abstention",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
