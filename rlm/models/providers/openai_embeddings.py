"""Vectors of texts from a server with OpenAI's `/embeddings` (OpenAI, Ollama, vLLM, llama.cpp, …)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlm.models.http.clients.failures import TransportFailure
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.proxy import check_route, proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.reply_limits import ReplyTooLarge, parse_json
from rlm.models.http.retry import with_retries
from rlm.models.http.wire_messages import field
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlm.models.http.clients.session import HttpSession

__all__ = ["EndpointEmbedder"]

_TEXTS = 32
"""Texts of a request: their vectors, as JSON, take at most 2 MB of the 4 that a reply may have."""


class EndpointEmbedder:
    """An embedder (see `rlm.retrieval.vectors`) that asks a server. Texts leave this machine unless the
    server is on it. `tokens` is what the server counted so far."""

    def __init__(self, model: str, endpoint: Endpoint, *, name: str, options: ModelOptions) -> None:
        check_route(endpoint, options)
        self._model = model
        self._endpoint = endpoint
        self._options = options
        self._errors = ErrorMapper(name, model, endpoint, proxy_to(endpoint, options))
        # An Ollama that is named without a URL is known by the root of its own API.
        v1 = "/v1" if endpoint.self_run and not endpoint.takes_v1 else ""
        self._url = f"{endpoint.base_url.rstrip('/')}{v1}/embeddings"
        self._has_answered = False
        self.tokens = 0

    @property
    def identity(self) -> str:
        return f"endpoint-{hashlib.sha256(f'{self._url} {self._model}'.encode()).hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text. Call it from a thread without an event loop. Raises ModelError."""
        import numpy as np

        rows = asyncio.run(self._embed(texts))
        return np.asarray(rows, dtype=np.float32)

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        from rlm.models.http.clients.session import HttpSession

        limiter = limiter_of(self._endpoint, self._options.concurrency)

        async with HttpSession(self._endpoint, self._options) as http:

            async def ask(part: Sequence[str]) -> list[list[float]]:
                return await with_retries(
                    lambda: self._attempt(http, part),
                    self._options.retry,
                    limiter=limiter,
                    has_answered=lambda: self._has_answered,
                )

            parts = [texts[at : at + _TEXTS] for at in range(0, len(texts), _TEXTS)]
            answers = await asyncio.gather(*map(ask, parts))
        return [row for rows in answers for row in rows]

    async def _attempt(self, http: HttpSession, texts: Sequence[str]) -> list[list[float]] | AttemptFailure:
        headers = {} if self._endpoint.key_remedy else {"Authorization": f"Bearer {self._endpoint.key}"}
        # A server may refuse an empty text.
        body = {"model": self._model, "input": [text if text.strip() else "." for text in texts]}
        try:
            answer = await http.post_json(self._url, body, headers=headers)
            self._has_answered = True
            content = await answer.read_to_end()
            if not answer.is_success:
                return self._errors.map_status(answer.status, detail=_detail(content), headers=answer.headers)
            data = parse_json(content)
            rows = _rows(data, len(texts))
        except TransportFailure as failure:
            return self._errors.map_transport(failure)
        except ReplyTooLarge as error:
            return self._errors.map_too_large(error)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            return self._errors.map_garbled(error)
        tokens = field(field(data, "usage"), "total_tokens")
        self.tokens += tokens if isinstance(tokens, int) and tokens > 0 else 0
        return rows


def _rows(data: Any, count: int) -> list[list[float]]:
    """Return the vectors of a reply in the order of its texts. Raises ValueError, TypeError or KeyError."""
    rows: dict[int, list[float]] = {}
    for place, entry in enumerate(data["data"]):
        rows[int(entry.get("index", place))] = [float(number) for number in entry["embedding"]]
    if sorted(rows) != list(range(count)) or len(set(map(len, rows.values()))) != 1:
        raise ValueError("not one vector for each text")
    return [rows[place] for place in range(count)]


def _detail(content: bytes) -> str:
    try:
        message = field(field(parse_json(content), "error"), "message")
    except ValueError:
        return ""
    return message if isinstance(message, str) else ""
