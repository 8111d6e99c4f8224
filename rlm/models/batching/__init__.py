"""Calls at half the price: they are gathered into batches, which a provider answers within 24 hours."""
