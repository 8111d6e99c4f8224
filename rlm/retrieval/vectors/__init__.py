"""Vectors of passages, for queries in other words than the text's: an option (extra `hybrid`)."""
