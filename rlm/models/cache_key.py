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
    parts: list[object] = [model, request.max_output_tokens, request.sample, messages]
    images = [[image.sha256 for image in message.images] for message in request.messages]
    if any(images):
        parts.append(images)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
