"""The runtime within other tools: `inspect` for Inspect (extra `inspect`)."""
