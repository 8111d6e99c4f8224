"""Part foreign text from ours by lines with a code that the text cannot hold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rlm.prompts.templates import table

__all__ = ["CODE_DIGITS", "ForeignText", "boundary_code", "bounded"]

CODE_DIGITS = 12
"""48 bits, so that no text holds a code by chance. One that does gets another."""


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A text of a document, a model or a kernel. `label` says in our words what it is.

    If it was cut, `gap` says in our words what is missing before `rest`.
    """

    label: str
    text: str
    gap: str = ""
    rest: str = ""


def boundary_code(texts: Sequence[str], task: str = "", *, digits: int = CODE_DIGITS) -> str:
    """Return hexadecimal digits of which the first `digits` occur in none of the texts.

    They are a hash of the task and all texts. So equal calls give equal bytes, as caches need, and the
    author of a text can't put its own code into it: the text would change the code.
    """
    digest = hashlib.sha256()
    for text in (task, *texts):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    while True:
        code = digest.hexdigest()[:CODE_DIGITS]
        if not any(code[:digits] in text for text in texts):
            return code
        digest.update(b"again")


def bounded(texts: Sequence[ForeignText], end: str) -> str:
    """Return the texts, each below a line with its label, and below them a line with `end`.

    All these lines carry one code. Texts are unchanged, except that one line end at the end of a text is
    dropped.
    """
    code = boundary_code([piece for one in texts for piece in (one.text, one.rest)])
    template = table("boundary.toml")["line"]

    def line(label: str) -> str:
        return str(template).format(code=code, label=label)

    lines: list[str] = []
    for one in texts:
        lines += [line(one.label), one.text.removesuffix("\n")]
        if one.gap:
            lines.append(line(one.gap))
        if one.rest:
            lines.append(one.rest.removesuffix("\n"))
    return "\n".join([*lines, line(end)])
