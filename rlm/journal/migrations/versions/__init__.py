"""One step a file, oldest first by number."""
