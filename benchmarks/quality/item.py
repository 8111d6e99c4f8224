"""An item of a suite: a question, its texts, and the answers that count as right."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

__all__ = ["Item", "Rule"]

Rule = Literal["number", "near", "exact", "contains", "letter", "f1", "set", "share", "model"]
"""How an answer is scored, see `benchmarks.quality.scoring`."""


@dataclass(frozen=True, slots=True)
class Item:
    """One question. `texts` are the documents, in order. `golds` are the right answers: alternatives, or all
    members of the answer for the rules contains, set and share. `group` is the kind of question within its
    suite. `id` is unique within the suite and safe in names of files and runs."""

    id: str
    question: str
    texts: tuple[str, ...]
    golds: tuple[str, ...]
    rule: Rule
    group: str = ""

    @property
    def chars(self) -> int:
        """Return the characters of all texts."""
        return sum(map(len, self.texts))

    @property
    def digest(self) -> str:
        """Return a hash of the question, the texts and the golds."""
        hashed = hashlib.sha256()
        for part in (self.question, self.rule, *self.golds, "\0", *self.texts):
            hashed.update(f"{len(part)}:".encode())
            hashed.update(part.encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()[:16]
