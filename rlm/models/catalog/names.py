"""A model's name, as a user writes it, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from rlm.errors import ConfigurationError
from rlm.models.catalog.windows import known_models

__all__ = ["FORMS", "ModelName", "Provider", "check_url", "parse_name"]

Provider = Literal["anthropic", "openai", "extractive", "scripted", "replay"]

FORMS = (
    "anthropic:NAME, openai:NAME, openai:NAME@BASE_URL, "
    "claude-*, gpt-*, o1|o3|o4-*, extractive, scripted:FILE, replay:RUN"
)

_PREFIXES: tuple[Provider, ...] = ("anthropic", "openai", "scripted", "replay")
_BARE: tuple[tuple[re.Pattern[str], Provider], ...] = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|o[134](-|$)"), "openai"),
)
# The first "@" that is followed by a scheme: names such as "@cf/meta/llama" hold one of their own.
_BASE_URL = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*://)")


@dataclass(frozen=True, slots=True)
class ModelName:
    """`text` is what the user wrote; `model` is what the provider calls it (a path for `scripted`, a run for
    `replay`, empty for `extractive`); `base_url` is None unless the name holds one, and has no slash at
    its end."""

    text: str
    provider: Provider
    model: str
    base_url: str | None = None


@lru_cache(maxsize=256)
def parse_name(text: str) -> ModelName:
    """The parts of `text`. Raises ConfigurationError, in one line that lists the forms, for a name that
    fits none of them, and for a base URL that can't be used."""
    name = text.strip()
    if name == "extractive":
        return ModelName(name, "extractive", "")
    head, colon, rest = name.partition(":")
    for provider in _PREFIXES:
        if colon and head == provider:
            return _with_model(name, provider, rest)
    for pattern, provider in _BARE:
        if pattern.match(name):
            return _with_model(name, provider, name)
    raise ConfigurationError(f"unknown model {_shown(name)}{_nearest(name)}; the forms are {FORMS}")


def check_url(url: str, what: str, schemes: tuple[str, ...] = ("http", "https")) -> SplitResult:
    """The parts of `url`. Raises ConfigurationError, without echoing what could be a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{what} is not a URL: check its host and port") from None
    if parts.scheme not in schemes or not parts.hostname or port == 0:
        forms = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
        raise ConfigurationError(f"{what} is not a usable URL: write it as {forms}")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ConfigurationError(f"{what} holds a blank or a control character: remove it")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise ConfigurationError(f"{what} names no host that can be: check its dots and its length") from None
    return parts


def _with_model(name: str, provider: Provider, rest: str) -> ModelName:
    model, base_url = rest, None
    if provider == "openai":
        model, base_url = _split_url(rest)
    if not model.strip():
        raise ConfigurationError(f"{_shown(name)} names no model; the forms are {FORMS}")
    if provider != "scripted" and any(character.isspace() for character in model):
        raise ConfigurationError(f"the model's name {_shown(model)} holds a blank: remove it")
    return ModelName(name, provider, model, base_url)


def _split_url(rest: str) -> tuple[str, str | None]:
    match = _BASE_URL.search(rest)
    if match is None:
        if "@" in rest.lstrip("@"):
            shown = rest.rpartition("@")[0]
            raise ConfigurationError(
                f"the base URL of openai:{shown} must begin with http:// or https://, "
                f"as in openai:{shown}@http://localhost:11434/v1"
            )
        return rest, None
    model, url = rest[: match.start()], rest[match.end() :]
    parts = check_url(url, f"the base URL of openai:{model}")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"the base URL of openai:{model} holds a user name or password: "
            "remove it and set RLM_OPENAI_COMPATIBLE_KEY"
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(f"the base URL of openai:{model} holds a query or fragment: remove it")
    return model, url.rstrip("/")


def _nearest(name: str) -> str:
    """`; did you mean ...` where something is close, else nothing."""
    import difflib

    head, colon, rest = name.partition(":")
    if colon:
        close = difflib.get_close_matches(head.lower(), _PREFIXES, 1, 0.7)
        return f", did you mean {_shown(f'{close[0]}:{rest}')}?" if close and "@" not in rest else ""
    close = difflib.get_close_matches(name.lower(), ["extractive", *known_models()], 1, 0.7)
    return f", did you mean {close[0]!r}?" if close else ""


def _shown(name: str) -> str:
    """`name` in quotes, on one line, short, and without what stands in a URL's place for a password."""
    plain = re.sub(r"//[^/@\s]*@", "//", name)
    return repr(plain if len(plain) <= 80 else plain[:77] + "...")
