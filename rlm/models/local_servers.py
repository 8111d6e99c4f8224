"""Find model servers that run on this machine, at the ports where the usual programs listen.

Only this machine is asked, in at most 0.3 s for all together, and nothing but a list of models. Whatever
listens there may be something else, and may answer anything.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from rlm.models.catalog.addresses import gateway_of, is_loopback
from rlm.models.registry import PROVIDERS

__all__ = ["PROGRAMS", "LocalServer", "find_local_servers"]

_SECONDS = 0.3
_SLACK = 0.05
"""Seconds that a thread may need to notice that its time is over."""
_MOST_BYTES = 1 << 20
_MOST_MODELS = 100
_NAME = re.compile(r"[\w@][\w.:/@+-]{0,199}")
PROGRAMS = {"vllm": "vllm", "llamacpp": "llamacpp", "library": "ollama", "organization_owner": "lmstudio"}
"""Programs by the `owned_by` of the models in their lists."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answered. `models` are the names to type, each with its prefix; at most 100."""

    provider: str
    title: str
    base_url: str
    models: tuple[str, ...]


def find_local_servers(env: Mapping[str, str] = os.environ) -> tuple[LocalServer, ...]:
    """Return the servers that answer on this machine, in the order of the registry. A variable of `env` that
    names another port (OLLAMA_HOST) is followed; one that names another machine is not."""
    found: dict[str, LocalServer] = {}
    deadline = time.monotonic() + _SECONDS

    def ask(prefix: str, base_url: str) -> None:
        server = _ask(prefix, base_url)
        if server is not None:
            found[prefix] = server

    threads = []
    for prefix, spec in PROVIDERS.items():
        base_url = gateway_of(spec, env) or spec.base_url
        if spec.port is not None and is_loopback(base_url):
            threads.append(threading.Thread(target=ask, args=(prefix, base_url), daemon=True))
            threads[-1].start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()) + _SLACK)
    return tuple(found[prefix] for prefix in PROVIDERS if prefix in found)


def _ask(prefix: str, base_url: str) -> LocalServer | None:
    """Ask the server at the URL where the models of `prefix` are looked for."""
    is_ollama = prefix == "ollama"
    path = "/api/tags" if is_ollama else f"{urlsplit(base_url).path}/models"
    answer = _get_json(base_url, path)
    listed = answer.get("models" if is_ollama else "data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    entries = [entry for entry in listed[:_MOST_MODELS] if isinstance(entry, dict)]
    # Another program may have taken the port. Its list may tell which it is.
    owners = {PROGRAMS.get(str(entry.get("owned_by")), prefix) for entry in entries}
    actual = owners.pop() if len(owners) == 1 else prefix
    at = "" if actual == prefix else f"@{base_url}"
    names = [entry.get("name" if is_ollama else "id") for entry in entries]
    models = tuple(
        f"{actual}:{name}{at}" for name in names if isinstance(name, str) and _NAME.fullmatch(name)
    )
    return LocalServer(actual, PROVIDERS[actual].title, base_url, models)


def _get_json(base_url: str, path: str) -> Any:
    """Return the JSON at a path, or None. Reads a megabyte at most. A server that trickles
    outlives its time in a daemon thread."""
    parts = urlsplit(base_url)
    if parts.scheme != "http" or parts.hostname is None:
        return None
    try:
        connection = HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
        with closing(connection):
            connection.request("GET", path, headers={"Accept": "application/json"})
            response = connection.getresponse()
            received = response.read(_MOST_BYTES + 1)
        is_whole = response.status == 200 and len(received) <= _MOST_BYTES
        return json.loads(received) if is_whole else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
