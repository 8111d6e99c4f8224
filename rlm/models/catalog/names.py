"""Parse a model's name as a user writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from rlm.errors import ConfigurationError
from rlm.models.registry import OFFLINE, PROVIDERS, known_models, list_forms

__all__ = ["ModelName", "check_base_url", "check_url", "parse_name"]

# The first "@" before a scheme. Names such as "@cf/meta/llama" contain an "@" of their own.
_BASE_URL = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*://)")


@dataclass(frozen=True, slots=True)
class ModelName:
    """`text` is what the user wrote. `provider` is a key of PROVIDERS or OFFLINE. `model` is the provider's
    own name: a path for `scripted`, a run for `replay`, empty for `extractive`. `base_url` has no slash at
    its end."""

    text: str
    provider: str
    model: str
    base_url: str | None = None

    @property
    def canonical(self) -> str:
        """Return the name as `PROVIDER:MODEL` or `PROVIDER:MODEL@BASE_URL`, however the user wrote it."""
        if self.provider in OFFLINE:
            return self.text
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")


@lru_cache(maxsize=256)
def parse_name(text: str) -> ModelName:
    """Return the parts of `text`. Providers of other packages are loaded only for a name that no other
    provider has. Raises ConfigurationError for an unknown form, which lists the known ones in one line, and
    for an unusable base URL."""
    name = text.strip()
    if name == "extractive":
        return ModelName(name, "extractive", "")
    found = _find_provider(name)
    if found is None and _load_plugins(name):
        found = _find_provider(name)
    if found is not None:
        return _build_name(name, *found)
    from rlm.models.plugins import plugin_prefixes

    others = [prefix for prefix in plugin_prefixes() if prefix not in PROVIDERS]
    known = [*PROVIDERS, *others, *(name for name, form in OFFLINE.items() if ":" in form)]
    forms = ", ".join([list_forms(), *(f"{prefix}:NAME" for prefix in others)])
    raise ConfigurationError(
        f"unknown model {_quote(name)}{_suggest_name(name, known)}; the forms are {forms}"
    )


def _find_provider(name: str) -> tuple[str, str] | None:
    """Return the provider of a name, and the rest of the name."""
    head, colon, rest = name.partition(":")
    if colon and (head in PROVIDERS or head in ("scripted", "replay")):
        return head, rest
    for prefix, spec in PROVIDERS.items():
        if spec.bare_names is not None and re.match(spec.bare_names, name):
            return prefix, name
    head, slash, rest = name.partition("/")
    return (head, rest) if slash and head in PROVIDERS else None


def _load_plugins(name: str) -> bool:
    """Load what other packages provide for a name: the provider that it names, else all of them, one of
    which may have models without a prefix. Return whether there are any."""
    from rlm.models.plugins import load_plugin, load_plugins, plugin_prefixes

    prefixes = plugin_prefixes()
    for separator in ":/":
        head, found, _ = name.partition(separator)
        if found and head in prefixes:
            load_plugin(head)
            return True
    if prefixes and not re.search("[:/]", name):
        load_plugins()
    return bool(prefixes)


def check_url(url: str, what: str, schemes: tuple[str, ...] = ("http", "https")) -> SplitResult:
    """Return the parts of `url`. Raises ConfigurationError, which never quotes a possible password."""
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


def check_base_url(url: str, what: str, key_variable: str) -> None:
    """Check the URL of a server. Raises ConfigurationError, also for a password in it: it would be shown in
    errors and stored with runs."""
    parts = check_url(url, what)
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{what} holds a user name or password: remove it and set {key_variable}")
    if parts.query or parts.fragment:
        raise ConfigurationError(f"{what} holds a query or fragment: remove it")


def _build_name(name: str, provider: str, rest: str) -> ModelName:
    model, base_url = rest, None
    spec = PROVIDERS.get(provider)
    if spec is not None and spec.server_key_variable is not None:
        model, base_url = _split_url(provider, rest, spec.server_key_variable)
    if not model.strip():
        raise ConfigurationError(f"{_quote(name)} names no model; the forms are {list_forms()}")
    if provider != "scripted" and any(character.isspace() for character in model):
        raise ConfigurationError(f"the model's name {_quote(model)} holds a blank: remove it")
    return ModelName(name, provider, model, base_url)


def _split_url(prefix: str, rest: str, key_variable: str) -> tuple[str, str | None]:
    match = _BASE_URL.search(rest)
    if match is None:
        if "@" in rest.lstrip("@"):
            model = rest.rpartition("@")[0]
            raise ConfigurationError(
                f"the base URL of {prefix}:{model} must begin with http:// or https://, "
                f"as in {prefix}:{model}@http://localhost:11434/v1"
            )
        return rest, None
    model, url = rest[: match.start()], rest[match.end() :]
    check_base_url(url, f"the base URL of {prefix}:{model}", key_variable)
    return model, url.rstrip("/")


def _suggest_name(name: str, prefixes: list[str]) -> str:
    """Return `, did you mean ...?` where a known name is similar, else an empty string."""
    import difflib

    for separator in ":/":
        head, found, rest = name.partition(separator)
        if found:
            close = difflib.get_close_matches(head.lower(), prefixes, 1, 0.7)
            known = close and "@" not in rest
            return f", did you mean {_quote(f'{close[0]}{separator}{rest}')}?" if known else ""
    bare = [known.partition(":")[2] for known in known_models()]
    close = difflib.get_close_matches(name.lower(), ["extractive", *bare], 1, 0.7)
    return f", did you mean {close[0]!r}?" if close else ""


def _quote(name: str) -> str:
    """Return `name` in quotes: one line, shortened, without a password in its URL."""
    plain = re.sub(r"//[^/@\s]*@", "//", name)
    return repr(plain if len(plain) <= 80 else plain[:77] + "...")
