"""Clients that carry requests to providers: our own for plain protocols, and the SDKs' for all else."""
