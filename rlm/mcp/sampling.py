"""The client's model as a model of a run: `--model sampling`. It needs no key here; its client pays."""

from __future__ import annotations

from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
)

from rlm.errors import ConfigurationError, ModelRejected, ModelUnavailable
from rlm.escaping import terminal_line
from rlm.mcp.calls import Call, OutOfTurns
from rlm.models.base import FinishReason, ModelWindow, Reply, Request, TokenUsage
from rlm.prompts.tokens.estimate import estimate_tokens

__all__ = ["DEFAULT_WINDOW", "SAMPLING", "SamplingModel"]

SAMPLING = "sampling"
"""The name of the model."""
DEFAULT_WINDOW = ModelWindow(context=100_000, output=8_000, known=False, sees=False)
_FINISHES: dict[str | None, FinishReason] = {"maxTokens": "length", "refusal": "refusal"}
_MAX_REASON = 200


class SamplingModel:
    """Implements Model by `sampling/createMessage`. Tokens are estimated: the protocol reports none.

    Raises ConfigurationError if the client offers no sampling.
    """

    def __init__(self, call: Call[object], window: ModelWindow | None = None) -> None:
        if call.capabilities.sampling is None:
            raise ConfigurationError(
                "the model is sampling, and this client offers none: start rlm mcp with another --model, "
                "or use a client that offers sampling"
            )
        self._call = call
        self._window = window or DEFAULT_WINDOW

    @property
    def name(self) -> str:
        """Return `sampling`."""
        return SAMPLING

    @property
    def window(self) -> ModelWindow:
        """Return the user's window, else one that most models have: the protocol does not say."""
        return self._window

    async def generate(self, request: Request) -> Reply:
        """Return the reply of the client's model. Raises ModelRejected if the client or its user refuses,
        ModelUnavailable if it cannot be asked."""
        system = "\n\n".join(one.content for one in request.messages if one.role == "system")
        messages = [
            SamplingMessage(role=one.role, content=TextContent(type="text", text=one.content))
            for one in request.messages
            if one.role != "system"
        ]
        params = CreateMessageRequestParams(
            messages=messages, system_prompt=system or None, max_tokens=request.max_output_tokens
        )
        try:
            result = await self._call.sample(CreateMessageRequest(params=params))
        except OutOfTurns:
            raise ModelUnavailable(
                "the client may not be asked more often within one call; call the tool resume to go on"
            ) from None
        except (NoBackChannelError, ConnectionError) as error:
            raise ModelUnavailable(f"the client cannot be asked: {_line(error)}") from error
        except (MCPError, ToolError) as error:
            raise ModelRejected(f"the client refused to sample: {_line(error)}") from error
        text = _text(result)
        sent = estimate_tokens("\n".join(one.content for one in request.messages))
        return Reply(
            text,
            _FINISHES.get(result.stop_reason, "stop"),
            TokenUsage(input_tokens=sent, output_tokens=estimate_tokens(text)),
            model=terminal_line(result.model)[:_MAX_REASON],
        )

    async def aclose(self) -> None:
        """Do nothing: the connection is the client's."""


def _text(result: CreateMessageResult) -> str:
    if not isinstance(result.content, TextContent):
        raise ModelRejected(f"the client's model answered with {result.content.type}, not with text")
    return result.content.text


def _line(error: Exception) -> str:
    return terminal_line(" ".join(str(error).split()))[:_MAX_REASON] or type(error).__name__
