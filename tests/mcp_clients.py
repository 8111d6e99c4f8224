"""Start `rlm mcp` as a client does, in a process of its own, and talk to it with the official client."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp import Client

MODES = ("legacy", "auto")
"""Protocols up to 2025-11-25, and from 2026-07-28 on."""

OFFER = "# Offer\n\nThe northern yard offers the crane for 90,000 euros.\n\n## Liability\n\nNone at all.\n"

Connect = Callable[..., AbstractAsyncContextManager["Client"]]


@dataclass(frozen=True)
class Place:
    """A folder that may be read, one that may not, and a store."""

    root: Path
    outside: Path
    home: Path
    env: dict[str, str]

    @property
    def errors(self) -> Path:
        """Return the file with the server's stderr."""
        return self.home / "stderr.txt"

    def script(self, *replies: dict[str, Any]) -> str:
        """Write a scripted model, and return its name."""
        file = self.home / "script.jsonl"
        file.write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")
        return f"scripted:{file}"

    def connect(
        self,
        *arguments: str,
        mode: str = "auto",
        root: Path | None = None,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[Client]:
        """Return a client of `rlm mcp --root ROOT *arguments`."""
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "rlm", "mcp", "--root", str(root or self.root), *arguments],
            env={**self.env, **(env or {})},
            cwd=self.home,
        )

        @asynccontextmanager
        async def opened() -> AsyncIterator[Client]:
            with self.errors.open("w") as errors:
                async with Client(stdio_client(parameters, errlog=errors), mode=mode, **options) as client:
                    yield client

        return opened()


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return "\n".join(one.text for one in result.content)
