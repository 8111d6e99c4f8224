"""Escape text of documents and models for each kind of output: terminal, JSON, Markdown, HTML.

Such text may carry control characters, links and images that a viewer would fetch, or lines that look like
the runtime's own. Every output passes through one of these functions, so that it shows such text and never
obeys it.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import Any

__all__ = [
    "RULE",
    "encodable",
    "has_false_sources",
    "html_answer",
    "html_text",
    "json_bytes",
    "json_text",
    "markdown_answer",
    "markdown_line",
    "markdown_phrase",
    "page_json",
    "terminal_answer",
    "terminal_line",
    "terminal_text",
]

RULE = "─" * 24
"""The line before the runtime's list of sources. `terminal_answer` lets no answer hold it."""

_C0 = [code for code in range(0x20) if chr(code) not in "\n\t"]
_HIDDEN = [
    *range(0x7F, 0xA0),  # DEL and the C1 controls, which some terminals obey like ESC
    *(0x061C, 0x200E, 0x200F),  # direction marks
    *range(0x2028, 0x202F),  # line and paragraph separators, direction overrides
    *range(0x2066, 0x2070),  # direction isolates, and their retired relatives
    *range(0xFFF9, 0xFFFC),  # interlinear annotations
]
_REMOVED = dict.fromkeys([*_C0, *_HIDDEN])
_JSON_ESCAPED = {code: f"\\u{code:04x}" for code in _HIDDEN}  # in JSON they occur within strings only
_LINE_ESCAPED = str.maketrans({"\n": "\\n", "\t": "\\t"})


def encodable(text: str) -> str:
    """Return `text` so that UTF-8 can encode it: surrogate pairs are joined, a lone surrogate becomes
    U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# Terminal


def terminal_text(text: str) -> str:
    """Return `text` without control characters and direction marks. Line ends and tabs stay.

    Surrogates, which UTF-8 cannot encode, become U+FFFD.
    """
    return encodable(text).translate(_REMOVED)


def terminal_line(text: str) -> str:
    r"""Return `text` on one line: a line end in the name of a document is shown as `\n`."""
    return terminal_text(text.translate(_LINE_ESCAPED))


def terminal_answer(answer: str, *, markdown: bool = True) -> str:
    """Return an answer as plain text. `markdown`: it may end up in a Markdown file.

    Lines that look like the runtime's list of sources begin with `> `. In Markdown, outside of code blocks,
    the URL of a link is shown, and nothing is left that a viewer would fetch without a click.
    """
    if not markdown:
        return "\n".join(map(_quoted_if_runtime_like, terminal_text(answer).split("\n")))
    lines: list[str] = []
    closing = ""
    for line in terminal_text(answer).split("\n"):
        fence = None if closing else _FENCE.match(line)
        if closing:
            closing = "" if _closes(line, closing) else closing
        elif fence is not None:
            closing = fence["ticks"] or fence["tildes"]
        lines.append(_quoted_if_runtime_like(line if closing else _FETCHED.sub(_shown, line)))
    return "\n".join(lines)


_SCHEME = r"(?:[A-Za-z][A-Za-z0-9+.-]{1,30}:|//|www\.)"
_FETCHED = re.compile(
    r"!\[(?P<image>[^\[\]]*)\]\(\s{0,20}<?(?P<source>[^\s()<>]*+)>?+[^()]{0,300}\)"
    rf"|(?<![\w\]])\[(?P<link>[^\[\]]*)\]\(\s{{0,20}}<?(?P<target>{_SCHEME}[^\s()<>]*+)>?+[^()]{{0,300}}\)"
    r"|(?P<reference>!(?=\[))"
    r"|<(?=(?:!--|/?(?:a|applet|audio|base|body|button|embed|form|frame|iframe|image|img|input|link|meta|object"
    r"|picture|script|source|style|svg|track|video)\b|[a-z][\w-]*[\s/][^<>]*=))",
    re.IGNORECASE,
)


def _shown(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "source":
            return f"{found['image']} (image: `{found['source']}`)"
        case "target":
            return f"{found['link']} (`{found['target']}`)"
        case "reference":
            return "! "
        case _:
            return "&lt;"


# JSON


def json_text(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Return `value` as `json_bytes`, but as text. Lone surrogates stay."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text.translate(_JSON_ESCAPED)


def json_bytes(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> bytes:
    r"""Return `value` as JSON in UTF-8. Control characters and direction marks are escaped as `\uXXXX`."""
    # A lone surrogate becomes its escape.
    return json_text(value, indent=indent, separators=separators).encode("utf-8", "backslashreplace")


# HTML


def html_answer(answer: str) -> str:
    """Return an answer escaped for HTML. Lines that look like the runtime's sources begin with `> `."""
    return html.escape(terminal_answer(answer, markdown=False))


