"""Reading of a git repository without a checkout: the files at a revision, and the commits of a range.

The repository counts as hostile. Its configuration, hooks, attributes, grafts and replacements are not used:
the objects are read by a git that has a folder and a configuration of its own. Only names of revisions are
resolved in the repository itself, by a command that starts no other program. Nothing is fetched.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pathspec import GitIgnoreSpec

from rlm.documents.sources.fetched import Fetched, NotFetched
from rlm.errors import DocumentError
from rlm.lazy_dataclass import dataclass

__all__ = ["is_range", "read_revision"]

MOST_COMMITS = 10_000
_MOST_BLOB = 512 << 20
_MOST_FILES = 100_000
"""Files of a revision, as of an archive."""
_MOST_DIFF = 100_000
"""Bytes of one commit's diff."""
_SHORT = 10
_BLOCK = 1 << 16
_TICK_MILLISECONDS = 100
_RESOLVE_SECONDS = 30.0
_MOST_SHALLOW = 1 << 20
_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LINK, _SUBMODULE = "120000", "160000"

Tick = Callable[[int], None]


def is_range(revision: str) -> bool:
    """Return whether a revision names commits (`v1..v2`, `..main`) and not the files of one commit."""
    return ".." in revision


def read_revision(
    path: Path, revision: str, exclude: Sequence[str], spool: Path, tick: Tick
) -> Iterator[Fetched | NotFetched]:
    """Yield the files of a commit, or one document for each commit of a range, newest first.

    `path` is a repository, a folder of its working tree, or a bare repository; files outside of that folder
    are left out. `tick` gets the bytes read and may raise to stop. Raises DocumentError.
    """
    program = shutil.which("git")
    if program is None:
        raise DocumentError(f"{path}@{revision} is read by git, which is not installed: install git")
    repository = _Repository.open(program, path)
    with _objects(repository, spool) as git:
        if is_range(revision):
            yield from _read_history(git, repository, revision, spool, tick)
        else:
            yield from _read_tree(git, repository, revision, exclude, spool, tick)


@dataclass(frozen=True, slots=True)
class _Repository:
    """Where a repository is. `prefix` is the named folder within its working tree, with a final slash."""

    program: str
    path: Path
    common: Path
    prefix: str

    @classmethod
    def open(cls, program: str, path: Path) -> _Repository:
        lines = _resolve(
            program,
            path,
            "--path-format=absolute",
            "--git-common-dir",
            "--path-format=relative",
            "--show-prefix",
        )
        common, _, prefix = lines.partition("\n")
        return cls(program, path, Path(common), prefix.strip("\n"))

    @property
    def name(self) -> str:
        """The name of the folder that holds the repository."""
        top = self.path.resolve()
        if self.prefix:
            top = top.parents[self.prefix.count("/") - 1]
        return top.name.removesuffix(".git") or top.parent.name

    def commit(self, revision: str) -> str:
        """Return the full name of a commit. Raises DocumentError for an unknown revision."""
        found = _resolve(
            self.program, self.path, "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
            unknown=f"{self.path} has no revision {revision!r}: git log and git tag list those it has",
        ).strip()  # fmt: skip
        if not _OBJECT.fullmatch(found):
            raise DocumentError(f"{self.path}@{revision} names no commit: check the revision")
        return found


