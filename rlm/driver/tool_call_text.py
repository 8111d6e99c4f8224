"""Finds tool calls in the text of a reply, in the forms in which models write them.

A root has no tools, but some models insist on calling one, natively (`rlm/models/structured.py`
writes such a call into the text) or in the tags that they were trained on. Takes time proportional to the
text's length, and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlm.lazy_dataclass import dataclass

__all__ = ["CalledTool", "find_calls"]

_MAX_CALLS = 3  # more of them change nothing
_MAX_CHARS = 2_000_000
_TAGS: tuple[tuple[str, str], ...] = (
    ("<tool_call>", "</tool_call>"),  # Qwen, Hermes, GLM
    ("<function_call>", "</function_call>"),
    ("<invoke ", "</invoke>"),  # Claude, MiniMax
    ("<function=", "</function>"),  # Qwen Coder, Llama
    ("<|python_tag|>", "<|eom_id|>"),  # Llama
    ("<|tool_call_begin|>", "<|tool_call_end|>"),  # Kimi
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),  # DeepSeek
    ("[TOOL_CALLS]", "</s>"),  # Mistral
    ("<|channel|>commentary to=", "<|call|>"),  # gpt-oss
    ("<|channel|>analysis to=", "<|call|>"),
)
"""How a call begins and ends. The end may be missing at the end of a reply."""
_AROUND = re.compile(
    r"</?(?:antml:)?(?:function_calls|tool_calls|minimax:tool_call)>|<\|(?:eot_id|eom_id|im_end|call|end)\|>"
    r"|<\|tool_calls_section_(?:begin|end)\|>|<｜tool▁calls▁(?:begin|end)｜>|</?tool_call>|</function>"
    r"|<\|start\|>(?:assistant)?|<\|channel\|>(?:commentary|analysis)?"
)
"""Tags around calls, which are no prose."""
_XML_NAME = re.compile(r"<(?:function=|invoke\s+name=)[\"']?([A-Za-z_][\w.:/-]{0,200})[\"']?\s*>")
_XML_ARGUMENT = re.compile(r"<parameter(?:=|\s+name=)[\"']?([\w.-]{1,100})[\"']?[^>\n]{0,100}>")
_GLM_ARGUMENT = re.compile(r"<arg_key>([^<]{1,100})</arg_key>\s{0,10}<arg_value>")
_HEAD = re.compile(
    r"(?:function)?(?:<｜tool▁sep｜>)?\s{0,10}([A-Za-z_][\w.:/-]{0,200})\s{0,10}"
    r"(?:<｜tool▁sep｜>|<\|tool_call_argument_begin\|>|\[ARGS\]|(?:<\|constrain\|>)?\s?(?:json|code)?<\|message\|>)?"
    r"\s{0,10}(?:```(?:json|python)?\s{0,10})?"
)
"""A name before its arguments."""
_FENCE = re.compile(r"(`{3,}|~{3,})\w*[ \t]*")
_BARE = re.compile(
    r"\s*+(?:```(?:json|tool_call)?[ \t]*+\n)?\s*+[\[{]\s*+(?:\{\s*+)?+\"(?:name|tool|function|type|id)\""
)
_JSON_NAME = re.compile(r"\"name\"\s{0,10}:\s{0,10}\"([^\"\\]{1,200})\"")
_CODE_TOOL = re.compile(r"(?i)repl|python|\bpy\b|exec|code|interpret|jupyter|notebook|\bcell|\brun\b|kernel")
_CODE_KEYS = ("code", "source", "script", "python", "python_code", "cell", "block", "repl", "program")
_DECODER = json.JSONDecoder(strict=False)  # models write line breaks into a string as they are


@dataclass(frozen=True, slots=True)
class CalledTool:
    """One call. `code` is the Python that it would run, or None if it is a tool of another kind."""

    name: str
    code: str | None


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    text: str


def find_calls(reply: str) -> tuple[list[CalledTool], str]:
    """Return the first calls of a reply, and the text around them. No calls: the list is empty."""
    if len(reply) > _MAX_CHARS:
        return [], reply
    if _BARE.match(reply):
        calls = list(_calls_of_json(_unfenced(reply).strip()))
        return calls[:_MAX_CALLS], "" if calls else reply
    for opening, closing in _TAGS:
        pieces = list(_pieces(reply, opening, closing))
        calls = [call for piece in pieces for call in _read(piece.text, opening)]
        if calls:
            around = reply[: pieces[0].start] + reply[pieces[-1].end :]
            return calls[:_MAX_CALLS], _AROUND.sub("", around).strip()
    return [], reply


def _pieces(reply: str, opening: str, closing: str) -> Iterator[_Piece]:
    position = 0
    for _ in range(_MAX_CALLS):
        start = reply.find(opening, position)
        if start < 0:
            return
        inside = start + len(opening)
        ends = (reply.find(closing, inside), reply.find(opening, inside))
        stop = min((end for end in ends if end >= 0), default=len(reply))
        length = len(closing) if stop == ends[0] else 0
        # Where the tag holds the name, it is a part of what is read.
        begin = start if opening.startswith(("<invoke", "<function=")) else inside
        position = stop + length
        yield _Piece(start, position, reply[begin:stop])


def _read(piece: str, opening: str) -> Iterator[CalledTool]:
    text = piece.strip()
    if text.startswith(("{", "[")):
        yield from _calls_of_json(text)
        return
    named = _XML_NAME.search(text)
    if named is not None:
        yield _call(named[1], _xml_arguments(text, named.end()))
        return
    glm = _GLM_ARGUMENT.search(text)
    if glm is not None:
        yield _call(text[: glm.start()].strip(), _glm_arguments(text))
        return
    if opening == "<|python_tag|>":
        yield _call("python", _without_tags(text))
        return
    head = _HEAD.match(text)
    if head is None or head.end() == len(text):
        return
    rest = text[head.end() :].removesuffix("```").strip()
    if rest.startswith("{"):
        yield _call(head[1], _decoded(rest))
    elif opening.endswith("to=") or "[ARGS]" in head[0]:
        yield _call(head[1], _without_tags(rest))


def _without_tags(text: str) -> str:
    return _AROUND.sub("", text).strip()


def _calls_of_json(text: str) -> Iterator[CalledTool]:
    value = _decoded(text)
    if value is None and (named := _JSON_NAME.search(text)) is not None:
        yield CalledTool(named[1], None)  # a call, though not one that can be read
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            return
        function = one.get("function")
        inner: dict[str, Any] = function if isinstance(function, dict) else one
        name = inner.get("name", inner.get("tool", inner.get("function")))
        given = next(
            (inner[key] for key in ("arguments", "parameters", "input", "args") if key in inner), None
        )
        if isinstance(name, str) and given is not None:
            yield _call(name, given)


def _decoded(text: str) -> Any:
    """Return the JSON value at the start of `text`, or None."""
    for tried in (text, text.replace("\\'", "'")):  # an escape of Python's, which JSON lacks
        try:
            return _DECODER.raw_decode(tried)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _xml_arguments(text: str, position: int) -> Any:
    found: dict[str, str] = {}
    while (opened := _XML_ARGUMENT.search(text, position)) is not None:
        end = text.find("</parameter>", opened.end())
        stop = len(text) if end < 0 else end
        found.setdefault(opened[1], _trimmed(text[opened.end() : stop]))
        position = stop
        if len(found) > 20:
            break
    if found:
        return found
    rest = _without_tags(text[position:])
    return _decoded(rest) if rest.startswith("{") else rest  # Llama writes JSON behind the tag


def _glm_arguments(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while (opened := _GLM_ARGUMENT.search(text, position)) is not None and len(found) < 20:
        end = text.find("</arg_value>", opened.end())
        position = len(text) if end < 0 else end
        found.setdefault(opened[1].strip(), _trimmed(text[opened.end() : position]))
    return found


def _trimmed(value: str) -> str:
    """Return a value without the line breaks that set it apart from its tags."""
    return value.removeprefix("\r").removeprefix("\n").rstrip()


def _call(name: str, arguments: Any) -> CalledTool:
    code = _code_of(name, arguments)
    return CalledTool(name, None if code is None else _unfenced(code))


def _code_of(name: str, arguments: Any) -> str | None:
    """Return the code in the arguments of a call, if it is the call of a tool that runs code."""
    if isinstance(arguments, str):
        inner = _decoded(arguments) if arguments.lstrip().startswith("{") else None
        if isinstance(inner, dict):
            arguments = inner  # JSON within JSON
        else:
            return arguments if _CODE_TOOL.search(name) else None
    if not isinstance(arguments, Mapping):
        return None
    for key in _CODE_KEYS:
        if isinstance(arguments.get(key), str):
            return str(arguments[key])
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 and _CODE_TOOL.search(name) else None


def _unfenced(code: str) -> str:
    first, _, rest = code.strip().partition("\n")
    fence = _FENCE.fullmatch(first)
    if fence is None or not rest.endswith(fence[1]):
        return code
    return rest.removesuffix(fence[1]).rstrip()
