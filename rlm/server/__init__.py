"""The HTTP server: its own API under /v1, and the one of OpenAI, over the same runs, tasks and journal.

It needs the extra `server` (FastAPI, uvicorn). `serving.serve` runs it.
"""
