"""Test caches that commit 806c0b8 filled: a context and its index are found, not made again.

The key of a context is made of the facts of its files, some of which (inode, device) no archive keeps.
The tests write these facts and the version of the rendering anew, and leave everything else as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rlm import __version__

LINE = "The grass is green. The sky is blue. Here we go. There and back again.\n"
# Python before 3.11.4 knows no filters, and unpacks as this one does.
_FILTER: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
HALF = LINE * (4_400_000 // len(LINE) // 2)
NEEDLE = "One of the special magic numbers for loving-cockroach is: {}.\n"
INDEX = "8d927149fe06b8d1d81026b5494d5f3bd8374663-fts5-1-1"


@pytest.fixture
def cache(old: Path) -> Path:
    """Return the caches, unpacked at their place in the test's home."""
    home = Path(os.environ["XDG_CACHE_HOME"])
    home.mkdir(parents=True)
    with tarfile.open(old / "cache.tar.xz") as tar:
        tar.extractall(home, **_FILTER)
    for path in (home / "rlm").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return home / "rlm"


@pytest.fixture
def big(work: Path) -> Path:
    """Make the file of the context with another number in its text, so that reading it again would show."""
    path = work / "big.txt"
    path.write_text(HALF + NEEDLE.format("0000000") + HALF)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def facts(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


@pytest.fixture
def context(cache: Path, big: Path) -> Path:
    """Return the folder of the context, as if it was made of `big` on this machine."""
    (folder,) = (cache / "contexts").iterdir()
    entry = json.loads((folder / "entry.json").read_text())
    assert set(entry["files"]) == {"body", "index", "manifest.json"}
    entry["files"] = {name: facts(folder / name) for name in entry["files"]}
    entry["remarks"] = []
    (folder / "entry.json").write_text(json.dumps(entry))
    status = big.stat()
    lines: list[list[Any]] = [
        ["big.txt", [], False],
        [str(big), "big.txt", status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev],
        [[]],  # no file belongs to it, such as the log of a database
    ]
    key = f"2 3 {__version__}\n" + "".join(json.dumps(line) + "\n" for line in lines)
    return folder.rename(folder.with_name(hashlib.sha256(key.encode()).hexdigest()))


def state(folder: Path) -> dict[str, Any]:
    return {path.name: facts(path) for path in folder.iterdir() if path.name != "entry.json"}


def test_a_context_is_found_and_its_text_is_not_read_again(rlm, context, cache) -> None:
    before = state(context)
    ran = rlm("search", "special magic numbers", "big.txt", "--json")
    assert ran.code == 0, ran.stderr
    assert "loving-cockroach is: 5663623." in ran.stdout
    assert "0000000" not in ran.stdout
    assert list((cache / "contexts").iterdir()) == [context]
    assert state(context) == before


def test_an_index_is_found_and_not_built_again(rlm, context, cache) -> None:
    (index,) = (cache / "index").iterdir()
    assert index.name == INDEX
    before = (index.stat().st_ino, state(index))
    ran = rlm("search", "special magic numbers", "big.txt", "--json")
    assert "loving-cockroach" in ran.stdout
    assert list((cache / "index").iterdir()) == [index]
    assert (index.stat().st_ino, state(index)) == before


def test_a_file_that_has_changed_is_read_again(rlm, context, big) -> None:
    os.utime(big, (1_700_000_001, 1_700_000_001))
    ran = rlm("search", "special magic numbers", "big.txt", "--json")
    assert "loving-cockroach is: 0000000." in ran.stdout
