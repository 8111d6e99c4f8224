"""Test which folders can be trusted, and when the trust ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlm.config_file.settings_file import read_folder_file
from rlm.config_file.trusted_folders import TrustedFolders
from rlm.config_file.user_folder import user_config_folder
from rlm.errors import ConfigurationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir(mode=0o755)
    file = tmp_path / "project" / "rlm.toml"
    file.write_bytes(b"sandbox = 2\n")
    file.chmod(0o644)
    return file


@pytest.fixture
def trusted(tmp_path: Path) -> TrustedFolders:
    return TrustedFolders(tmp_path / "home" / ".config" / "rlm")


def test_trust_is_for_a_folder_and_a_content(file: Path, trusted: TrustedFolders, tmp_path: Path) -> None:
    data = file.read_bytes()
    assert not trusted.trusts(file, data)
    trusted.add(file, data)
    assert trusted.trusts(file, data)
    assert [one.path for one in trusted.list()] == [file.parent]
    assert not trusted.trusts(file, data + b" ")
    assert trusted.knows(file)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "rlm.toml").write_bytes(data)
    assert not trusted.trusts(copy / "rlm.toml", data)
    assert trusted.remove(file)
    assert not trusted.remove(file)
    assert not trusted.trusts(file, data)


def test_a_link_to_a_folder_is_that_folder(file: Path, trusted: TrustedFolders, tmp_path: Path) -> None:
    """Trust follows the real path: a link that is moved elsewhere takes no trust with it."""
    link = tmp_path / "link"
    link.symlink_to(file.parent)
    trusted.add(link / "rlm.toml", file.read_bytes())
    assert trusted.trusts(file, file.read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    (other / "rlm.toml").write_bytes(file.read_bytes())
    link.unlink()
    link.symlink_to(other)
    assert not trusted.trusts(link / "rlm.toml", file.read_bytes())


@pytest.mark.parametrize("which", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o002, 0o020])
def test_what_others_can_write_is_not_trusted(
    file: Path, trusted: TrustedFolders, which: str, mode: int
) -> None:
    """Neither when it is added nor later. A group that is the user's own is not others."""
    path = file.parent if which == "folder" else file
    data = file.read_bytes()
    trusted.add(file, data)
    if mode == 0o020 and os.getuid() == 0:
        os.chown(path, 0, 12)  # the group of root is root's own
    path.chmod(path.stat().st_mode | mode)
    if mode == 0o020 and os.getuid() != 0:
        pytest.skip("needs root, to give the file to another group")
    assert not trusted.trusts(file, data)
    with pytest.raises(ConfigurationError, match=r"writable by (others|its group), so it can't be trusted"):
        trusted.add(file, data)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give the file to another user")
@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_belongs_to_another_is_not_trusted(file: Path, trusted: TrustedFolders, which: str) -> None:
    os.chown(file.parent if which == "folder" else file, 65534, 0)
    with pytest.raises(ConfigurationError, match="does not belong to you"):
        trusted.add(file, file.read_bytes())
    assert trusted.list() == ()


def test_the_list_is_private_and_a_damaged_one_is_reported(
    file: Path, trusted: TrustedFolders, tmp_path: Path
) -> None:
    trusted.add(file, file.read_bytes())
    stored = tmp_path / "home" / ".config" / "rlm" / "trusted.json"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in stored.parent.iterdir()] == ["trusted.json"]
    for text in ("{", "[]", '{"folders": 3}', "\xff"):
        stored.write_text(text, encoding="latin-1")
        with pytest.raises(ConfigurationError, match="is damaged: remove it"):
            trusted.trusts(file, file.read_bytes())


def test_a_file_that_is_not_a_plain_file_of_the_folder_is_refused(file: Path, tmp_path: Path) -> None:
    """Neither a link to another file of the user's, nor a pipe, which would wait for ever."""
    outside = tmp_path / "credentials.toml"
    outside.write_text('token = "hunter2"\n')
    for make, said in (
        (lambda: file.symlink_to(outside), "is a link out of its folder"),
        (lambda: file.symlink_to("/dev/zero"), "is a link out of its folder"),
        (lambda: file.symlink_to(file), "can't be read"),
        (lambda: os.mkfifo(file), "is not a regular file"),
        (file.mkdir, "is not a regular file|can't be read"),
    ):
        file.unlink()
        make()
        with pytest.raises(ConfigurationError, match=said) as caught:
            read_folder_file(file.parent)
        assert "hunter2" not in str(caught.value)
        if file.is_dir():
            file.rmdir()
            file.touch()
    file.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigurationError, match="over 1 MB"):
        read_folder_file(file.parent)
    file.unlink()
    (file.parent / "settings").mkdir()
    (file.parent / "settings" / "here.toml").write_bytes(b"max_rounds = 3\n")
    file.symlink_to("settings/here.toml")
    found = read_folder_file(file.parent)
    assert found is not None
    assert found.data == b"max_rounds = 3\n"


def test_a_relative_home_is_not_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for env in ({"HOME": "."}, {"HOME": "", "XDG_CONFIG_HOME": "here"}, {}):
        assert user_config_folder(env).is_absolute()
        assert not user_config_folder(env).is_relative_to(tmp_path)
