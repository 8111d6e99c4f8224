"""Reading of a git repository without a checkout: the files at a revision, and the commits of a range.

The repository counts as hostile. Its configuration, hooks, attributes, grafts and replacements are not used:
the objects are read by a git that has a folder and a configuration of its own. Only names of revisions are
resolved in the repository itself, by a command that starts no other program. Nothing is fetched. The files of
a revision are a tar archive, which the confined worker reads.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from rlm.documents.formats.piece import Problem
from rlm.documents.sources.source import Fetched
from rlm.errors import DocumentError

__all__ = ["read_revision"]

MOST_COMMITS = 10_000
_MOST_ARCHIVE = 2 << 30
_MOST_DIFF = 100_000
"""Bytes of one commit's diff."""
_SHORT = 10
_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 20
_TICK_SECONDS = 0.1
_RESOLVE_SECONDS = 30.0
_MOST_SHALLOW = 1 << 20
_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RANGE = re.compile(r"(.*?)(\.{2,3})(.*)")
_ALONE = {
    "LC_ALL": "C",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""No network, no prompt, nothing of the environment's GIT_DIR and its like."""
_FORM = "%H%ncommit %H%nAuthor: %an <%ae>%nDate:   %ad%n%n%w(0,4,4)%B%w(0,0,0)"

Tick = Callable[[], None]


def read_revision(path: Path, revision: str, spool: Path, tick: Tick) -> Iterator[Fetched | Problem]:
    """Yield the files of a commit as one archive, or one document for each commit of a range (`v1..v2`,
    `..main`), newest first.

    `path` is a repository, a folder of its working tree, or a bare repository; files outside of that folder
    are left out. `tick` may raise to stop. Raises DocumentError.
    """
    what = f"{path}@{revision}"
    if shutil.which("git") is None:
        raise DocumentError(f"{what} is read by git, which is not installed: install git")
    places = _resolve(
        path, "--path-format=absolute", "--git-common-dir", "--path-format=relative", "--show-prefix"
    )
    common, _, prefix = places.partition("\n")
    prefix = prefix.strip("\n")
    top = path.resolve().parents[prefix.count("/") - 1] if prefix else path.resolve()
    name = top.name.removesuffix(".git") or top.parent.name
    span = _RANGE.fullmatch(revision)
    end = _commit(path, (span[3] or "HEAD") if span else revision)
    with _objects(path, Path(common), spool) as environment:
        if span is None:
            command = ["archive", "--format=tar", f"--prefix={prefix}", f"{end}:{prefix}"]
            with tempfile.TemporaryFile(dir=spool) as file:
                for block in _output(command, environment, tick, what):
                    file.write(block)
                    if file.tell() > _MOST_ARCHIVE:
                        # A few objects can stand for more files than any disk holds.
                        why = f"read up to {_MOST_ARCHIVE >> 20:,} MB of its files"
                        yield Problem(why, "name a folder in it", "missing", f"{name}@{end[:_SHORT]}")
                        break
                file.seek(0)
                yield Fetched(f"{name}@{end[:_SHORT]}", "files.tar", file)
            return
        shown = f"{_commit(path, span[1])}{span[2]}{end}" if span[1] else end
        token = secrets.token_hex(16)  # no commit can hold it
        command = [
            "log", "-p", "--stat", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color",
            "--no-notes", "--no-mailmap", "--encoding=UTF-8", "--date=iso-strict",
            f"--format={token}{_FORM}", f"--max-count={MOST_COMMITS + 1}", shown,
            *("--", *([f":(top){prefix}"] if prefix else [])),
        ]  # fmt: skip
        count = cut = 0
        output = _output(command, environment, tick, what)
        with closing(output), closing(_commits(output, token, spool)) as commits:
            for commit, text, is_cut in commits:
                count += 1
                if count > MOST_COMMITS:
                    why = f"a history of more than {MOST_COMMITS:,} commits, of which the newest were read"
                    remedy = f"name a range for others, such as {name}@v1..v2"
                    yield Problem(why, remedy, "missing", f"{name}@{revision}")
                    break
                cut += is_cut
                yield Fetched(f"{name}@{commit[:_SHORT]}", "commit.txt", text)
    if cut:
        why = f"without the rest of {cut:,} diff{'' if cut == 1 else 's'} over {_MOST_DIFF // 1_000} kB"
        remedy = f"name {name}@COMMIT to read the files of a commit"
        yield Problem(why, remedy, "missing", f"{name}@{revision}")
    if not count:
        raise DocumentError(f"{what} holds no commit: check the range")


def _commits(blocks: Iterator[bytes], token: str, spool: Path) -> Generator[tuple[str, BinaryIO, bool]]:
    """Yield the name of each commit, its text, and whether its diff was cut."""
    lines = _lines(blocks)
    line = next(lines, b"")
    while line:
        head, size = line[len(token) :].decode().strip(), 0
        with tempfile.TemporaryFile(dir=spool) as file:
            while (line := next(lines, b"")) and not line.startswith(token.encode()):
                file.write(line[: max(0, _MOST_DIFF - size)])
                size += len(line)
            if left := max(0, size - _MOST_DIFF):
                file.write(f"\n… (the rest of this diff, {left:,} bytes, is left out)\n".encode())
            file.seek(0)
            yield head, file, left > 0


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; a very long one in pieces."""
    held = b""
    for block in blocks:
        *lines, held = (held + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(held) > _LONGEST_LINE:
            yield held
            held = b""
    if held:
        yield held


def _commit(path: Path, revision: str) -> str:
    """Return the full name of a commit. Raises DocumentError for an unknown revision."""
    unknown = f"{path} has no revision {revision!r}: git log and git tag list those it has"
    named = f"{revision}^{{commit}}"
    found = _resolve(path, "--verify", "--quiet", "--end-of-options", named, unknown=unknown).strip()
    if not _OBJECT.fullmatch(found):
        raise DocumentError(f"{path}@{revision} names no commit: check the revision")
    return found


def _resolve(path: Path, *arguments: str, unknown: str = "") -> str:
    """Run `git rev-parse` in the repository itself."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
    settings = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    try:
        done = subprocess.run(
            ["git", "-C", str(path), "--no-pager", *settings, "rev-parse", *arguments],
            env=kept | _ALONE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_RESOLVE_SECONDS,
            check=False,
        )
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
    line = next(iter(said.strip().splitlines()), "it gives no reason")
    reason = "".join(char for char in line if char.isprintable())[:200]
    raise DocumentError(unknown or f"git cannot read {path}: {reason}")


@contextmanager
def _objects(path: Path, common: Path, spool: Path) -> Iterator[dict[str, str]]:
    """Make a git folder that sees only the objects of the repository. Yield its environment."""
    with tempfile.TemporaryDirectory(dir=spool, prefix="git-") as name:
        folder = Path(name)
        for inner in ("objects", "refs", "info"):
            (folder / inner).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        is_wide = _resolve(path, "--show-object-format").strip() == "sha256"
        (folder / "config").write_text(
            f"[core]\n\trepositoryFormatVersion = {int(is_wide)}\n\tbare = true\n\tcommitGraph = false\n"
            + ("[extensions]\n\tobjectFormat = sha256\n" if is_wide else "")
        )
        # These win over the attributes of the tree, which could hide files or change them.
        (folder / "info" / "attributes").write_text("* -export-ignore -export-subst -text -filter -ident\n")
        (folder / "shallow").write_text(_shallow(common))
        yield _ALONE | {
            "PATH": os.environ.get("PATH", ""),
            "GIT_DIR": name,
            "GIT_OBJECT_DIRECTORY": str(common / "objects"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }


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


def _output(command: list[str], environment: dict[str, str], tick: Tick, what: str) -> Generator[bytes]:
    """Yield what a git command writes. It is killed if it is not read to its end."""
    with subprocess.Popen(
        ["git", "--no-pager", *command],
        env=environment,
        cwd=environment["GIT_DIR"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            while True:
                while not select.select([process.stdout], [], [], _TICK_SECONDS)[0]:
                    tick()
                if not (block := os.read(process.stdout.fileno(), _BLOCK)):
                    break
                tick()
                yield block
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise DocumentError(
            f"git cannot read {what}: run git fsck in it, or check the revision (a partial clone lacks files "
            "until they are checked out)"
        )
