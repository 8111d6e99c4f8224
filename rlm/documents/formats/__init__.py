"""Readers of binary formats (PDF, DOCX, EPUB) and HTML, and the confined process that runs them."""
