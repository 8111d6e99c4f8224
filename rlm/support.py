"""Whether the sources of an answer support its claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from rlm.lazy_dataclass import dataclass

__all__ = ["NOT_SUPPORTED", "ClaimSupport", "Support", "SupportStatus", "SupportTest"]

SupportStatus = Literal["supported", "unsupported", "unchecked"]
SupportTest = Literal["extract", "words", "model"]
NOT_SUPPORTED = "(not supported by its source)"
"""The remark behind a claim that its sources do not support."""


@dataclass(frozen=True, slots=True)
class ClaimSupport:
    """Whether the cited passages support one claim, a sentence or a line of the answer.

    `sources` are the numbers of its citations, from 1; () if it cites none. `test` decided: `extract` (the
    claim is words of its source), `words` (its numbers and names were compared) or
    `model`; None if it is unchecked. `reason` says why it is not supported or unchecked. `start` and `end`
    are its characters in an answer that is text.
    """

    text: str
    sources: tuple[int, ...]
    status: SupportStatus
    test: SupportTest | None
    reason: str = ""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """Whether the quotes of an answer support its claims. `model` is the model that was asked, if any.
    `notes` say what kept a check from being made."""

    claims: tuple[ClaimSupport, ...] = ()
    model: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def supported(self) -> int:
        """The number of claims that their sources support."""
        return self._count("supported")

    @property
    def unsupported(self) -> int:
        """The number of claims that their sources do not support."""
        return self._count("unsupported")

    @property
    def unchecked(self) -> int:
        """The number of claims that no test decided, including those without a source."""
        return self._count("unchecked")

    @property
    def uncited(self) -> int:
        """The number of claims without a source."""
        return sum(not claim.sources for claim in self.claims)

    @property
    def shown(self) -> str:
        """`5 of 6 claims are supported (checked by gpt-5), 1 not`."""
        total = len(self.claims)
        if self.unchecked == total:
            return f"{total:,} {'claim' if total == 1 else 'claims'} unchecked"
        shown = f"{self.supported:,} of {total:,} {'claim is' if total == 1 else 'claims are'} supported"
        shown += f" (checked by {self.model or 'comparing numbers and names'})"
        if self.unsupported:
            shown += f", {self.unsupported:,} not"
        if self.unchecked:
            shown += f", {self.unchecked:,} unchecked"
            shown += f" ({self.uncited:,} without a citation)" if self.uncited else ""
        return shown

    def _count(self, status: SupportStatus) -> int:
        return sum(claim.status == status for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the claims, the model and the notes."""
        return {
            "supported": self.supported,
            "unsupported": self.unsupported,
            "unchecked": self.unchecked,
            "uncited": self.uncited,
            "model": self.model,
            "notes": self.notes,
            "claims": [asdict(claim) for claim in self.claims],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Support:
        """Return the support that `to_json` wrote."""
        claims = (ClaimSupport(**{**claim, "sources": tuple(claim["sources"])}) for claim in data["claims"])
        return cls(tuple(claims), data["model"], tuple(data["notes"]))
