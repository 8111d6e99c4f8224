"""Build each prompt: one file of functions for each kind."""
