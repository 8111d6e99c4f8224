"""Files that are not text (PDF, DOCX, EPUB) or hide it in markup (HTML), read in a process of their own."""
