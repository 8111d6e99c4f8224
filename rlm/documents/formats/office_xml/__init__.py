"""The XML of office files: its elements, relations, and the words in drawings."""
