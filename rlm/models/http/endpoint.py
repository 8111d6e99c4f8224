"""Where a provider is reached, and with which key."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rlm.errors import ConfigurationError

__all__ = ["Endpoint"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`key_variable` is the environment variable that holds the key, for messages. The key is never
    shown: it is in no repr. `private` is True where the key is not the provider's own: nothing the
    environment holds for that provider (organisation, project, extra headers) is sent there."""

    base_url: str
    key: str = field(repr=False)
    key_variable: str
    private: bool = False

    def __post_init__(self) -> None:
        # An HTTP library quotes an illegal header in its error, the key with it: refuse it here.
        if not self.key or not all("!" <= character <= "~" for character in self.key):
            raise ConfigurationError(
                f"{self.key_variable} holds a blank or a character that no key has: set it to the key alone"
            )

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return f"{host}:{parts.port or (80 if parts.scheme == 'http' else 443)}"

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return (urlsplit(self.base_url).hostname or "") in {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104
