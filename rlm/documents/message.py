"""Parsing of one chat message, as any of the known programs exports it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

__all__ = ["NO_NAMES", "ChatMessage", "is_message", "message_of", "plain_text", "slack_names"]


NO_NAMES: Mapping[str, str] = MappingProxyType({})


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_WHO = ("role", "author", "sender", "from", "speaker", "user")
_NAME = ("author", "sender", "from", "speaker", "user", "name", "username", "author_name", "sender_name")
_TEXT = ("content", "text", "body", "message", "parts", "value")
_TIME = ("created_at", "create_time", "timestamp", "time", "date", "datetime", "sent_at", "ts")
_ROLES = _words("user assistant system tool human bot model developer function ai gpt agent")
# Fields without meaning for a reader: internal numbers and interface state of the exporting program.
_SKIPPED = _words(
    "id uuid type object index metadata status weight recipient end_turn update_time updated_at channel "
    "parent parent_id parent_message_uuid client_msg_id date_unixtime from_id team blocks children "
    "user_profile message_id conversation_id thread_id"
)
_SPEAKERS = ("role", *_NAME)
_KNOWN = _SKIPPED.union(_SPEAKERS, _TIME)
_DATA = re.compile(r"data:[\w/+.;=-]{0,100},?[A-Za-z0-9+/=]{200,}")
_SECONDS = re.compile(r"\d{9,13}(?:\.\d+)?")
_PROFILE = ("real_name", "display_name", "name")
_SLACK_LINK = re.compile(r"<((?:[@#!]|https?:|mailto:)[^<>|\n]{1,2000})(?:\|([^<>\n]{0,500}))?>")
_EARLIEST, _LATEST = 100_000_000, 100_000_000_000
_LONGEST_TIME = 40


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """The parts of a message; "" if unknown. `text` ends in a line of JSON with all other fields (tool calls,
    attachments), if there are any."""

    role: str
    author: str
    time: str
    text: str


def is_message(value: Any) -> bool:
    """Return whether `value` names a speaker and a content, by the keys of any known program."""
    if not isinstance(value, dict):
        return False
    who = next((key for key in _WHO if value.get(key)), None)
    what = next((key for key in _TEXT if key in value and _speaks(value[key])), None)
    if who is None or (what is None and not value.get("tool_calls")):
        return False
    if not isinstance(value[who], str | dict):
        return False
    # {"user": …, "text": …} alone may be a row of any table.
    return who != "user" or any(key in value for key in _TIME)


def slack_names(users: bytes) -> dict[str, str]:
    """Return the names by the ids of users in the `users.json` of a Slack export; none if it is another
    file."""
    try:
        values = json.loads(users)
    except (ValueError, RecursionError):
        return {}
    names: dict[str, str] = {}
    for value in values if isinstance(values, list) else ():
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            parts = [one for one in (value, value.get("profile")) if isinstance(one, dict)]
            found = (name for key in _PROFILE for one in parts if (name := _string(one.get(key))))
            names[value["id"]] = next(found, value["id"])
    return names


def message_of(value: Mapping[str, Any], names: Mapping[str, str] = NO_NAMES) -> ChatMessage:
    """Parse `value`, for which `is_message` holds. `names` are those of users by their ids."""
    role, author = "", ""
    if isinstance(profile := value.get("user_profile"), dict):
        # Slack names a user by an id, and tells beside it who that is.
        author = next((name for key in _PROFILE if (name := _string(profile.get(key)))), "")
    for key in _SPEAKERS:
        said = value.get(key)
        if said is None:
            continue
        if isinstance(said, dict):
            role = role or _string(said.get("role"))
            said = next(
                (said[name] for name in ("name", "display_name", "username", "email") if said.get(name)), ""
            )
        said = names.get(_string(said), _string(said))
        if not role and (key == "role" or said.lower() in _ROLES):
            role = said
        elif said and not author and said != role:
            author = said
    # Next to a list of parts, the field `text` may be empty: take the field with the longest text.
    what = [key for key in _TEXT if key in value and _speaks(value[key])]
    best = max(what, key=lambda key: len(plain_text(value[key])), default=None) if len(what) > 1 else None
    best = best or (what[0] if what else None)
    text = plain_text(value[best]).strip("\n") if best else ""
    if value.get("type") == "message" and "ts" in value:
        text = html.unescape(_SLACK_LINK.sub(partial(_link, names), text))
    rest = {
        key: one
        for key, one in value.items()
        if key not in _KNOWN
        and key != best
        and one not in (None, "", [], {})
        and not (key in what and plain_text(one) in text)
    }
    if rest:
        text = f"{text}\n{_compact(rest)}" if text else _compact(rest)
    when = next((moment for key in _TIME if key in value and (moment := _moment(value[key]))), "")
    return ChatMessage(role, author, when, text)


def plain_text(content: Any) -> str:
    """Return content as text: its parts in order, other values as JSON, and embedded files as a
    placeholder."""
    match content:
        case None:
            return ""
        case str():
            return _DATA.sub(_placeholder, content)
        case list():
            # A mix of strings and objects is one sentence with links. Otherwise each part gets its own line.
            mixed = any(isinstance(part, str) for part in content) and not all(
                isinstance(part, str) for part in content
            )
            return ("" if mixed else "\n").join(filter(None, (plain_text(part) for part in content)))
        case dict():
            for key in ("text", "parts", "content", "value", "thinking"):
                if _speaks(content.get(key)):
                    return plain_text(content[key])
            return _compact(content)
        case _:
            return _compact(content)


def _speaks(content: Any) -> bool:
    return isinstance(content, (str, list, dict))


def _string(value: Any) -> str:
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def _compact(value: Any) -> str:
    return _DATA.sub(_placeholder, json.dumps(value, ensure_ascii=False))


def _link(names: Mapping[str, str], found: re.Match[str]) -> str:
    """Return a link or a mention of Slack as a person reads it."""
    target, label = found[1], found[2] or ""
    if target[0] in "@#!":
        return target[0] + (label or names.get(target[1:], target[1:]))
    return f"{label} ({target})" if label and label != target else target


def _placeholder(found: re.Match[str]) -> str:
    return f"{found[0].partition(',')[0][:60]},… ({len(found[0]):,} characters of data left out)"


def _moment(value: Any) -> str:
    """Return a time as written; seconds or milliseconds since 1970 become date and time in UTC."""
    if isinstance(value, str) and not _SECONDS.fullmatch(value):
        return value.strip()[:_LONGEST_TIME]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    seconds = float(value)
    if seconds >= _LATEST:
        seconds /= 1000
    if not _EARLIEST <= seconds < _LATEST:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
