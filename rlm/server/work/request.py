"""A request in the form that the store keeps: what is asked, over which context, within which limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlm.lazy_dataclass import dataclass
from rlm.settings import Limits

__all__ = ["ContextPart", "RequestLimits", "WorkRequest"]

Kind = Literal["run", "summary", "research"]
_TASK_CHARS = 200_000


class ContextPart(BaseModel):
    """One part of a context: exactly one of `text`, `file_id`, `path` and `url`.

    `path` is a file or folder on the server, below a folder that its operator allows (`--root`). `url` is
    refused unless the operator allows it (`--allow-urls`)."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(default=None, min_length=1)
    file_id: str | None = Field(default=None, max_length=64)
    path: str | None = Field(default=None, min_length=1, max_length=4_096)
    url: str | None = Field(default=None, min_length=1, max_length=8_192)
    name: str | None = Field(default=None, max_length=200, description="The name of a text in citations.")

    @model_validator(mode="after")
    def _check_one(self) -> ContextPart:
        given = [one for one in (self.text, self.file_id, self.path, self.url) if one is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of text, file_id, path and url")
        return self


Dollars = Annotated[float, Field(ge=0, le=1e6)]


class RequestLimits(BaseModel):
    """Limits of a run, named like the options of the command line. They only lower those of the server."""

    model_config = ConfigDict(extra="forbid")

    max_cost: Dollars | None = None
    max_rounds: int | None = Field(default=None, ge=1, le=10_000)
    max_calls: int | None = Field(default=None, ge=0, le=1_000_000)
    max_seconds: float | None = Field(default=None, gt=0, le=1e7)
    max_depth: int | None = Field(default=None, ge=0, le=100)

    def under(self, limits: Limits) -> Limits:
        """Return `limits`, lowered."""
        asked = self.model_dump(exclude_none=True)
        return replace(limits, **{name: min(value, getattr(limits, name)) for name, value in asked.items()})


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """What is asked. `context` holds parts as JSON: those of ContextPart, and `{"data": base64, "name": …}`
    or `{"text": …, "kind": "json"}` of the API of OpenAI; None asks without a text. `options` are those of
    the kind. `face` keeps what its API needs later and the run does not."""

    kind: Kind
    task: str
    context: tuple[dict[str, Any], ...] | None
    schema: Any = None
    limits: RequestLimits = field(default_factory=RequestLimits)
    options: dict[str, Any] = field(default_factory=dict)
    face: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what the store keeps."""
        return {
            "kind": self.kind,
            "task": self.task,
            "context": None if self.context is None else list(self.context),
            "schema": self.schema,
            "limits": self.limits.model_dump(exclude_none=True),
            "options": self.options,
            "face": self.face,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WorkRequest:
        """Return the request that `to_json` wrote."""
        context = data["context"]
        return cls(
            data["kind"],
            data["task"],
            None if context is None else tuple(context),
            data["schema"],
            RequestLimits(**data["limits"]),
            data["options"],
            data["face"],
        )

    @property
    def digest(self) -> str:
        """A hash of what is asked. Equal requests have the same."""
        content = {key: value for key, value in self.to_json().items() if key != "face"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def without_texts(self) -> dict[str, Any]:
        """Return what the store keeps once the run has ended: its texts are in the journal, if anywhere."""
        kept = self.to_json()
        if kept["context"] is not None:
            kept["context"] = [
                {key: value for key, value in part.items() if key not in ("text", "data")}
                for part in kept["context"]
            ]
        return kept
