"""The form in which a provider is asked to enforce a schema, and how a reply in that form is read.

A prompt also allows what the schema does not: `NOT_FOUND`, or the quotes below an answer. A provider that
enforces a schema takes these away, and its model would have to make something up. So the schema that is
enforced has room for them. A provider that enforces nothing replies in the form that the prompt names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlm.prompts.recipes.notices import NOT_FOUND

__all__ = ["ReplyForm", "child_form", "quoted_form"]


_EVIDENCE = "evidence"
_DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """`schema` is for `Request.schema`. `key` holds the answer in a reply of this form; "" if the reply is
    the answer. `has_quotes`: the reply holds the evidence, too."""

    schema: Mapping[str, Any]
    key: str = ""
    has_quotes: bool = False

    def read(self, reply: str) -> tuple[str, list[str] | None]:
        """Return the answer as text, and the quotes of a reply that has them in this form. Any other reply is
        returned as it is."""
        if not self.key or not reply.lstrip().startswith("{"):
            return reply, None
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):
            return reply, None
        keys = {self.key, _EVIDENCE} if self.has_quotes else {self.key}
        if not isinstance(value, dict) or set(value) != keys:
            return reply, None
        answer, quotes = value[self.key], value.get(_EVIDENCE)
        text = NOT_FOUND if answer == NOT_FOUND else json.dumps(answer, ensure_ascii=False)
        if not self.has_quotes:
            return text, None
        return text, [one for one in quotes if isinstance(one, str)] if isinstance(quotes, list) else []


def child_form(schema: Mapping[str, Any], *, has_empty: bool) -> ReplyForm:
    """Return the form of a child's reply. `has_empty`: the schema has a value for "nothing there"."""
    if not has_empty:
        return _wrap(schema, {})
    return ReplyForm(schema) if schema.get("type") == "object" else _wrap(schema, {}, may_miss=False)


def quoted_form(schema: Mapping[str, Any]) -> ReplyForm:
    """Return the form of an answer with its evidence."""
    return _wrap(schema, {_EVIDENCE: {"type": "array", "items": {"type": "string"}}})


def _wrap(schema: Mapping[str, Any], others: Mapping[str, Any], *, may_miss: bool = True) -> ReplyForm:
    # A reply of a server that enforces nothing must not be taken for one in this form.
    key = "answer" if "answer" not in schema.get("properties", {}) else "reply"
    inner = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
    shown = {"anyOf": [inner, {"type": "string", "enum": [NOT_FOUND]}]} if may_miss else inner
    properties = {key: shown, **others}
    wrapped = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **{name: schema[name] for name in _DEFINITIONS if name in schema},
    }
    return ReplyForm(wrapped, key, bool(others))