def html_text(text: str) -> str:
    """Return `text` for HTML, also within a quoted attribute. Nothing in it is markup."""
    return html.escape(terminal_text(text))


def page_json(value: Any) -> bytes:
    """Return `value` as JSON for a page, which shows its texts as text nodes. It can also be put into the
    page itself, within `<script type="application/json">`. Control characters and direction marks are
    removed."""
    text = json.dumps(_without_hidden(value), ensure_ascii=True, separators=(",", ":"))
    return text.translate(_PAGE_ESCAPED).encode("ascii")


_PAGE_ESCAPED = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&"})


def _without_hidden(value: Any) -> Any:
    if isinstance(value, str):
        return terminal_text(value)
    if isinstance(value, dict):
        return {terminal_text(str(key)): _without_hidden(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_hidden(one) for one in value]
    return value


# Markdown

_URL = (
    r"(?<![A-Za-z])(?:[A-Za-z][A-Za-z0-9+.-]{1,30}://|(?:www\.|mailto:|javascript:|vbscript:|data:)(?=\S))"
    r"[^\s`<>|\\\"“”]*[^\s`<>|\\\"“”.,;:!?'’)\]*_~]"
)
_EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_BARE_LINK = re.compile(rf"{_URL}|{_EMAIL}", re.IGNORECASE)
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<image>!?)\[(?P<text>[^\[\]]*)\]\(\s{0,20}<?(?P<target>[^\s()<>|]*(?:\([^\s()<>|]*\)[^\s()<>|]*){0,8})>?"
    r"(?:\s{1,20}[\"'(][^)\n|]{0,300})?\s{0,20}\)"
    rf"|<(?P<autolink>{_URL}|{_EMAIL})>"
    rf"|(?P<bare>{_URL}|{_EMAIL})"
    r"|(?P<tag><(?![ \t\d=]))"
    r"|(?P<closing>\](?=[(:]))"
    r"|(?P<wiki>\[(?=\[))"
    r"|(?P<attributes>\{(?=[:.#]|[\w-]{1,40}=)|(?<=\])\{)"
    r"|(?P<entity>&(?:(?P<plain>lt|gt|quot|nbsp);|(?!amp;)(?=\#?\w{1,40};)))",
    re.IGNORECASE,
)
_PLAIN_ENTITIES = {"lt": "&lt;", "gt": ">", "quot": '"', "nbsp": "\u00a0"}
_SPECIAL = re.compile(r"[\[<&@`{]|://|www\.|mailto:|javascript:|vbscript:|data:", re.IGNORECASE)
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?:(?P<ticks>`{3,})(?P<info>[^`]*)|(?P<tildes>~{3,})(?P<other>.*))$")
_TILDES = re.compile(r"^([\s>*+\-\d.)]*)(?=~{3})")
_LANGUAGE = re.compile(r"\s*([A-Za-z0-9_+#.-]{1,30})(?=\s|$)")
_DRAWN = frozenset(
    ("mermaid", "math", "geojson", "topojson", "stl", "plantuml", "graphviz", "dot", "svg", "vega")
)
"""Languages of code blocks that some viewers draw instead of showing."""
_DELIMITER_ROW = re.compile(r"^[ \t>|:-]*-[ \t>|:-]*$", re.MULTILINE)
_TICKS = re.compile(r"(?P<escape>\\[!-/:-@\[-`{-~])|(?P<run>`+)")
_OPEN, _CLOSE = "\x01", "\x02"
"""Mark the borders of an added code span while a line is put together. `terminal_text` removed all others."""
_BLOCK_START = re.compile(r"^(\d*)([#>*+=.)-]+)(?=\s|$)")
_MARKUP = re.compile(r"([\\`*_\[\]#|~!])")


