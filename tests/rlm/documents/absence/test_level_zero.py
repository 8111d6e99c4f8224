"""Without confinement, every format gives the same text, and the run says that it was read so."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_samples import SAMPLES
from document_tree import names_of, remarks_of, text_of

from rlm.documents import load
from rlm.sandbox.isolation.policy import Candidate


def test_every_format_gives_the_same_text_without_confinement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for kind, sample in SAMPLES.items():
        (folder / f"{kind}-{sample.name}").write_bytes(sample.data)
    confined = load([folder], tmp_path / "confined")
    monkeypatch.setattr("rlm.sandbox.launch.confined_worker._every_way", lambda: [Candidate(0)])
    bare = load([folder], tmp_path / "bare")
    assert names_of(bare) == names_of(confined)
    assert text_of(bare) == text_of(confined)
    assert bare.unread == confined.unread
    (remark,) = set(remarks_of(bare)) - set(remarks_of(confined))
    assert "were parsed without confinement" in remark
