"""Replay runs offline, and read the conversations with their models from a replay."""

from rlm.replay.conversations import Conversation, read_conversations
from rlm.replay.golds import Golds
from rlm.replay.replay import Replayed, read_replayable, replay
from rlm.replay.rewards import Reward
from rlm.replay.selection import Selection

__all__ = [
    "Conversation",
    "Golds",
    "Replayed",
    "Reward",
    "Selection",
    "read_conversations",
    "read_replayable",
    "replay",
]
