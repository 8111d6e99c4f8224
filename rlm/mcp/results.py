"""What the tools return: the types behind their output schemas. All texts are bounded."""

from __future__ import annotations

from pydantic import BaseModel, Field

from rlm import results
from rlm.escaping import terminal_line, terminal_text

__all__ = [
    "MAX_TEXT",
    "Answer",
    "Cited",
    "Found",
    "Hit",
    "Passage",
    "RunLine",
    "Runs",
    "answer_resource",
    "citation_resource",
    "cut",
]

MAX_TEXT = 20_000
"""Characters of one answer, and of the passages of one search."""
_MAX_QUOTE = 400
_MAX_CITATIONS = 50
_MAX_WARNINGS = 20
_MAX_LINE = 300


def answer_resource(run_id: str) -> str:
    """Return the resource with the whole answer of a run."""
    return f"rlm://run/{run_id}/answer"


def citation_resource(run_id: str, number: int) -> str:
    """Return the resource with the place of a citation, which count from 1."""
    return f"rlm://run/{run_id}/citation/{number}"


def cut(text: str, limit: int = MAX_TEXT, remark: str = "") -> str:
    """Return `text` without control characters, with at most `limit` characters and then `remark`."""
    text = terminal_text(text)
    return text if len(text) <= limit else f"{text[:limit]}…{remark}"


class Cited(BaseModel):
    """A quote of the answer. Characters count from 0 in the joined input, lines and pages from 1."""

    marker: str
    quote: str
    place: str = Field(description="Document and place as a reader would name them: contract.pdf, page 12")
    document: str | None
    page: int | None
    line: int | None
    start: int | None
    end: int | None
    verified: bool = Field(description="False: the input does not hold the quote. Do not rely on it.")
    resource: str = Field(description="Read this resource for the place with its context")

    @classmethod
    def of(cls, citation: results.Citation, run_id: str, number: int) -> Cited:
        """Return what a client sees of a citation."""
        return cls(
            marker=terminal_line(citation.marker),
            quote=cut(citation.quote, _MAX_QUOTE),
            place=terminal_line(citation.place),
            document=None if citation.document is None else terminal_line(citation.document),
            page=citation.page,
            line=citation.line,
            start=citation.start,
            end=citation.end,
            verified=citation.verified,
            resource=citation_resource(run_id, number),
        )


class Answer(BaseModel):
    """An answer, a report or a summary with its verified citations."""

    run_id: str = Field(description="Name of the run: for runs, resume and the resources rlm://run/…")
    answer: str | None = Field(description="None: there is no answer; stop_reason says why")
    found: bool = Field(description="False: the documents do not hold the answer")
    is_cut: bool = Field(description="The answer was too long: read the resource for all of it")
    resource: str
    stop_reason: str
    resumable: bool = Field(description="The tool resume continues the run; nothing is paid twice")
    confidence: str | float | None
    strategy: str
    citations: list[Cited]
    input_chars: int
    complete: bool = Field(description="Every character of the input was read")
    rounds: int
    sub_calls: int
    tokens: int
    cost_usd: float | None = Field(description="None: a price is unknown")
    seconds: float
    warnings: list[str]

    @classmethod
    def of(cls, result: results.RunResult) -> Answer:
        """Return what a client sees of a result."""
        text = None if result.answer is None else result.marked_text
        return cls(
            run_id=result.run_id,
            answer=None if text is None else cut(text),
            found=result.found,
            is_cut=text is not None and len(text) > MAX_TEXT,
            resource=answer_resource(result.run_id),
            stop_reason=result.stop_reason,
            resumable=result.stop_reason in results.RESUMABLE,
            confidence=result.confidence,
            strategy=result.strategy,
            citations=[
                Cited.of(one, result.run_id, number)
                for number, one in enumerate(result.citations[:_MAX_CITATIONS], 1)
            ],
            input_chars=result.coverage.input_chars,
            complete=result.coverage.complete,
            rounds=result.rounds,
            sub_calls=result.sub_calls,
            tokens=sum(one.input_tokens + one.output_tokens for one in result.usage),
            cost_usd=None if result.cost_usd is None else round(result.cost_usd, 6),
            seconds=result.seconds,
            warnings=[cut(terminal_line(one), _MAX_LINE) for one in result.warnings[:_MAX_WARNINGS]],
        )


class Hit(BaseModel):
    """A passage that was found, or the line of a match."""

    document: str | None
    place: str
    page: int | None = None
    line: int | None = None
    start: int = Field(description="First character in the joined input")
    end: int
    score: float | None = None
    text: str


class Found(BaseModel):
    """The best passages, or the first matches of a regular expression."""

    hits: list[Hit]
    total: int = Field(description="Number of matches; for words, of the passages shown")
    unread: list[str] = Field(description="Documents that could not be searched")
    warnings: list[str]


class Passage(BaseModel):
    """A stretch of a document. Characters and lines are those of the document."""

    document: str
    text: str
    start: int
    end: int
    line: int
    last_line: int
    page: int | None
    heading_path: list[str]
    document_chars: int
    document_lines: int
    next_start: int | None = Field(description="Give it as start to read on; None at the end")


class RunLine(BaseModel):
    """A run of the journal."""

    run_id: str
    task: str
    state: str = Field(description="running, answered, not found or stopped; resume continues a stopped run")
    stop_reason: str | None
    started_at: str
    rounds: int
    sub_calls: int
    cost_usd: float | None
    doing: str | None = Field(None, description="What a run of this server does now")


class Runs(BaseModel):
    """The newest runs whose files may be read."""

    runs: list[RunLine]
