"""Prompts out of one pipeline: bounded, reported, and the same bytes for the same input.

Text in, text out: no network, no model, no clock, no randomness.
"""

from prompts.assembler import AssembledPrompt, assemble
from prompts.budget import Budget
from prompts.errors import (
    BudgetExceeded,
    PromptError,
    ScopedInputError,
    SectionError,
    SliceTooLarge,
    UnknownCounter,
)
from prompts.recipes.abstention import NOT_FOUND, is_not_found
from prompts.recipes.child import ChildInput, ChildPrompt, ChildSliceText
from prompts.recipes.root import HandleFacts, HelperDoc, RootInput, RootPrompt
from prompts.recipes.scoped import AssembledScoped, Npc, ScopedInput, ScopedPrompt
from prompts.report import Decision, Report, Totals
from prompts.section import Citation, Item, Section
from prompts.tokens import Counter, counter_names, get_counter

__all__ = [
    "NOT_FOUND",
    "AssembledPrompt",
    "AssembledScoped",
    "Budget",
    "BudgetExceeded",
    "ChildInput",
    "ChildPrompt",
    "ChildSliceText",
    "Citation",
    "Counter",
    "Decision",
    "HandleFacts",
    "HelperDoc",
    "Item",
    "Npc",
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
    "Totals",
    "UnknownCounter",
    "assemble",
    "counter_names",
    "get_counter",
    "is_not_found",
]