def _resolve(program: str, path: Path, *arguments: str, unknown: str = "") -> str:
    """Run `git rev-parse` in the repository itself."""
    try:
        done = subprocess.run(
            [
                program, "-C", str(path), "--no-pager", "-c", "core.fsmonitor=false",
                "-c", "core.hooksPath=/dev/null", "rev-parse", *arguments,
            ],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_RESOLVE_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        raise DocumentError(f"git does not answer for {path}: check the repository") from None
    if done.returncode == 0:
        return os.fsdecode(done.stdout)
    said = done.stderr.decode("utf-8", "replace")
    if "dubious ownership" in said:
        raise DocumentError(
            f"{path} belongs to another user, so git does not read it: if you trust it, run "
            f"git config --global --add safe.directory {path.resolve()}"
        )
    if "not a git repository" in said:
        raise DocumentError(f"{path} is no git repository: name one, or a path without @")
    raise DocumentError(unknown or f"git cannot read {path}: {_first_line(said)}")


def _environment(**more: str) -> dict[str, str]:
    """Return what git is told: nothing of GIT_DIR and its like, no network, no prompt."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        **more,
    }


@dataclass(frozen=True, slots=True)
class _Git:
    """A git with a folder of its own that sees only the objects of the repository."""

    program: str
    folder: Path
    environment: dict[str, str]

    @contextmanager
    def run(self, tick: Tick, *arguments: str, has_input: bool = False) -> Iterator[_Pipe]:
        """Start a command and give its output. It is killed at the end."""
        process = subprocess.Popen(
            [self.program, "--no-pager", "-c", "core.commitGraph=false", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield _Pipe(process, tick)
        finally:
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # what was buffered for a process that is gone
                        stream.close()
            process.wait()


@contextmanager
def _objects(repository: _Repository, spool: Path) -> Iterator[_Git]:
    with tempfile.TemporaryDirectory(dir=spool, prefix="git-") as name:
        folder = Path(name)
        for inner in ("objects", "refs"):
            (folder / inner).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        wide = _resolve(repository.program, repository.path, "--show-object-format").strip() == "sha256"
        extension = "[extensions]\n\tobjectFormat = sha256\n" if wide else ""
        (folder / "config").write_text(
            f"[core]\n\trepositoryFormatVersion = {int(wide)}\n\tbare = true\n{extension}"
        )
        (folder / "shallow").write_text(_shallow(repository.common))
        yield _Git(
            repository.program,
            folder,
            _environment(
                GIT_DIR=str(folder),
                GIT_OBJECT_DIRECTORY=str(repository.common / "objects"),
                GIT_CONFIG_GLOBAL="/dev/null",
                GIT_CONFIG_NOSYSTEM="1",
            ),
        )


def _shallow(common: Path) -> str:
    """Return where the history of a shallow clone ends."""
    file = common / "shallow"
    try:
        if not file.is_file() or file.stat().st_size > _MOST_SHALLOW:
            return ""
        lines = file.read_text("ascii", "replace").split()
    except OSError:
        return ""
    return "".join(f"{line}\n" for line in lines if _OBJECT.fullmatch(line))


class _Pipe:
    """The output of a git command. Waiting can be interrupted by the tick."""

    def __init__(self, process: subprocess.Popen[bytes], tick: Tick) -> None:
        assert process.stdout is not None
        self.process = process
        self._descriptor = process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._tick = tick
        self._held = bytearray()

    def ask(self, line: str) -> None:
        """Write a line to the command."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def more(self) -> bytes:
        """Return what comes next, b"" at the end."""
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            return data
        while not self._poll.poll(_TICK_MILLISECONDS):
            self._tick(0)
        data = os.read(self._descriptor, _BLOCK)
        self._tick(len(data))
        return data

    def until(self, mark: bytes) -> bytes | None:
        """Return what comes before the next mark, which is dropped; None at the end."""
        found = bytearray()
        while True:
            at = found.find(mark)
            if at >= 0:
                self._held[:0] = found[at + len(mark) :]
                return bytes(found[:at])
            data = self.more()
            if not data:
                return bytes(found) or None
            found += data

    def pieces_until(self, mark: bytes) -> Iterator[bytes]:
        """Yield what comes before the next mark, which is dropped, or before the end."""
        found = b""
        while True:
            at = found.find(mark)
            if at >= 0:
                self._held[:0] = found[at + len(mark) :]
                yield found[:at]
                return
            # The mark may be cut at the end.
            safe = max(0, len(found) - len(mark) + 1)
            if safe:
                yield found[:safe]
            data = self.more()
            if not data:
                yield found[safe:]
                return
            found = found[safe:] + data

    def exactly(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes. Raises DocumentError at an early end."""
        while size:
            data = self.more()
            if not data:
                raise DocumentError("the git repository is damaged: run git fsck in it")
            self._held[:0] = data[size:]
            yield data[:size]
            size -= min(size, len(data))

    def check_ended_well(self, what: str) -> None:
        """Raise DocumentError if the command failed."""
        if self.process.wait() != 0:
            raise DocumentError(f"git cannot read {what}: run git fsck in it, or check the revision")


def _read_tree(
    git: _Git, repository: _Repository, revision: str, exclude: Sequence[str], spool: Path, tick: Tick
) -> Iterator[Fetched | NotFetched]:
    commit = repository.commit(revision)
    excluded = GitIgnoreSpec.from_lines(exclude)
    top = f"{repository.name}@{commit[:_SHORT]}:"
    found: list[tuple[str, str, int]] = []
    folder = [f"{repository.prefix}"] if repository.prefix else []
    listed = 0
    with git.run(tick, "ls-tree", "-r", "-z", "--long", "--full-tree", commit, "--", *folder) as pipe:
        while (entry := pipe.until(b"\0")) is not None:
            listed += 1
            if listed > _MOST_FILES:
                rest = f"read up to its file {_MOST_FILES:,}, and holds more"
                yield NotFetched(top.rstrip(":"), rest, "name a folder in it")
                break
            facts, _, raw = entry.partition(b"\t")
            mode, kind, blob, size = os.fsdecode(facts).split()
            path = os.fsdecode(raw)
            inner = path.removeprefix(repository.prefix)
            if excluded.match_file(os.fsencode(inner).decode("utf-8", "replace")):
                continue
            if mode == _SUBMODULE or kind != "blob":
                yield NotFetched(top + path, "a submodule, another repository")
            elif mode == _LINK:
                yield NotFetched(top + path, "a link")
            elif not size.isdecimal():
                yield NotFetched(top + path, "not in this clone", "run git checkout there to fetch it")
            elif int(size) > _MOST_BLOB:
                yield NotFetched(
                    top + path, f"larger than {_MOST_BLOB >> 20} MB", "check it out and name the file"
                )
            elif size == "0":
                yield NotFetched(top + path, "empty")
            else:
                found.append((path, blob, int(size)))
        else:
            pipe.check_ended_well(f"{repository.path}@{revision}")
    with git.run(tick, "cat-file", "--batch", has_input=True) as pipe:
        for path, blob, length in found:
            pipe.ask(blob)
            if (pipe.until(b"\n") or b"").split() != [blob.encode(), b"blob", str(length).encode()]:
                raise DocumentError(
                    f"{repository.path}@{revision} lacks {path}: run git fsck there (a partial clone lacks "
                    "files until they are checked out)"
                )
            file = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115
            for data in pipe.exactly(length):
                file.write(data)
            for _ in pipe.exactly(1):
                file.flush()
            file.seek(0)
            yield Fetched(top + path, path, file)


def _read_history(
    git: _Git, repository: _Repository, revision: str, spool: Path, tick: Tick
) -> Iterator[Fetched | NotFetched]:
    first, dots, last = revision.partition("...") if "..." in revision else revision.partition("..")
    end = repository.commit(last or "HEAD")
    shown = f"{repository.commit(first)}{dots}{end}" if first else end
    token = secrets.token_hex(16)  # no commit can hold it
    form = f"{token}%H%ncommit %H%nAuthor: %an <%ae>%nDate:   %ad%n%n%w(0,4,4)%B%w(0,0,0)"
    only = ["--", f":(top){repository.prefix}"] if repository.prefix else ["--"]
    cut = count = 0
    with git.run(
        tick, "log", "-p", "--stat", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color",
        "--no-notes", "--no-mailmap", "--encoding=UTF-8", "--date=iso-strict", f"--format={form}",
        f"--max-count={MOST_COMMITS + 1}", shown, *only,
    ) as pipe:  # fmt: skip
        pipe.until(token.encode())
        while (head := pipe.until(b"\n")) is not None:
            count += 1
            if count > MOST_COMMITS:
                break
            text, rest = _one_commit(pipe, token.encode(), spool)
            if rest:
                cut += 1
            yield Fetched(f"{repository.name}@{head.decode()[:_SHORT]}", "commit.txt", text)
        else:
            pipe.check_ended_well(f"{repository.path}@{revision}")
    what = f"{repository.name}@{revision}"
    if count > MOST_COMMITS:
        yield NotFetched(
            what,
            f"a history of more than {MOST_COMMITS:,} commits, of which the newest were read",
            f"name a range for others, such as {repository.name}@v1..v2",
        )
    if cut:
        yield NotFetched(
            what,
            f"without the rest of {cut:,} diff{'' if cut == 1 else 's'} over {_MOST_DIFF // 1_000} kB",
            f"name {repository.name}@COMMIT to read the files of a commit",
        )
    if not count:
        raise DocumentError(f"{repository.path}@{revision} holds no commit: check the range")


def _first_line(said: str) -> str:
    line = next(iter(said.strip().splitlines()), "it gives no reason")
    return "".join(char for char in line if char.isprintable())[:200]


def _one_commit(pipe: _Pipe, token: bytes, spool: Path) -> tuple[BinaryIO, int]:
    """Return the text of a commit up to the next token, and how many bytes of its diff were left out."""
    file = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115
    kept = left = 0
    for data in pipe.pieces_until(token):
        taken = data[: max(0, _MOST_DIFF - kept)]
        file.write(taken)
        kept += len(taken)
        left += len(data) - len(taken)
    if left:
        file.write(f"\n… (the rest of this diff, {left:,} bytes, is left out)\n".encode())
    file.seek(0)
    return file, left
