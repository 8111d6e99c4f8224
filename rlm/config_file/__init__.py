"""The settings files: which there are, which of them speak for the user, and what they set.

The user's own file and the file of `--config` may set everything. `rlm.toml` in the working folder may be the
work of a stranger: it may only lower limits and set what can do no harm.
"""
