"""A file or a server that keeps rows: journals and prompt segments share it."""
