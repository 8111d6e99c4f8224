"""Hashes what shapes a run besides its task and its input: prompts, helpers, models, limits and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from rlm.prompts.templates import texts
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS

__all__ = ["scaffold_of"]

_NOT_SHAPING = frozenset({"cache", "model_facts", "slow"})
"""Facts of a run that do not change what a model is told: where a reply may come from, when, and prices."""


def scaffold_of(facts: Mapping[str, Any], answer_schema: str | None = None) -> str:
    """Return the SHA-256, as hexadecimal digits, of all prompt texts, the helpers, and the facts of a config.

    Two runs with the same hash differ only in task, input and chance.
    """
    shaping = {name: value for name, value in facts.items() if name not in _NOT_SHAPING}
    prompts = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts().items()}
    data = {"prompts": prompts, "helpers": _helpers(), "facts": shaping, "answer_schema": answer_schema}
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _helpers() -> list[dict[str, Any]]:
    return [asdict(helper) for helper in HELPERS]
