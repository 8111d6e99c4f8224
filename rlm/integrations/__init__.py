"""The runtime within other tools of research: `inspect` for Inspect, `verifiers` for reinforcement learning.

Each module needs the extra of its name.
"""
