"""How settings are spelled in files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["EARLIER_NAMES", "present_name"]

EARLIER_NAMES: Mapping[str, str] = MappingProxyType(
    {"cache": "reuse_answers", "no_cache": "no_document_cache", "max_tokens": "max_total_tokens"}
)
"""Names of earlier releases. `max_tokens` of a file is the run's total, as it always was; --max-tokens is the
cap of a reply."""


def present_name(written: str) -> str:
    """Return the name of a setting: `max-rounds` is `max_rounds`, and a name of earlier releases is known."""
    name = written.replace("-", "_")
    return EARLIER_NAMES.get(name, name)
