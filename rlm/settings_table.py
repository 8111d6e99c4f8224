"""Every setting of a run and of a server, declared once.

A row makes the option (`--max-rounds`), the variable (`RLM_MAX_ROUNDS`), the key of settings files
(`max_rounds`), the line in the file of `rlm init` and the row of the reference. `Limits` is made of the rows
of its fields. A row without `has_flag` has no option of its own: `--set KEY=VALUE` sets it.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

__all__ = [
    "CALL_OPTIONS",
    "INPUT",
    "JOURNAL",
    "LIMITS",
    "MODELS",
    "OUTPUT",
    "RUN",
    "SERVER",
    "SETTINGS",
    "Setting",
]

MODELS, INPUT, RUN, LIMITS = "Models", "Input", "How it runs", "Limits"
OUTPUT, JOURNAL, SERVER = "Output", "Settings and journal", "Server"
"""The groups. A command names those whose options it takes."""
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


class Setting(NamedTuple):
    """One setting.

    kind: the type of its value, or the texts to choose from.
    minimum: the least number. None: it is above 0.
    folder: what `rlm.toml` of a folder may do with it. The file may come from a stranger.
    slow: the default with --slow.
    """

    name: str
    group: str
    kind: type[str] | type[int] | type[float] | type[bool] | tuple[str, ...]
    default: Any
    help: str
    minimum: float | None = None
    folder: Literal["never", "lower", "any"] = "never"
    has_flag: bool = True
    short: str = ""
    metavar: str = ""
    is_list: bool = False
    slow: Any = None

    @property
    def flag(self) -> str:
        """Return its option, or how --set names it."""
        return f"--{self.name.replace('_', '-')}" if self.has_flag else f"--set {self.name}=VALUE"

    @property
    def variable(self) -> str:
        """Return its variable."""
        return f"RLM_{self.name.upper()}"

    def parse(self, text: str) -> Any:
        """Return the value of a text; the text itself if it is no such value, which `fault` then tells."""
        if self.is_list:
            return text.split()
        if self.kind is bool:
            word = text.strip().lower()
            return word in _TRUE if word in _TRUE | _FALSE else text
        if self.kind is int or self.kind is float:
            try:
                return self.kind(text)
            except ValueError:
                return text
        return text

    def fault(self, value: Any) -> str | None:
        """Return why it cannot have this value, and the remedy."""
        if value is None and self.default is None:
            return None
        if self.is_list:
            ok = isinstance(value, list) and all(isinstance(item, str) for item in value)
            return None if ok else _wrong(value, "give a list of texts")
        if isinstance(self.kind, tuple):
            return None if value in self.kind else _wrong(value, f"give one of {', '.join(self.kind)}")
        if self.kind is str or self.kind is bool:
            ok = isinstance(value, self.kind)
            return None if ok else _wrong(value, "give a text" if self.kind is str else "give true or false")
        return self._fault_of_number(value)

    def _fault_of_number(self, value: Any) -> str | None:
        kinds = (int,) if self.kind is int else (int, float)
        is_number = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
        if is_number and (value > 0 if self.minimum is None else value >= self.minimum):
            return None
        number = "a whole number" if self.kind is int else "a number"
        bound = "above 0" if self.minimum is None else f"of at least {self.minimum:g}"
        return _wrong(value, f"give {number} {bound}")


def _wrong(value: Any, remedy: str) -> str:
    shown = repr(value)
    return f"is {shown if len(shown) <= 40 else shown[:39] + '…'}; {remedy}"


def _text(name: str, group: str, help_text: str, **more: Any) -> Setting:
    return Setting(name, group, str, None, help_text, **more)


def _switch(name: str, group: str, help_text: str, default: bool | None = False, **more: Any) -> Setting:
    return Setting(name, group, bool, default, help_text, **more)


def _choice(name: str, choices: tuple[str, ...], help_text: str, **more: Any) -> Setting:
    return Setting(name, RUN, choices, choices[0], help_text, **more)


def _count(name: str, group: str, default: int | None, minimum: int, help_text: str, **more: Any) -> Setting:
    return Setting(name, group, int, default, help_text, minimum, **more)


def _limit(name: str, default: int, minimum: int, help_text: str, **more: Any) -> Setting:
    return _count(name, LIMITS, default, minimum, help_text, folder="lower", **more)


def _amount(name: str, group: str, default: float, help_text: str, **more: Any) -> Setting:
    return Setting(name, group, float, default, help_text, **more)


SETTINGS = {
    row.name: row
    for row in (
        _text(
            "model",
            MODELS,
            "The root model: PROVIDER:NAME, PROVIDER:NAME@URL or extractive. Default: the provider whose key "
            "is set, else extractive.",
            short="-m",
        ),
        _text(
            "sub_model",
            MODELS,
            "The model of the children. Default: the root model. Repeatable, as NAME=MODEL: code may choose "
            "by name, and the first is the default.",
            is_list=True,
        ),
        _text(
            "summary_model",
            MODELS,
            "The model that summarizes texts and older rounds. Default: the children's model.",
        ),
        _text(
            "allow_host",
            INPUT,
            "Private hosts that URLs may lead to: HOST or HOST:PORT, with spaces between several.",
            is_list=True,
            has_flag=False,
        ),
        _switch(
            "no_document_cache",
            INPUT,
            "Keep no copy of the input, neither in the cache nor in the journal. To resume a run, its files "
            "are read again.",
        ),
        _choice(
            "strategy",
            ("auto", "rlm", "direct", "map-reduce"),
            "rlm: rounds of code; direct: one call; map-reduce: every part is read, no code (for small "
            "models); auto chooses by size, question and window.",
            folder="any",
        ),
        _choice(
            "contract",
            ("one-block", "strict"),
            "The reply format of the root; strict refuses prose around the block.",
            folder="any",
        ),
        _switch("slow", RUN, "Half the price; may take up to 24 hours: calls wait in a provider's batch."),
        _choice(
            "sandbox",
            ("auto", "0", "1", "2", "3"),
            "Isolation level: auto takes the strongest available, 0 is none.",
        ),
        _switch("cache", RUN, "Reuse children's answers of earlier runs."),
        _switch(
            "check",
            RUN,
            "Let a model check that the citations support the answer. Default: in research and summaries.",
            None,
            has_flag=False,
        ),
        _limit("max_rounds", 30, 1, "Maximum rounds of a root."),
        _limit("max_depth", 1, 0, "Maximum depth of sub-RLMs; 0: children only."),
        _limit("max_calls", 1_000, 0, "Maximum child calls."),
        _limit("max_total_tokens", 10_000_000, 1, "Maximum tokens of all calls together.", has_flag=False),
        _amount("max_cost", LIMITS, 5.0, "Maximum cost in US dollars.", minimum=0, folder="lower"),
        _amount("max_seconds", LIMITS, 1_800.0, "Timeout in seconds.", folder="lower", slow=93_600.0),
        _amount(
            "cell_seconds", LIMITS, 120.0, "Timeout of one block, in seconds of computing.", folder="lower"
        ),
        _limit("concurrency", 16, 1, "Maximum calls in flight at a provider.", slow=1_000),
        _count(
            "child_tokens",
            LIMITS,
            None,
            1_000,  # the instructions around a slice take about 500
            "Maximum tokens of one child's prompt. Default: what its model reads well.",
            has_flag=False,
        ),
        _text("store", JOURNAL, "The journal: a SQLite file, or postgresql://USER@HOST/NAME."),
        _count(
            "store_mb",
            RUN,
            2_048,
            0,
            "Size of the journal in MB. Above it the oldest finished runs are removed.",
            has_flag=False,
        ),
        _switch("allow_urls", SERVER, "Requests may name public URLs as contexts.", has_flag=False),
        _text("host_name", SERVER, "Names under which it is reached.", is_list=True, has_flag=False),
        _text("origin", SERVER, "Web origins whose pages may call it.", is_list=True, has_flag=False),
        _count("runs_at_once", SERVER, 4, 1, "Maximum runs at a time.", has_flag=False),
        _count("queue", SERVER, 100, 0, "Maximum runs that wait for their turn.", has_flag=False),
        _count("body_mb", SERVER, 32, 1, "Maximum size of a request in MB.", has_flag=False),
        _count("upload_mb", SERVER, 512, 1, "Maximum size of an uploaded file in MB.", has_flag=False),
        _amount(
            "drain_seconds",
            SERVER,
            30.0,
            "How long runs may take to finish when the server stops.",
            minimum=0,
            has_flag=False,
        ),
    )
}
"""The settings by name."""

CALL_OPTIONS = {
    row.name: row
    for row in (
        _text(
            "option",
            MODELS,
            "What each call of the root model asks for: output (tokens of a reply), effort, thinking, "
            "temperature, seed, api, body.NAME, headers.NAME. Repeatable.",
            is_list=True,
            metavar="KEY=VALUE",
        ),
        _text(
            "sub_option",
            MODELS,
            "The same for the children's model. Repeatable.",
            is_list=True,
            metavar="KEY=VALUE",
        ),
        _text("exclude", INPUT, "Skip files that match, as in .gitignore. Repeatable.", is_list=True),
        _text(
            "mcp",
            RUN,
            "Code may call the tools of this MCP server, [mcp.NAME] of a settings file. Repeatable.",
            is_list=True,
            metavar="NAME",
        ),
        _switch("dry_run", RUN, "Estimate calls, tokens and cost. Asks no model and spends nothing."),
        _text("trace", OUTPUT, "Write all events to this file as JSON lines.", metavar="FILE"),
        _switch("json", OUTPUT, "Print the whole result as JSON."),
        _switch("quiet", OUTPUT, "Print neither progress nor the account on stderr.", short="-q"),
        _switch("verbose", OUTPUT, "Show each block of the root, its output and all notes.", short="-v"),
    )
}
"""Options of one call. They have no variable and no key."""
