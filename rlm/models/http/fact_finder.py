"""Ask a server about a model: its window, its limits, its price. Once for each process, in a short time.

What a server may send is bounded as its replies are. It is asked with the same key as it is called, or none.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rlm.models.catalog.addresses import is_private
from rlm.models.catalog.info import ModelInfo
from rlm.models.http.endpoint import Endpoint, encode_json
from rlm.models.http.errors import StatusFailure, TransportFailure
from rlm.models.http.reply_limits import ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import field, list_in, text_in
from rlm.models.local_servers import PROGRAMS
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    from rlm.models.http.session import HttpSession

__all__ = ["find_facts"]

_PRIVATE_SECONDS = 1.0
_PUBLIC_SECONDS = 3.0
_OLLAMA_CONTEXT = 4_096
"""Tokens to which Ollama cuts a prompt of its Chat Completions on most machines, if nothing is set."""
_LEAST_CONTEXT, _MOST_CONTEXT = 256, 100_000_000
_MOST_PRICE = 1.0
"""Dollars for a token."""

_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_output_length")
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


async def find_facts(
    endpoint: Endpoint, model: str, provider: str, kind: str, options: ModelOptions
) -> ModelInfo | None:
    """Return what the server at `endpoint` reports of `model`; None if it can't be reached or takes too
    long. `provider` is the prefix of the model's name. Raises nothing."""
    session = await asyncio.to_thread(import_module, "rlm.models.http.session")  # takes a moment
    seconds = _PRIVATE_SECONDS if is_private(endpoint.base_url) else _PUBLIC_SECONDS
    try:
        async with asyncio.timeout(seconds), session.HttpSession(endpoint, options) as http:
            server = _Server(http, endpoint)
            if kind == "list":
                return _read_listing(await server.find_listing(model), prices=True)
            if kind == "gemini":
                return await _ask_google(server, endpoint, model)
            return await _ask_program(server, model, provider)
    except (TimeoutError, TransportFailure, ReplyTooLarge, ValueError, RecursionError):
        return None


class _Server:
    """Asks one server. `root` is its URL without `/v1`."""

    def __init__(self, http: HttpSession, endpoint: Endpoint) -> None:
        self._http = http
        self._headers = {} if endpoint.key_remedy else {"Authorization": f"Bearer {endpoint.key}"}
        self._base_url = endpoint.base_url.rstrip("/")
        self.root = self._base_url.removesuffix("/v1")

    async def ask(
        self, url: str, body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None
    ) -> Any:
        """Return the JSON at `url`, or None where there is none. Raises the errors of HTTP, and
        ReplyTooLarge."""
        sent = headers or self._headers
        content = None if body is None else encode_json(body).encode()
        try:
            answer = await self._http.send(url, sent, content)
            return parse_json(await answer.read_to_end())
        except (StatusFailure, ValueError):
            return None

    async def find_listing(self, model: str) -> Any:
        """Return the entry of `model` in the list of models, or None. A server of one model lists it under
        any name."""
        return _find_entry(await self.ask(f"{self._base_url}/models"), model)


def _find_entry(answer: Any, model: str) -> Any:
    entries = [one for one in list_in(answer, "data") or list_in(answer) if isinstance(one, dict)]
    for entry in entries:
        if model in (field(entry, "id"), *list_in(entry, "aliases")):
            return entry
    return entries[0] if len(entries) == 1 else None


async def _ask_google(server: _Server, endpoint: Endpoint, model: str) -> ModelInfo:
    """Ask Google's own API, which takes the key in a header of its own. Its compatible one reports no
    sizes."""
    url = f"{server.root.removesuffix('/openai')}/models/{quote(model.removeprefix('models/'))}"
    shown = await server.ask(url, headers={"x-goog-api-key": endpoint.key})
    return ModelInfo(
        window=_size_in(shown, "inputTokenLimit"),
        output=_size_in(shown, "outputTokenLimit"),
        thinks=field(shown, "thinking") is True,
    )


