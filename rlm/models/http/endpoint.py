"""The address of a provider, and the key for it."""

from __future__ import annotations

from dataclasses import field
from urllib.parse import urlsplit

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass
from rlm.models.catalog.addresses import is_loopback

__all__ = ["Endpoint"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`key_variable` names the environment variable of the key, for messages. No repr contains the key
    itself. `private` is True for a server other than the provider's: the organisation, project and extra
    headers that the environment sets for the provider are not sent there. `key_remedy` is set where no key
    of the user is sent (`key` is a placeholder), and says how to send one. `settings` are what else the
    provider's class needs, by name. `self_run` is True for a server that the user runs or named by its URL.
    `takes_v1` is False where the base URL is known not to end in `/v1`."""

    base_url: str
    key: str = field(repr=False)
    key_variable: str
    private: bool = False
    key_remedy: str = ""
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    self_run: bool = False
    takes_v1: bool = True

    def __post_init__(self) -> None:
        # An HTTP library quotes an invalid header, and so the key, in its error. Refuse it here.
        if not self.key or not all("!" <= character <= "~" for character in self.key):
            raise ConfigurationError(
                f"{self.key_variable} holds a blank or a character that no key has: set it to the key alone"
            )

    def setting(self, name: str) -> str:
        """Return a setting, or an empty string where it has none."""
        return dict(self.settings).get(name, "")

    @property
    def address(self) -> str:
        """Return `host:port`, for messages."""
        host, port = self.host_and_port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def host_and_port(self) -> tuple[str, int]:
        parts = urlsplit(self.base_url)
        return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)

    @property
    def local(self) -> bool:
        """Return whether the endpoint is on this machine."""
        return is_loopback(self.base_url)
