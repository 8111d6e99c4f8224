"""Clients that carry requests: our own, and those of the SDKs for clouds that route and sign requests."""
