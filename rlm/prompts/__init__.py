"""Prompts out of one pipeline: bounded, reported, and the same bytes for the same input.

Text in, text out: no network, no model, no clock, no randomness.
"""

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
from rlm.prompts.history import CompactedHistory, Message, compact_history, compact_history_async
from rlm.prompts.recipes.abstention import NOT_FOUND, is_not_found
from rlm.prompts.recipes.card.context import CardContext, Document
from rlm.prompts.recipes.card.prompt import CardInput, CardPrompt, is_complete
from rlm.prompts.recipes.card.settings import CardBudget, CardSettings
from rlm.prompts.recipes.child import ChildInput, ChildPrompt, ChildSliceText
from rlm.prompts.recipes.cited import CitedInput, CitedPrompt, Pack
from rlm.prompts.recipes.earlier import EarlierQuestion, earlier_words
from rlm.prompts.recipes.root import HandleFacts, HelperDoc, RootInput, RootPrompt
from rlm.prompts.recipes.scoped.prompt import AssembledScoped, Npc, ScopedInput, ScopedPrompt
from rlm.prompts.recipes.tiles import Tile, TileConfig, TileInput, TilePrompt, TileStats
from rlm.prompts.tokens.counters import Counter, counter_names, get_counter

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
]
