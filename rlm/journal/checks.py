"""Checks what a journal holds before anything uses it: a store may be damaged, or come from a stranger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlm.errors import JournalError
from rlm.prompts.json_input import parse_json

__all__ = ["damage_reported", "is_count", "is_event", "is_number", "is_record", "is_time", "parse"]

_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, in Unix seconds: the last time that can be shown."""
_MAX_COUNT = 2**63

_Check = Callable[[Any], bool]
_WRONG_SHAPE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What readers raise for data of another shape than they expect."""


@contextmanager
def damage_reported(run_id: str) -> Iterator[None]:
    """Turn what readers of a run's data raise into JournalError."""
    try:
        yield
    except _WRONG_SHAPE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise JournalError(
            f"the journal of run {run_id} can't be read: it is damaged, or another version of rlm wrote it "
            f"({reason}). Remove the run (rlm runs rm {run_id}) and ask the question again"
        ) from error


def parse(text: Any) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for one that is nested more than 100 deep."""
    if not isinstance(text, str):
        raise ValueError("it is no text")
    return parse_json(text)


def is_count(value: Any) -> bool:
    """Return whether it is a whole number that a database holds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_COUNT


def is_number(value: Any) -> bool:
    """Return whether it is a number that is finite."""
    return math.isfinite(value) if isinstance(value, float) else is_count(value)


def is_time(value: Any) -> bool:
    """Return whether it is a time in Unix seconds that can be shown."""
    return is_number(value) and 0 <= value <= _LAST_SECOND


def is_record(value: Any) -> bool:
    """Return whether it is an object whose fields have the types that readers expect of their names.

    A name means the same in every event, result and setting. Fields that are missing are left to the readers,
    and what users and cells made (answers, values, arguments) may be anything.
    """
    return isinstance(value, dict) and all(
        _FIELDS[name](field) for name, field in value.items() if name in _FIELDS
    )


def is_event(kind: str, data: Any) -> bool:
    """Return whether it may be the data of an event of that kind."""
    if not is_record(data):
        return False
    result = data.get("result")
    # Other results hold what a cell made.
    if result is None or kind not in ("cell", "part_ended"):
        return True
    return is_record(result) and (kind != "cell" or is_record(result.get("report")))


def _is(kind: type) -> _Check:
    return lambda value: isinstance(value, kind)


_is_text, _is_flag, _is_none = _is(str), _is(bool), _is(type(None))


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_count, value))


def _any(*checks: _Check) -> _Check:
    return lambda value: any(check(value) for check in checks)


def _list_of(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _named(names: str, check: _Check) -> dict[str, _Check]:
    return dict.fromkeys(names.split(), check)


_FIELDS: dict[str, _Check] = {
    **_named(
        "asked call code context_sha256 detail ename evalue finish_reason kind limit mark marker name "
        "prompt prose quote reply role size status stderr stdout stop_reason strategy sub_model "
        "summary_model title traceback violation within",
        _is_text,
    ),
    **_named(
        "after answer_schema author cell_place confidence document error error_type job key model part "
        "reason rows_place test time",
        _any(_is_none, _is_text),
    ),
    **_named(
        "answered_chars cached_tokens cache_write_tokens calls changed_count chunks_processed chunks_total "
        "context_chars failed_chars follow_ups input_chars input_tokens kept last_round max_output_tokens "
        "output_tokens pages_looked prompt_tokens read_chars reasoning_tokens room round rounds "
        "scanned_chars sent_chars stdout_chars sub_calls uncovered_chars",
        is_count,
    ),
    **_named("end last_page line page start", _any(_is_none, is_count)),
    **_named("cost_usd", _any(_is_none, is_number)),
    **_named("seconds", is_number),
    **_named("cached complete final forced found verified", _is_flag),
    **_named("passed", _any(_is_none, _is_flag)),
    **_named("gaps read scanned spans", _list_of(_is_span)),
    **_named("heading_path rebound refusals unread variables warnings", _list_of(_is_text)),
    **_named("answers changed citations gates messages problems sub_models", _list_of(is_record)),
    **_named("coverage settings", is_record),
    **_named("support", _any(_is_none, is_record)),
    "claims": _any(_list_of(is_record), is_count),  # of an answer, or how many a model was asked of
    "message": _any(_is_none, _is_text, is_count),  # of an event, or the number of a message in a chat
    "notes": _any(_is_text, _list_of(_is_text), _list_of(is_record)),  # of rounds, a check, or a result
    "seen": _any(_is_flag, lambda value: isinstance(value, dict)),  # of a citation, or the spans of a part
    "sources": _any(_list_of(is_record), _list_of(is_count)),  # of a run, or of a claim
    "thinking": _any(_is_text, is_count),  # of a reply, or of a window
    "usage": _any(is_record, _list_of(is_record)),  # of a call, or of a run by model
}
