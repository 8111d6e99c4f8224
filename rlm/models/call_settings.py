"""What every call of one model asks for: size of a reply, thinking, sampling, and what its server wants."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rlm.errors import ConfigurationError

__all__ = ["SETTING_KEYS", "Api", "CallSettings", "Effort", "did_you_mean", "settings_of"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it replies. A provider that knows fewer levels takes the nearest."""
Api = Literal["chat", "responses"]
"""Which of OpenAI's two protocols is spoken."""

SETTING_KEYS = ("output", "effort", "thinking", "temperature", "seed", "api", "body", "headers")
"""The keys of a settings file or an option: the fields of CallSettings."""
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

    `output` limits the text of a reply, without thinking. `thinking` limits the thinking, in tokens; 0 turns
    it off where the model can do without. `body` is merged into the body of each request, and `headers` into
    its headers, which no repr shows. A mistake is a ConfigurationError, which names the key of the value.
    """

    output: int | None = None
    effort: Effort | None = None
    thinking: int | None = None
    temperature: float | None = None
    seed: int | None = None
    api: Api | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        fault = self._find_fault()
        if fault is not None:
            raise ConfigurationError(fault)

    def __bool__(self) -> bool:
        return self != CallSettings()

    @classmethod
    def from_table(cls, prefix: str, table: Mapping[str, Any]) -> CallSettings:
        """Build the settings from a table. Raises ConfigurationError, which begins with `prefix`."""
        for key in table:
            if key not in SETTING_KEYS:
                raise ConfigurationError(f"{prefix}{key} is no setting{_suggest(key)}")
        try:
            return cls(**table)
        except ConfigurationError as error:
            raise ConfigurationError(f"{prefix}{error}") from None

    @classmethod
    def from_pairs(cls, option: str, pairs: Iterable[str]) -> CallSettings:
        """Build the settings from texts like `effort=high`, `body.top_p=0.9` or `headers.X-Team=law`; the
        last of a key wins. `option` names them in errors. Raises ConfigurationError."""
        table: dict[str, Any] = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            head, dot, name = key.strip().partition(".")
            if not equals or not head:
                raise ConfigurationError(f"{option} {pair!r} is not KEY=VALUE: write {option} effort=high")
            if head not in SETTING_KEYS or (dot and (head not in _TABLES or not name)):
                raise ConfigurationError(f"{option}: {key.strip()!r} is no setting{_suggest(head)}")
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
        return cls.from_table(f"{option} ", table)

    def over(self, other: CallSettings) -> CallSettings:
        """Return these settings, with those of `other` where nothing is set. What is said here of thinking
        counts alone: an effort replaces a number, and a number replaces the effort none."""
        own: dict[str, Any] = {key: value for key, value in self._set.items() if key not in _TABLES}
        if self.effort is not None:
            own.setdefault("thinking", None)
        elif self.thinking and other.effort == "none":
            own["effort"] = None
        own |= {key: {**getattr(other, key), **getattr(self, key)} for key in _TABLES}
        return replace(other, **own)

    @property
    def _set(self) -> dict[str, Any]:
        return {key: value for key in SETTING_KEYS if (value := getattr(self, key)) not in (None, {})}

    def to_json(self) -> dict[str, Any]:
        """Return what is set, by key, for a journal. Of headers only the names: they may hold secrets."""
        return {
            key: sorted(value) if key == "headers" else dict(value) if key == "body" else value
            for key, value in self._set.items()
        }

    def to_pairs(self) -> list[str]:
        """Return what is set as `from_pairs` takes it, without headers."""
        stored = {key: value for key, value in self.to_json().items() if key != "headers"}
        return [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in stored.items()
        ]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CallSettings:
        """Return the settings that `to_json` wrote, without headers."""
        return cls(**{key: stored[key] for key in SETTING_KEYS if key in stored and key != "headers"})

    def _find_fault(self) -> str | None:
        """Return what is wrong, beginning with the key; None if nothing is."""
        for key, low in (("output", 1), ("thinking", 0), ("seed", None)):
            value = getattr(self, key)
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
        if self.effort == "none" and self.thinking:
            return f"thinking is {self.thinking}, and effort is none: leave one out"
        return self._find_body_fault() or self._find_header_fault()

    def _find_body_fault(self) -> str | None:
        body: object = self.body
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
        headers: object = self.headers
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
    return f"{did_you_mean(key, SETTING_KEYS)}: use one of {', '.join(SETTING_KEYS)}"


def did_you_mean(value: object, known: tuple[str, ...]) -> str:
    """Return `, did you mean …?` where a known name is similar, else an empty string."""
    close = difflib.get_close_matches(str(value).lower(), known, 1, 0.6)
    return f", did you mean {close[0]}?" if close else ""
