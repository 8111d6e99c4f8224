"""What every call of one model asks for: size of a reply, thinking, sampling, and what its server wants."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from typing import Any, Literal, get_args

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass

__all__ = ["SETTING_KEYS", "Api", "CallSettings", "Effort", "did_you_mean", "settings_of"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it replies. A provider that knows fewer levels takes the nearest."""
Api = Literal["chat", "responses"]
"""Which of OpenAI's two protocols is spoken."""

_FIELDS = {
    "output": "max_output_tokens",
    "effort": "effort",
    "thinking": "thinking_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "api": "api",
    "body": "extra_body",
    "headers": "extra_headers",
}
"""The field behind each key of a settings file or an option."""
SETTING_KEYS = tuple(_FIELDS)
"""The keys of a settings file or an option."""
_TABLES = ("body", "headers")
_OURS = frozenset({"model", "messages", "input", "stream", "stream_options", "max_tokens"}) | {
    "max_completion_tokens",
    "max_output_tokens",
}
"""Fields of a request that carry the run itself, so that `body` may not replace them."""
_OUR_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MAX_TEMPERATURE = 2.0


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What every call of one model asks for. None leaves it to the provider, or to the default of the
    model's family.

    `max_output_tokens` limits the text of a reply, without thinking. `thinking_tokens` limits the thinking;
    0 turns it off where the model can do without. `extra_body` is merged into the body of each request, and
    `extra_headers` are sent with it. `api` chooses between OpenAI's protocols. Raises ConfigurationError,
    which names the key of the value.
    """

    max_output_tokens: int | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    api: Api | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    extra_headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fault = self._find_fault()
        if fault is not None:
            raise ConfigurationError(fault)

    def __bool__(self) -> bool:
        return self != CallSettings()

    @classmethod
    def from_table(cls, path: str, table: Mapping[str, Any]) -> CallSettings:
        """Build the settings from a table. Raises ConfigurationError, which begins with `path`."""
        for key in table:
            if key not in _FIELDS:
                raise ConfigurationError(f"{path}.{key} is no setting{_suggest(key)}")
        try:
            return cls(**{_FIELDS[key]: value for key, value in table.items()})
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}.{error}") from None

    @classmethod
    def from_pairs(cls, option: str, pairs: Iterable[str]) -> CallSettings:
        """Build the settings from texts like `effort=high`, `body.top_p=0.9` or `headers.X-Team=law`; the
        last of a key wins. `option` names them in errors. Raises ConfigurationError."""
        table: dict[str, Any] = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            key = key.strip()
            head, dot, name = key.partition(".")
            if not equals or not key:
                raise ConfigurationError(f"{option} {pair!r} is not KEY=VALUE: write {option} effort=high")
            if head not in _FIELDS or (dot and (head not in _TABLES or not name)):
                raise ConfigurationError(f"{option}: {key!r} is no setting{_suggest(head)}")
            if dot:
                table.setdefault(head, {})[name] = text if head == "headers" else _read_value(text)
            elif head in _TABLES:
                value = _read_value(text)
                if not isinstance(value, dict):
                    example = "body.top_p=0.9" if head == "body" else "headers.X-Team=law"
                    raise ConfigurationError(
                        f"{option} {head} is {text!r}: give a JSON object, or one value as {example}"
                    )
                table.setdefault(head, {}).update(value)
            else:
                table[head] = text if head in ("effort", "api") else _read_value(text)
        try:
            return cls(**{_FIELDS[key]: value for key, value in table.items()})
        except ConfigurationError as error:
            raise ConfigurationError(f"{option} {error}") from None

    def over(self, other: CallSettings) -> CallSettings:
        """Return these settings, with those of `other` where nothing is set."""
        own = {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None and not isinstance(value, Mapping)
        }
        if self.effort is not None and self.thinking_tokens is None:
            own["thinking_tokens"] = None  # the effort was chosen later than the number
        if self.thinking_tokens and self.effort is None and other.effort == "none":
            own["effort"] = None
        return replace(
            other,
            **own,
            extra_body={**other.extra_body, **self.extra_body},
            extra_headers={**other.extra_headers, **self.extra_headers},
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is set, by key, for a journal. Of headers only the names: they may hold secrets."""
        found = {key: getattr(self, name) for key, name in _FIELDS.items() if key not in _TABLES}
        found |= {"body": dict(self.extra_body), "headers": sorted(self.extra_headers)}
        return {key: value for key, value in found.items() if value not in (None, {}, [])}

    def to_pairs(self) -> list[str]:
        """Return what is set as `from_pairs` takes it, without headers."""
        stored = {key: value for key, value in self.to_json().items() if key != "headers"}
        return [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in stored.items()
        ]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CallSettings:
        """Return the settings that `to_json` wrote, without headers."""
        known = {key: value for key, value in stored.items() if key in _FIELDS and key != "headers"}
        return cls(**{_FIELDS[key]: value for key, value in known.items()})

    def _find_fault(self) -> str | None:
        """Return what is wrong, beginning with the key; None if nothing is."""
        for key, low in (("output", 1), ("thinking", 0), ("seed", None)):
            value = getattr(self, _FIELDS[key])
            if value is not None and (type(value) is not int or (low is not None and value < low)):
                least = "" if low is None else f" of at least {low}"
                return f"{key} is {value!r}: give a whole number{least}"
        for key, kind in (("effort", Effort), ("api", Api)):
            value, known = getattr(self, key), get_args(kind)
            if value is not None and value not in known:
                return f"{key} is {value!r}{did_you_mean(value, known)}: use one of {', '.join(known)}"
        heat = self.temperature
        if heat is not None and not (
            type(heat) in (int, float) and math.isfinite(heat) and 0 <= heat <= _MAX_TEMPERATURE
        ):
            return f"temperature is {heat!r}: give a number from 0 to {_MAX_TEMPERATURE:g}"
        if self.effort == "none" and self.thinking_tokens:
            return f"thinking is {self.thinking_tokens}, and effort is none: leave one out"
        return self._find_body_fault() or self._find_header_fault()

    def _find_body_fault(self) -> str | None:
        body: object = self.extra_body
        if not isinstance(body, Mapping):
            return f"body is {body!r}: give a table of fields"
        ours = sorted(_OURS.intersection(body))
        if ours:
            remedy = "use output" if "tokens" in ours[0] else "leave it out"
            return f"body.{ours[0]} is set by rlm itself: {remedy}"
        try:
            json.dumps(dict(body), allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"body is not JSON ({error}): give plain values"
        return None

    def _find_header_fault(self) -> str | None:
        headers: object = self.extra_headers
        if not isinstance(headers, Mapping):
            return f"headers is {headers!r}: give a table of names and texts"
        for name, value in headers.items():
            if not isinstance(name, str) or not _HEADER.fullmatch(name) or name.casefold() in _OUR_HEADERS:
                return f"headers.{name} can't be set: check the header's name"
            # A value may be a secret, so no message shows it.
            if not isinstance(value, str) or not all(" " <= one <= "~" for one in value):
                return f"headers.{name} is no header's value: give a text on one line, in ASCII"
        return None


def settings_of(model: object) -> dict[str, Any]:
    """Return what is set for the calls of a model, as `to_json` does. A model of another kind has none."""
    calls = getattr(model, "calls", None)
    return calls.to_json() if isinstance(calls, CallSettings) else {}


def _read_value(text: str) -> Any:
    """Return `text` as JSON (`0.9`, `true`, `{…}`), or the text itself if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _suggest(key: str) -> str:
    return f"{did_you_mean(key, tuple(_FIELDS))}: use one of {', '.join(_FIELDS)}"


def did_you_mean(value: object, known: tuple[str, ...]) -> str:
    """Return `, did you mean …?` where a known name is similar, else an empty string."""
    close = difflib.get_close_matches(str(value).lower(), known, 1, 0.6)
    return f", did you mean {close[0]}?" if close else ""
