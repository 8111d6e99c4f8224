"""Pictures: the pages of PDFs and picture files, for models that see.

`originals` keeps the files of a context's documents, `renderer` makes a picture of a page of one, and
`worker` is the confined job that does it. Nothing is imported here: the job imports only what it needs.
"""
