"""The rate of false absence over every format is 0: a file is read and cited, or it is named as not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_samples import ANSWER, SAMPLES, Sample

from rlm.answers.citations import cite
from rlm.documents import load
from rlm.documents.formats.registry import FORMATS
from rlm.errors import DocumentError

OTHER = "The rent of the southern mill is 900 a month, and its roof is new.\n" * 20


def _answer(sample: Sample) -> str:
    """Return what the sample says. A message of Outlook's own, which nothing here can write, has its own."""
    return "three weeks" if sample.name == "letter.msg" else ANSWER


def test_every_row_of_the_registry_has_a_sample() -> None:
    """A new format needs a good file, a known answer with its place, and files that cannot be read."""
    assert set(SAMPLES) == {row.kind for row in FORMATS}
    assert all(sample.unreadable for sample in SAMPLES.values())


@pytest.mark.parametrize("kind", SAMPLES)
async def test_the_answer_in_a_good_file_is_cited_with_its_place(tmp_path: Path, kind: str) -> None:
    sample = SAMPLES[kind]
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / sample.name).write_bytes(sample.data)
    (folder / "other.txt").write_text(OTHER)
    loaded = load([folder], tmp_path / "context")
    if not sample.is_readable:
        assert sample.name in " ".join(loaded.unread)
        return
    with loaded.context.open() as body:
        (found,) = (await cite([_answer(sample)], "", body)).citations
        assert found.verified
        assert sample.place in found.place
    assert not [one for one in loaded.unread if not one.endswith("(in part)")]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    sample = SAMPLES[kind]
    answer = _answer(sample)
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
