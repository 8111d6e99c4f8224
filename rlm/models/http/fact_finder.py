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
from rlm.models.http.wire_messages import field
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
                return _read_listing(await server.find_listing(model), prices=True) or ModelInfo()
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
    listed = field(answer, "data") if isinstance(answer, dict) else answer
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for entry in entries:
        aliases = field(entry, "aliases")
        if model in (field(entry, "id"), *(aliases if isinstance(aliases, list) else ())):
            return entry
    return entries[0] if len(entries) == 1 else None


async def _ask_google(server: _Server, endpoint: Endpoint, model: str) -> ModelInfo:
    """Ask Google's own API, which takes the key in a header of its own. Its compatible one reports no
    sizes."""
    url = f"{server.root.removesuffix('/openai')}/models/{quote(model.removeprefix('models/'))}"
    shown = await server.ask(url, headers={"x-goog-api-key": endpoint.key})
    return ModelInfo(
        window=_read_size(field(shown, "inputTokenLimit")),
        output=_read_size(field(shown, "outputTokenLimit")),
        thinks=field(shown, "thinking") is True,
    )


async def _ask_program(server: _Server, model: str, provider: str) -> ModelInfo:
    """Ask a server that the user runs. Where the name does not tell which program it is, its list does."""
    if provider == "ollama":
        return await _ask_ollama(server, model) or ModelInfo()
    entry = await server.find_listing(model)
    found = _read_listing(entry, prices=False) or ModelInfo()
    program = PROGRAMS.get(str(field(entry, "owned_by")), provider if provider != "openai" else "")
    if program == "llamacpp":
        props = await server.ask(f"{server.root}/props")
        settings = field(props, "default_generation_settings")
        context = _read_size(field(settings, "n_ctx")) or _read_size(field(props, "n_ctx"))
        sees = field(field(props, "modalities"), "vision")
        found = replace(
            found, window=context, most_window=None, sees=sees if isinstance(sees, bool) else None
        )
    elif program == "lmstudio":
        listed = _find_entry(await server.ask(f"{server.root}/api/v0/models"), model)
        context = _read_size(field(listed, "loaded_context_length"))
        found = replace(found, window=context, most_window=_read_size(field(listed, "max_context_length")))
    elif program == "ollama":
        # Through Chat Completions the size can't be asked for: what the model's file says, or the program.
        asked = await _ask_ollama(server, model)
        if asked is not None:
            context = asked.window or min(_OLLAMA_CONTEXT, asked.most_window or _OLLAMA_CONTEXT)
            found = replace(asked, window=context, is_default=asked.window is None or asked.is_default)
    return found


async def _ask_ollama(server: _Server, model: str) -> ModelInfo | None:
    """Ask Ollama for the size in the model's own file, that of the loaded model, and the one it was trained
    for."""
    shown = await server.ask(f"{server.root}/api/show", {"model": model})
    if not isinstance(shown, dict):
        return None
    loaded = await server.ask(f"{server.root}/api/ps")
    info = field(shown, "model_info")
    sizes = [value for key, value in info.items() if str(key).endswith(".context_length")] if info else []
    parameters = field(shown, "parameters")
    match = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    capabilities = field(shown, "capabilities")
    capabilities = capabilities if isinstance(capabilities, list) else []
    levels = field(field(shown, "thinking"), "values")
    context = _read_size(match[1]) if match else _find_loaded(loaded, model)
    return ModelInfo(
        window=context,
        is_default=match is None and context is not None,
        most_window=_read_size(sizes[0]) if sizes else None,
        thinks="thinking" in capabilities,
        think_levels=tuple(level for level in levels if isinstance(level, str))
        if isinstance(levels, list)
        else (),
        sees="vision" in capabilities if capabilities else None,
    )


def _find_loaded(answer: Any, model: str) -> int | None:
    """Return the size of the context of a loaded model. A name without a tag means `latest`."""
    listed = field(answer, "models")
    for entry in listed if isinstance(listed, list) else ():
        if field(entry, "name") in (model, f"{model}:latest"):
            return _read_size(field(entry, "context_length"))
    return None


def _read_listing(entry: Any, *, prices: bool) -> ModelInfo | None:
    """Return the facts in a model's entry of a list. Providers use different names for them. `prices` tells
    whether to believe its prices: a price of 0 would lift the limit of the cost."""
    if not isinstance(entry, dict):
        return None
    top = field(entry, "top_provider")
    listed = field(entry, "pricing") if prices else None
    modalities = field(field(entry, "architecture"), "input_modalities")
    facts = ModelInfo(
        window=_first_size(_CONTEXT_FIELDS, top, entry),
        most_window=_read_size(field(field(entry, "meta"), "n_ctx_train")),
        output=_first_size(_OUTPUT_FIELDS, top, entry),
        input_price=_read_price(field(listed, "prompt")),
        output_price=_read_price(field(listed, "completion")),
        cached_price=_read_price(field(listed, "input_cache_read")),
        sees="image" in modalities if isinstance(modalities, list) else None,
    )
    return None if facts == ModelInfo() else facts


def _first_size(names: tuple[str, ...], *records: Any) -> int | None:
    sizes = (_read_size(field(record, name)) for record in records for name in names)
    return next((size for size in sizes if size is not None), None)


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
