"""MCP servers whose tools a run may use, as a settings file (`[mcp.NAME]`) or a caller names them."""

from __future__ import annotations

import keyword
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rlm.errors import ConfigurationError

__all__ = ["McpServer", "read_mcp_servers"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
_KEYS = ("command", "args", "env", "url", "headers", "tools")


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server that is started (`command`, `args`, `env`) or reached (`url`, `headers`).

    A value of `env` or `headers` may name a variable of the user as `$NAME`: nothing else of the user's
    environment goes to the server but what programs need to start (PATH, HOME, …). `tools` are the only tools
    that may be called; None is all of them.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tools: tuple[str, ...] | None = None

    @classmethod
    def from_table(cls, name: str, table: object) -> McpServer:
        """Return the server of a table. Raises ConfigurationError, which names the key."""
        where = f"mcp.{name}"
        if not _NAME.fullmatch(name) or keyword.iskeyword(name):
            raise ConfigurationError(
                f"{name[:60]!r} cannot name an MCP server: use letters, digits and _, for its tools"
            )
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{where} is {table!r:.80}; write [mcp.{name}] with command or url")
        unknown = sorted(str(key) for key in table if key not in _KEYS)
        if unknown:
            raise ConfigurationError(f"{where} has no key {unknown[0][:60]!r}; use {', '.join(_KEYS)}")
        command, url = _text(where, table, "command"), _text(where, table, "url")
        if bool(command) == bool(url):
            raise ConfigurationError(f"{where} needs a command or a url, and only one of them")
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise ConfigurationError(f"{where}.url is no http or https URL")
        wrong = [key for key in (("args", "env") if url else ("headers",)) if key in table]
        if wrong:
            raise ConfigurationError(f"{where}.{wrong[0]} has no effect with {'url' if url else 'command'}")
        tools = table.get("tools")
        return cls(
            name,
            command,
            _texts(where, table, "args"),
            _variables(where, table, "env"),
            url,
            _variables(where, table, "headers"),
            None if tools is None else _texts(where, table, "tools"),
        )

    def filled_env(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return `env` with the user's variables. Raises ConfigurationError for one that is not set."""
        return {key: self._filled("env", key, value, variables) for key, value in self.env.items()}

    def filled_headers(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return `headers` with the user's variables. Raises ConfigurationError as `filled_env`."""
        return {key: self._filled("headers", key, value, variables) for key, value in self.headers.items()}

    def _filled(self, table: str, key: str, value: str, variables: Mapping[str, str]) -> str:
        where = f"mcp.{self.name}.{table}.{key}"
        try:
            return string.Template(value).substitute(variables)
        except KeyError as error:
            raise ConfigurationError(f"{where} names ${error.args[0]}, which is not set: set it") from None
        except ValueError:
            raise ConfigurationError(
                f"{where} holds a $ that names no variable: write $NAME, or $$"
            ) from None


def read_mcp_servers(servers: object) -> dict[str, McpServer]:
    """Return servers by name, from tables or McpServers. Raises ConfigurationError."""
    if not isinstance(servers, Mapping):
        raise ConfigurationError(f"mcp is {servers!r:.80}; write [mcp.NAME] with command or url")
    return {
        name: one if isinstance(one, McpServer) else McpServer.from_table(name, one)
        for name, one in servers.items()
    }


def _text(where: str, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or "\0" in value:
        raise ConfigurationError(f"{where}.{key} is {value!r:.80}; give a text")
    return value


def _texts(where: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    if not isinstance(value, list | tuple) or not all(
        isinstance(one, str) and "\0" not in one for one in value
    ):
        raise ConfigurationError(f"{where}.{key} is not a list of texts")
    return tuple(value)


def _variables(where: str, table: Mapping[str, Any], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(one, str) and not {"\0", "\n", "\r"} & {*name, *one}
        for name, one in value.items()
    ):
        raise ConfigurationError(f"{where}.{key} is not a table of texts")
    return dict(value)
