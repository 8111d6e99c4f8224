"""Chat histories that outgrow a window: a summary for what is old, the rest word for word."""

from prompts.history.cache import SummaryCache
from prompts.history.compaction import (
    AsyncSummarizer,
    CompactedHistory,
    Summarizer,
    compact_history,
    compact_history_async,
)
from prompts.history.message import Message
from prompts.history.summary import BREAK, SUMMARY_PROMPT

__all__ = [
    "BREAK",
    "SUMMARY_PROMPT",
    "AsyncSummarizer",
    "CompactedHistory",
    "Message",
    "Summarizer",
    "SummaryCache",
    "compact_history",
    "compact_history_async",
]
