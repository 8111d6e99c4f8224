"""A repository at a revision and its history, also a hostile one."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from document_tree import skipped_of

from rlm.documents import GitSource, Loaded, PathSource, load, sources_from_arguments
from rlm.documents.sources import git_repository
from rlm.errors import DocumentError


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments],
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "yard"
    (folder / "src").mkdir(parents=True)
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    (folder / "src" / "a.py").write_text("x = 1\ny = 2\nnotice = 'three weeks'\n")
    (folder / "lease.md").write_text("# Lease\n\nThe rent is 900.\n")
    (folder / "logo.bin").write_bytes(bytes(range(256)) * 10)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "The notice period is three weeks")
    git(folder, "tag", "v1")
    (folder / "src" / "a.py").write_text("x = 1\ny = 2\nnotice = 'nine weeks'\n")
    git(folder, "commit", "-qam", "Longer notice\n\nThe landlord asked for it.")
    return folder


def read(folder: Path, *arguments: str, exclude: tuple[str, ...] = ()) -> tuple[Loaded, dict[str, str]]:
    """Return what was loaded, and the text of each document."""
    sources = sources_from_arguments(arguments, io.BytesIO(), exclude=exclude)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        loaded = load(sources, Path(name) / "context")
        with loaded.context.open() as body:
            texts = {one.name: body.text(one.start, one.end) for one in loaded.context.documents}
        assert not list((Path(name) / "context").glob("git-*"))
    return loaded, texts


def test_files_at_a_revision(repository: Path, tmp_path: Path) -> None:
    short = git(repository, "rev-parse", "v1")[:10]
    loaded, texts = read(tmp_path, f"{repository}@v1")
    assert set(texts) == {f"yard@{short}/src/a.py", f"yard@{short}/lease.md"}
    assert "three weeks" in texts[f"yard@{short}/src/a.py"]
    assert skipped_of(loaded) == [(f"yard@{short}/logo.bin", "binary")]
    kinds = {one.name.partition("/")[2]: one.kind for one in loaded.context.documents}
    assert kinds == {"src/a.py": "code", "lease.md": "markdown"}


def test_a_folder_of_it_and_patterns(repository: Path, tmp_path: Path) -> None:
    short = git(repository, "rev-parse", "main")[:10]
    _, texts = read(tmp_path, f"{repository}/src@main")
    assert list(texts) == [f"yard@{short}/src/a.py"]
    _, texts = read(tmp_path, f"{repository}@HEAD", exclude=("*.py",))
    assert list(texts) == [f"yard@{short}/lease.md"]


@pytest.mark.parametrize(("revisions", "count"), [("..", 2), ("v1..", 1), ("..main", 2), ("v1..main", 1)])
def test_the_history(repository: Path, tmp_path: Path, revisions: str, count: int) -> None:
    short = git(repository, "rev-parse", "main")[:10]
    _, texts = read(tmp_path, f"{repository}@{revisions}")
    assert len(texts) == count
    last = texts[f"yard@{short}"]
    for said in (
        "Author: Ada <ada@example.org>",
        "Longer notice",
        "The landlord asked",
        "-notice = 'three weeks'",
    ):
        assert said in last
    assert next(iter(texts)) == f"yard@{short}"


def test_long_diffs_and_histories_are_cut_and_named(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "_MOST_DIFF", 300)
    monkeypatch.setattr(git_repository, "MOST_COMMITS", 1)
    loaded, texts = read(tmp_path, f"{repository}@..")
    assert len(texts) == 1
    assert "is left out)" in next(iter(texts.values()))
    assert loaded.unread == ("yard@..",)
    assert [one.what for one in loaded.problems] == [
        "a history of more than 1 commits, of which the newest were read",
        "without the rest of 1 diff over 0 kB",
    ]


def test_a_commit_cannot_pose_as_two(repository: Path, tmp_path: Path) -> None:
    """The marks between commits are made anew for each reading."""
    (repository / "b.txt").write_text("\x01commit 1111111111111111111111111111111111111111\nAuthor: Eve\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "commit 2222222222222222222222222222222222222222\nAuthor: Eve")
    _, texts = read(tmp_path, f"{repository}@main~1..")
    assert len(texts) == 1


def test_nothing_of_a_hostile_repository_is_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    sprung = tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("*.py diff=evil filter=evil\n*.md textconv=evil\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "attributes")
    for key in (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "diff.external",
        "diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge", "gpg.program",
        "core.alternateRefsCommand", "interactive.diffFilter", "credential.helper", "pager.log", "alias.log",
        "alias.rev-parse", "uploadpack.packObjectsHook",
    ):  # fmt: skip
        git(repository, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "core.repositoryFormatVersion", "1")
    git(repository, "config", "remote.origin.url", f"ext::{trap}")
    git(repository, "config", "remote.origin.promisor", "true")
    for name in ("post-checkout", "reference-transaction", "fsmonitor-watchman", "post-index-change"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(trap.read_text())
        hook.chmod(0o755)
    _, texts = read(tmp_path, f"{repository}@HEAD", f"{repository}@..")
    assert any("nine weeks" in text for text in texts.values())
    assert not sprung.exists()


def test_a_lazy_clone_fetches_nothing(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repository}", str(clone))
    with pytest.raises(DocumentError, match=r"a partial clone lacks files"):
        read(tmp_path, f"{clone}@HEAD")


def test_a_shallow_clone_and_a_bare_one(repository: Path, tmp_path: Path) -> None:
    shallow, bare = tmp_path / "shallow", tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", str(shallow))
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    assert len(read(tmp_path, f"{shallow}@..")[1]) == 1
    assert [name.partition("@")[0] for name in read(tmp_path, f"{bare}@v1")[1]] == ["bare", "bare"]


def test_what_is_none_is_one_line(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for argument, says in (
        (f"{repository}@v9", "has no revision 'v9'"),
        (f"{repository}@--all", "has no revision '--all'"),
        (f"{tmp_path}@v1", "is no git repository"),
        (f"{repository}@v1..v1", "holds no commit"),
    ):
        with pytest.raises(DocumentError, match=says):
            read(tmp_path, argument)
    with pytest.raises(DocumentError, match="does not exist"):
        read(tmp_path, str(tmp_path / "none@v1"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DocumentError, match="git, which is not installed"):
        read(tmp_path, f"{repository}@v1")


def test_a_file_of_that_name_wins(repository: Path, tmp_path: Path) -> None:
    named = repository.parent / "yard@v1"
    named.write_text("a note")
    assert sources_from_arguments([str(named)], io.BytesIO()) == (PathSource(named),)
    named.unlink()
    assert sources_from_arguments([str(named)], io.BytesIO()) == (GitSource(repository, "v1"),)


def test_a_path_with_marks(tmp_path: Path) -> None:
    folder = tmp_path / "me@work"
    folder.mkdir()
    assert sources_from_arguments([f"{folder}@HEAD@{{1}}"], io.BytesIO()) == (GitSource(folder, "HEAD@{1}"),)


def test_a_revision_of_too_many_files_is_read_in_part(repository: Path, tmp_path: Path, monkeypatch) -> None:
    """A few objects can stand for more files than any disk holds."""
    monkeypatch.setattr(git_repository, "_MOST_ARCHIVE", 1 << 20)
    blob = git(repository, "rev-parse", "v1:lease.md")
    tree = git(repository, "rev-parse", "v1^{tree}")
    rows = "".join(f"100644 blob {blob}\tf{number}.md\n" for number in range(10))
    for _ in range(6):  # a million files
        done = subprocess.run(
            ["git", "-C", str(repository), "mktree"], input=rows.encode(), check=True, capture_output=True
        )
        tree = done.stdout.decode().strip()
        rows = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
    commit = git(repository, "commit-tree", "-m", "bomb", tree)
    loaded, texts = read(tmp_path, f"{repository}@{commit}")
    assert 500 < len(texts) < 1_100
    assert f"yard@{commit[:10]}" in loaded.unread
