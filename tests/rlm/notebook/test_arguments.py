"""Test the line of a magic."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from rlm.documents import FrameSource, PathSource, TextSource
from rlm.errors import DocumentError, UsageError
from rlm.notebook.arguments import parse


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "server.log").write_text("the charge failed\n")
    (tmp_path / "more notes.txt").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_line_is_a_question_and_what_to_read() -> None:
    asked = parse(
        '"Which charge failed, and why?" server.log "more notes.txt" -m extractive -o found', None, {}
    )
    assert asked.question == "Which charge failed, and why?"
    assert asked.context == [PathSource(Path("server.log")), PathSource(Path("more notes.txt"))]
    assert (asked.model, asked.output) == ("extractive", "found")


def test_variables_are_contexts_and_types() -> None:
    frame = pd.DataFrame({"a": [1]})
    asked = parse(
        "-o n 'How many?' frame text --schema kind", None, {"frame": frame, "text": "t", "kind": int}
    )
    assert asked.context == [FrameSource("DataFrame", frame), TextSource("text", "t")]
    assert asked.schema is int


@pytest.mark.parametrize(
    ("line", "body", "question", "texts"),
    [
        ("server.log", "Which charge failed?\n", "Which charge failed?", [PathSource(Path("server.log"))]),
        ("'Which charge?'", "The second.\n", "Which charge?", [TextSource("text", "The second.\n")]),
        ("-m extractive", "What is 6 * 7?\n", "What is 6 * 7?", None),
        ("'Which?'", "", "Which?", None),
    ],
)
def test_the_body_of_a_cell_is_the_question_or_the_text(line, body, question, texts) -> None:
    asked = parse(line, body, {})
    assert (asked.question, asked.context) == (question, texts)


@pytest.mark.parametrize(
    ("line", "body", "error", "says"),
    [
        ("", " \n", UsageError, "there is no question"),
        ("'unclosed", None, UsageError, "a quote that is not closed"),
        ("What --no-such", None, UsageError, "no-such"),
        ("What --max-cost x", None, UsageError, "invalid float value"),
        ("What missing.txt", None, DocumentError, "missing.txt does not exist"),
        ("What server.log --schema Nothing", None, UsageError, "no such variable"),
        ("What server.log -o 1a", None, UsageError, "no name of a variable"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(line, body, error, says) -> None:
    with pytest.raises(error, match=says) as caught:
        parse(line, body, {})
    assert "\n" not in str(caught.value)
