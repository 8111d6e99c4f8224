"""Models behind one protocol, a file for each provider. HTTP is imported with the first call."""

from __future__ import annotations

from rlm.models.base import Message, Model, ModelWindow, Reply, Request, SliceText, TokenUsage
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import price, window_of
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.resolution import default_model, resolve

__all__ = [
    "CallSettings",
    "Message",
    "Model",
    "ModelOptions",
    "ModelWindow",
    "Reply",
    "Request",
    "RetryPolicy",
    "SliceText",
    "TokenUsage",
    "default_model",
    "price",
    "resolve",
    "window_of",
]
