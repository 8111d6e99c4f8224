"""Compact chat histories: summarize old messages and keep the rest word for word."""

from rlm.prompts.history.compaction import CompactedHistory, Summarizer, compact_history
from rlm.prompts.history.cue_phrases import HEADINGS
from rlm.prompts.history.extract import Extraction, extract
from rlm.prompts.history.message import Message
from rlm.prompts.history.summary import (
    BREAK,
    SUMMARY_PROMPT,
    Folding,
    Summary,
    SummaryCache,
    summarize_messages,
)

__all__ = [
    "BREAK",
    "HEADINGS",
    "SUMMARY_PROMPT",
    "CompactedHistory",
    "Extraction",
    "Folding",
    "Message",
    "Summarizer",
    "Summary",
    "SummaryCache",
    "compact_history",
    "extract",
    "summarize_messages",
]
