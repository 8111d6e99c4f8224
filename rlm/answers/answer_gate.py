"""Runs the caller's check of an answer, `RLM(check=…)`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from rlm.errors import AnswerCheckError, ConfigurationError
from rlm.results import ProposedAnswer
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread

__all__ = ["AnswerCheck", "AnswerGate"]

AnswerCheck = Callable[[ProposedAnswer], Any]
"""Returns None or "" to accept, and a message or a list of messages to refuse. It may be async."""

_MAX_REASONS = 20
_MAX_REASON = 500


class AnswerGate:
    """Runs one check, for at most `seconds`. Raises ConfigurationError if it is not a function."""

    def __init__(self, check: AnswerCheck, *, seconds: float) -> None:
        if not callable(check):
            raise ConfigurationError(
                f"check is {check!r:.40}; give a function that takes a ProposedAnswer and returns None, or "
                "what is wrong"
            )
        self._check = check
        self._seconds = seconds
        self.name = str(getattr(check, "__qualname__", type(check).__qualname__))

    async def reasons(self, proposal: ProposedAnswer) -> tuple[str, ...]:
        """Return why the check refuses an answer, or () if it accepts it. A ValueError and a failed assertion
        refuse, too. Raises AnswerCheckError for any other error, and for a check that takes too long."""
        try:
            with waiting():
                async with asyncio.timeout(self._seconds) as limit:
                    said = await self._call(proposal)
        except (ValueError, AssertionError) as error:
            said = str(error) or f"{self.name} raised {type(error).__name__}"
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # A boundary: the caller's function may raise anything.
            if limit.expired():
                raise self._failure(f"gave no result within {self._seconds:g} s") from error
            raise self._failure(f"raised {type(error).__name__}: {error}") from error
        if said is None or said is True:
            return ()
        if said is False:
            return (f"{self.name} returned False",)
        reasons = [said] if isinstance(said, str) else said
        if not isinstance(reasons, (list, tuple)) or not all(isinstance(one, str) for one in reasons):
            raise self._failure(f"returned {said!r:.80}, which is no message")
        return tuple(one[:_MAX_REASON] for one in reasons if one.strip())[:_MAX_REASONS]

    async def _call(self, proposal: ProposedAnswer) -> Any:
        if inspect.iscoroutinefunction(self._check):
            return await self._check(proposal)
        said = await run_in_daemon_thread(lambda: self._check(proposal), name="rlm-check")
        return await said if inspect.isawaitable(said) else said

    def _failure(self, what: str) -> AnswerCheckError:
        return AnswerCheckError(
            f"the check {self.name} {what}. Mend it and resume the run: no call is repeated"
        )