def markdown_line(text: str) -> str:
    """Return foreign text on one line of our own Markdown: nothing in it is markup, and URLs are code."""
    line, pieces, at = " ".join(terminal_text(text.translate(_AS_SPACES)).split()), [], 0
    for link in _BARE_LINK.finditer(line):
        pieces += [_without_markup(line[at : link.start()]), f"`{link[0]}`"]
        at = link.end()
    return "".join([*pieces, _without_markup(line[at:])])


def markdown_phrase(text: str) -> str:
    """Return foreign text on one line of our own Markdown. Emphasis and code stay; nothing is live, and it
    begins no heading, list or block."""
    line = " ".join(terminal_text(text.translate(_AS_SPACES)).split())
    return _BLOCK_START.sub(r"\1\\\2", _inert_line(line, cells=True))


def markdown_answer(answer: str) -> str:
    """Return an answer in Markdown without links, images and HTML. Applying it twice changes nothing more.

    A link becomes its text and its URL as code. Headings, lists, tables, emphasis and code stay. A block of
    code is moved to the margin and always closed, so that all viewers agree on where it ends. Lines that look
    like the runtime's list of sources are quoted.
    """
    text = terminal_text(answer)
    cells = "|" in text and _DELIMITER_ROW.search(text) is not None
    lines: list[str] = []
    closing, indent = "", 0
    for line in text.split("\n"):
        if closing:
            if _closes(line, closing):
                lines += [closing, ""]
                closing = ""
            else:
                lines.append(line[min(indent, len(line) - len(line.lstrip(" \t"))) :])
            continue
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip() or not lines or lines[-1].strip():
                lines.append(_quoted_if_runtime_like(_inert_line(line, cells=cells)))
            continue
        closing, indent = fence["ticks"] or fence["tildes"], len(fence["indent"])
        if lines and lines[-1].strip():
            lines.append("")
        lines.append(closing + _language(fence["info"] or fence["other"] or ""))
    return "\n".join([*lines, closing] if closing else lines).rstrip("\n")


_AS_SPACES = dict.fromkeys([*range(0x20), *_HIDDEN], " ")


def _closes(line: str, closing: str) -> bool:
    line = line.strip(" \t")
    return line.startswith(closing) and not line.strip(closing[0])


def _without_markup(text: str) -> str:
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return _MARKUP.sub(r"\\\1", text).replace("<", "&lt;").replace(">", "&gt;")


def _language(info: str) -> str:
    # Pandoc passes the content of ```{=html} through as HTML.
    named = _LANGUAGE.match(info)
    return "" if named is None or named[1].casefold() in _DRAWN else named[1]


def _inert_line(line: str, *, cells: bool) -> str:
    line = _TILDES.sub(r"\1\\", line)
    if _SPECIAL.search(line) is None:
        return line
    # Viewers with tables pair backticks within a cell, others within the line. So no code spans cells.
    shown = "|".join(map(_inert_span, re.split(r"(?<!\\)\|", line) if cells else [line]))
    # A backtick or a backslash next to a code span would change where it begins or ends.
    shown = re.sub(rf"(?<=[`\\]){_CLOSE}?{_OPEN}", " ", shown)
    return re.sub(rf"{_CLOSE}(?=`)", " ", shown).replace(_OPEN, "").replace(_CLOSE, "")


