"""Replay runs offline, and read the conversations with their models from a replay."""

from rlm.replay.conversations import Conversation, read_conversations
from rlm.replay.replay import Replayed, read_replayable, replay

__all__ = ["Conversation", "Replayed", "read_conversations", "read_replayable", "replay"]
