"""The cache key of a model request."""

from __future__ import annotations

import hashlib
import json

from rlm.models.base import Request

__all__ = ["call_key"]


def call_key(model: str, request: Request) -> str:
    """Return a hash of the model's name, the parameters and the prompt. Requests with equal keys may share a
    reply."""
    messages = [[message.role, message.content] for message in request.messages]
    parts = [model, request.max_output_tokens, request.sample, messages]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
