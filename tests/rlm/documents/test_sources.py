"""What a caller may give as a context, and what is refused before anything is read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.documents import PathSource, StreamSource, TextSource, sources_of
from rlm.errors import UsageError
from rlm.retrieval import Retriever
from rlm.tasks import ask, research, summarize


def test_one_source_and_a_list_of_them_are_the_same() -> None:
    stream = StreamSource("pipe", io.BytesIO(b"x"))
    for given, kind in (("a text", TextSource), (b"a text", TextSource), (Path("a"), PathSource)):
        (one,) = sources_of(given)
        assert isinstance(one, kind)
        assert sources_of([given]) == sources_of((given,)) == [one]
    assert sources_of([stream, "x"]) == [stream, TextSource("text", "x")]


@pytest.mark.parametrize("context", [None, 5, [None], ["a", 5]])
def test_anything_else_is_a_usage_error_that_names_it(context: Any) -> None:
    with pytest.raises(UsageError, match=r"the context .*(None|type \w+): give a text, a Path"):
        sources_of(context)


@pytest.mark.parametrize("name", ["README.md", "docs", "./README.md", " README.md"])
def test_a_text_that_names_a_file_asks_for_a_path(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The few characters of the name would be searched, and the file would seem to hold nothing."""
    (tmp_path / "README.md").write_text("It runs on Linux only.\n")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"names an existing file or folder: give Path\('{name.strip()}'\)"):
        sources_of(name)
    assert sources_of(TextSource("text", name))
    assert sources_of(f"{name}\nsecond line")
    assert sources_of("missing.md")


def test_a_text_that_is_only_a_url_is_not_downloaded() -> None:
    with pytest.raises(UsageError, match=r"give rlm\.documents\.UrlSource\('https://example"):
        sources_of("https://example.com/lease.pdf")
    with pytest.raises(UsageError, match=r"give rlm\.documents\.CloudSource\('s3://bucket"):
        sources_of("s3://bucket/lease.pdf")
    assert sources_of("See https://example.com/lease.pdf")


@pytest.fixture
def rlm(tmp_path: Path) -> RLM:
    return RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))


@pytest.mark.parametrize("question", [None, 5, ""])
async def test_a_question_that_is_no_text_is_a_usage_error(rlm: RLM, question: Any) -> None:
    for call in (rlm.run, *(_task(rlm, job) for job in (ask, research))):
        with pytest.raises(UsageError, match="the question is"):
            await call(question, "A text.")


def _task(rlm: RLM, job: Any) -> Any:
    return lambda question, context: job(rlm, question, context)


async def test_every_job_takes_one_source(rlm: RLM, tmp_path: Path) -> None:
    """A text was split into its letters, each a document."""
    text = "The lease of the northern yard ends in 2031.\n"
    path = tmp_path / "lease.txt"
    path.write_text(text)
    for context, name in ((text, "text"), (path, "lease.txt")):
        for result in (
            (await ask(rlm, "When does the lease end?", context)).result,
            (await summarize(rlm, context, kind="chat")).result,
            (await research(rlm, "When does the lease end?", context)).result,
        ):
            assert result is not None
            assert result.coverage.input_chars == len(text)
            assert {citation.document for citation in result.citations} <= {name}
    with Retriever.over(text) as retriever:
        (pack,) = retriever.retrieve("lease")
    assert pack.text.strip() == text.strip()


async def test_a_session_takes_one_source(rlm: RLM) -> None:
    async with rlm.session("The lease ends in 2031.\n") as session:
        with pytest.raises(UsageError, match="a value of type int"):
            session.append(5)  # type: ignore[arg-type]
        session.append(["The rent is 900 euros.\n", "The yard is in the north.\n"])
        result = await session.run("How much is the rent?")
    assert "900 euros" in result.text
