"""Compact chat histories: summarize old messages and keep the rest word for word."""

from rlm.prompts.history.cache import SummaryCache
from rlm.prompts.history.compaction import (
    AsyncSummarizer,
    CompactedHistory,
    Summarizer,
    compact_history,
    compact_history_async,
    drive_async,
)
from rlm.prompts.history.cue_phrases import HEADINGS
from rlm.prompts.history.extract import Extraction, extract
from rlm.prompts.history.message import Message
from rlm.prompts.history.summary import (
    BREAK,
    SUMMARY_PROMPT,
    Folding,
    Summary,
    chunks,
    summary_steps,
)

__all__ = [
    "BREAK",
    "HEADINGS",
    "SUMMARY_PROMPT",
    "AsyncSummarizer",
    "CompactedHistory",
    "Extraction",
    "Folding",
    "Message",
    "Summarizer",
    "Summary",
    "SummaryCache",
    "chunks",
    "compact_history",
    "compact_history_async",
    "drive_async",
    "extract",
    "summary_steps",
]
