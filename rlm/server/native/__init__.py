"""The own API of the server: runs, events, documents, search."""
