"""What tells a call apart from every other."""

from __future__ import annotations

import hashlib
import json

from rlm.models.base import Request

__all__ = ["call_key"]


def call_key(model: str, request: Request) -> str:
    """The hash of the model's name, its parameters and the prompt: equal calls may share an answer."""
    messages = [[message.role, message.content] for message in request.messages]
    asked = [model, request.max_output_tokens, request.sample, messages]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