async def _ask_program(server: _Server, model: str, provider: str) -> ModelInfo:
    """Ask a server that the user runs. Where the name does not tell which program it is, its list does."""
    if provider == "ollama":
        return await _ask_ollama(server, model) or ModelInfo()
    entry = await server.find_listing(model)
    found = _read_listing(entry, prices=False)
    program = PROGRAMS.get(text_in(entry, "owned_by"), provider if provider != "openai" else "")
    if program == "llamacpp":
        props = await server.ask(f"{server.root}/props")
        window = _size_in(props, "default_generation_settings", "n_ctx") or _size_in(props, "n_ctx")
        sees = field(props, "modalities", "vision")
        return replace(found, window=window, most_window=None, sees=sees if isinstance(sees, bool) else None)
    if program == "lmstudio":
        listed = _find_entry(await server.ask(f"{server.root}/api/v0/models"), model)
        window, most = _size_in(listed, "loaded_context_length"), _size_in(listed, "max_context_length")
        return replace(found, window=window, most_window=most)
    asked = await _ask_ollama(server, model) if program == "ollama" else None
    if asked is None:
        return found
    # Through Chat Completions the size can't be asked for: what the model's file says, or the program.
    window = asked.window or min(_OLLAMA_CONTEXT, asked.most_window or _OLLAMA_CONTEXT)
    return replace(asked, window=window, is_default=asked.window is None or asked.is_default)


async def _ask_ollama(server: _Server, model: str) -> ModelInfo | None:
    """Ask Ollama for the size in the model's own file, that of the loaded model, and the one it was trained
    for."""
    shown = await server.ask(f"{server.root}/api/show", {"model": model})
    if not isinstance(shown, dict):
        return None
    loaded = await server.ask(f"{server.root}/api/ps")
    info = field(shown, "model_info") or {}
    sizes = [_size_in(info, key) for key in info if str(key).endswith(".context_length")]
    match = _NUM_CTX.search(text_in(shown, "parameters"))
    # A name without a tag means `latest`.
    running = (one for one in list_in(loaded, "models") if field(one, "name") in (model, f"{model}:latest"))
    window = _read_size(match[1]) if match else _size_in(next(running, None), "context_length")
    capabilities = list_in(shown, "capabilities")
    levels = list_in(shown, "thinking", "values")
    return ModelInfo(
        window=window,
        is_default=match is None and window is not None,
        most_window=sizes[0] if sizes else None,
        thinks="thinking" in capabilities,
        think_levels=tuple(level for level in levels if isinstance(level, str)),
        sees="vision" in capabilities if capabilities else None,
    )


def _read_listing(entry: Any, *, prices: bool) -> ModelInfo:
    """Return the facts in a model's entry of a list. Providers use different names for them. `prices` tells
    whether to believe its prices: a price of 0 would lift the limit of the cost."""
    top, listed = field(entry, "top_provider"), field(entry, "pricing") if prices else None
    modalities = list_in(entry, "architecture", "input_modalities")
    return ModelInfo(
        window=_first_size(_CONTEXT_FIELDS, top, entry),
        most_window=_size_in(entry, "meta", "n_ctx_train"),
        output=_first_size(_OUTPUT_FIELDS, top, entry),
        input_price=_read_price(field(listed, "prompt")),
        output_price=_read_price(field(listed, "completion")),
        cached_price=_read_price(field(listed, "input_cache_read")),
        sees="image" in modalities if modalities else None,
    )


def _first_size(names: tuple[str, ...], *records: Any) -> int | None:
    sizes = (_size_in(record, name) for record in records for name in names)
    return next((size for size in sizes if size is not None), None)


def _size_in(record: object, *path: str) -> int | None:
    return _read_size(field(record, *path))


def _read_size(value: object) -> int | None:
    """Return a number of tokens that a server reports, or None if no model has so many or so few."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    return value if type(value) is int and _LEAST_CONTEXT <= value <= _MOST_CONTEXT else None


def _read_price(value: object) -> float | None:
    """Return a server's price for a token as one for a million, or None if it is none."""
    try:
        price = float(value) if isinstance(value, str | int | float) and value is not True else -1.0
    except ValueError:
        return None
    return price * 1_000_000 if math.isfinite(price) and 0 <= price < _MOST_PRICE else None
