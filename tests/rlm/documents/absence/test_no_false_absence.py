"""The rate of false absence over every format is 0: a file is read and cited, or it is named as not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_samples import ANSWER, QUESTION, SAMPLES, Sample

from rlm import RLM, Settings
from rlm.answers.citations import cite
from rlm.documents import load
from rlm.documents.formats.registry import FORMATS
from rlm.errors import DocumentError

OTHER = "The rent of the southern mill is 900 a month, and its roof is new.\n" * 20
_MSG = ("letter.msg", "What is the notice period?", "three weeks")
"""A message of Outlook's own, which nothing here can write, has a text of its own."""


def _asked(sample: Sample) -> tuple[str, str]:
    return _MSG[1:] if sample.name == _MSG[0] else (QUESTION, ANSWER)


def test_every_row_of_the_registry_has_a_sample() -> None:
    """A new format needs a good file, a known answer with its place, and files that cannot be read."""
    assert set(SAMPLES) == {row.kind for row in FORMATS}
    assert all(sample.unreadable for sample in SAMPLES.values())


@pytest.mark.parametrize("kind", SAMPLES)
async def test_the_answer_in_a_good_file_is_cited_with_its_place(tmp_path: Path, kind: str) -> None:
    sample = SAMPLES[kind]
    question, answer = _asked(sample)
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / sample.name).write_bytes(sample.data)
    (folder / "other.txt").write_text(OTHER)
    result = await RLM("extractive", settings=Settings(store=tmp_path / "rlm.db")).run(question, folder)
    if not sample.is_readable:
        assert sample.name in " ".join(result.unread)
        assert f"Not read: {sample.name}" in result.text
        return
    cited = [one for one in result.citations if answer in one.quote]
    assert cited, result.text
    assert cited[0].verified
    with load([folder], tmp_path / "context").context.open() as body:
        (found,) = (await cite([answer], "", body)).citations
        assert found.verified
        assert sample.place in found.place
    assert not [one for one in result.unread if not one.endswith("(in part)")]


@pytest.mark.parametrize("kind", SAMPLES)
async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    sample = SAMPLES[kind]
    question, answer = _asked(sample)
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "other.txt").write_text(OTHER)
    names = {how: f"{how}-{sample.name}" for how in sample.unreadable}
    for how, data in sample.unreadable.items():
        (folder / names[how]).write_bytes(data)
    loaded = load([folder], tmp_path / "context")
    with loaded.context.open() as body:
        texts = {one.name: body.text(one.start, one.end) for one in loaded.context.documents}
    for name in names.values():
        read = "".join(text for document, text in texts.items() if document.startswith(name))
        assert answer in read or any(one.startswith(name) for one in loaded.unread), name
    if any(answer in text for text in texts.values()):
        return
    result = await RLM("extractive", settings=Settings(store=tmp_path / "rlm.db")).run(question, folder)
    assert not result.found
    assert "Not read: " in result.text
    named = " ".join(result.unread)
    assert not [name for name in names.values() if name not in named]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (kind, "copy protection" if kind == "epub" else "encrypted" if kind == "sqlite" else "password")
        for kind, sample in SAMPLES.items()
        if "locked" in sample.unreadable and kind != "mail" and sample.is_readable
    ],
)
def test_a_file_with_a_password_is_refused_for_it_with_a_remedy(tmp_path: Path, kind: str, says: str) -> None:
    sample = SAMPLES[kind]
    path = tmp_path / sample.name
    path.write_bytes(sample.unreadable["locked"])
    with pytest.raises(DocumentError, match=says) as raised:
        load([path], tmp_path / "context")
    assert any(word in str(raised.value) for word in ("without", "unpack", "decrypt")), raised.value
