"""Prompts out of one pipeline: bounded, reported, and the same bytes for the same input.

Text in, text out: no network, no model, no clock, no randomness.
"""

from prompts.assembler import AssembledPrompt, assemble
from prompts.budget import Budget
from prompts.citing import CitationCheck, check_citations
from prompts.errors import (
    BudgetExceeded,
    InputError,
    PromptError,
    ScopedInputError,
    SectionError,
    SliceTooLarge,
    UnknownCounter,
    UnknownStage,
)
from prompts.history import CompactedHistory, Message, compact_history, compact_history_async
from prompts.recipes.abstention import NOT_FOUND, is_not_found
from prompts.recipes.card import CardInput, CardPrompt, is_complete
from prompts.recipes.card_context import CardContext, Document
from prompts.recipes.card_settings import CardBudget, CardSettings
from prompts.recipes.child import ChildInput, ChildPrompt, ChildSliceText
from prompts.recipes.cited import CitedInput, CitedPrompt, Pack
from prompts.recipes.earlier import EarlierQuestion, earlier_words
from prompts.recipes.root import HandleFacts, HelperDoc, RootInput, RootPrompt
from prompts.recipes.scoped import AssembledScoped, Npc, ScopedInput, ScopedPrompt
from prompts.recipes.tiles import Tile, TileConfig, TileInput, TilePrompt, TileStats
from prompts.report import Decision, Report, Totals
from prompts.section import Citation, Item, Section
from prompts.tokens import Counter, counter_names, get_counter

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