def _inert_span(text: str) -> str:
    """Keep the code spans of `text`, escape unpaired backticks, and disarm the rest."""
    pieces, at, searched = [], 0, 0
    runs = [match for match in _TICKS.finditer(text) if match["run"]]
    closings: dict[int, list[int]] = {}
    for match in reversed(list(re.finditer("`+", text))):
        closings.setdefault(len(match[0]), []).append(match.start())
    for match in runs:
        if match.start() < searched:
            continue
        size = len(match["run"])
        places = closings.get(size, [])
        while places and places[-1] < match.end():
            places.pop()
        pieces.append(_inert_text(text[at : match.start()]))
        if places:
            at = searched = places[-1] + size
            pieces.append(text[match.start() : at])
        else:
            at = searched = match.end()
            pieces.append("\\`" * size)
    return "".join([*pieces, _inert_text(text[at:])])


def _inert_text(text: str) -> str:
    return _INLINE.sub(_disarmed, text)


def _disarmed(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "escape":
            return "&lt;" if found[0] == "\\<" else found[0]
        case "autolink" | "bare":
            return _as_code(found[found.lastgroup])
        case "tag":
            return "&lt;"
        case "closing":
            return "]\\"
        case "wiki":
            return "[\\"
        case "attributes":
            return "\\{"
        case "entity" | "plain":
            return _PLAIN_ENTITIES.get((found["plain"] or "").casefold(), "&amp;")
        case _:
            words, target = _inert_text(found["text"]), found["target"]
            kind = "image: " if found["image"] else ""
            return f"{words} ({kind}{_as_code(target)})" if target else words


def _as_code(url: str) -> str:
    return f"{_OPEN}`{url}`{_CLOSE}"


# The runtime's own lines

_RUNTIME_MARK = re.compile(r"\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_RUNTIME_ROW = re.compile(r"^[\s>*+|-]*\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\]")
_RUNTIME_RULE = re.compile(r"^[\s>]*(?:[─━═‒–—―⸺⸻﹘－ー╌╍┄┅┈┉]\s*){3,}$")
_RUNTIME_HEADING = re.compile(r"^[\s>*_#|~`+.()\[\]\d-]*sources?[\s*_|~`#]*(?:$|[:(\[\]—–-])")
_LOOK_ALIKES = {
    ord(other): letter
    for letter, others in {
        "s": "\u0455\ua731\ua4e2$5",
        "o": "\u043e\u03bf\u0585\u03c3\u1d0f0",
        "u": "\u03c5\u057d\u1d1c\u0446",
        "r": "\u0433\u1d26\u0280",
        "c": "\u0441\u03f2\u1d04\ua4da",
        "e": "\u0435\u03b5\u04bd\u1d07\u0454",
    }.items()
    for other in others
}
"""Letters of other scripts, and digits, that a reader takes for a letter of the heading."""
_HEADING_CHARS = 120


def has_false_sources(answer: object) -> bool:
    """Return whether an answer without sources looks as if it had some: a mark like `[¹]`, or lines that look
    like the runtime's list."""
    if not isinstance(answer, str):
        return False
    return bool(_RUNTIME_MARK.search(answer)) or any(
        _looks_like_runtime(line) for line in terminal_text(answer).split("\n")
    )


def _quoted_if_runtime_like(line: str) -> str:
    """Put `> ` before a line that a reader could take for the heading, a row or the rule of the sources."""
    return f"> {line}" if not line.startswith("> ") and _looks_like_runtime(line) else line


def _looks_like_runtime(line: str) -> bool:
    return bool(line) and bool(
        _RUNTIME_ROW.match(line) or _RUNTIME_RULE.match(line) or _RUNTIME_HEADING.match(_skeleton(line))
    )


def _skeleton(line: str) -> str:
    """Return the start of a line as a reader sees it: in plain lower-case letters, without marks of emphasis
    and invisible characters."""
    seen = unicodedata.normalize("NFKD", line.lstrip()[:_HEADING_CHARS]).casefold()
    shown = "".join(
        one for one in seen if unicodedata.category(one) not in ("Mn", "Cf", "Cc") and one not in "*_~`\\"
    )
    return shown.translate(_LOOK_ALIKES)
