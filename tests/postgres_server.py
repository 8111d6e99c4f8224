"""Provide a real PostgreSQL: the server at RLM_TEST_PG_URL, else Debian's binaries on a private socket."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ["database", "restartable_server", "running_server"]

_START_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
# A test's database may be lost with the machine, so it is made fast and without safety.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """Yield the URL of a server's maintenance database."""
    given = os.environ.get("RLM_TEST_PG_URL")
    if given:
        yield given
        return
    with _make_cluster() as (binaries, folder, user), _serve(binaries, folder, user) as url:
        yield url


@contextlib.contextmanager
def restartable_server() -> Iterator[tuple[str, Callable[[float], Future[None]]]]:
    """Yield the URL of the maintenance database of a new server, and a function that stops the server with
    its sessions and starts it again after so many seconds, in the background.
    """
    with _make_cluster() as made, contextlib.ExitStack() as stack:
        url = stack.enter_context(_serve(*made))

        def restart(pause: float) -> None:
            stack.close()
            time.sleep(pause)
            stack.enter_context(_serve(*made))

        # One thread starts all servers: a server dies with the thread that started it.
        with ThreadPoolExecutor(1) as thread:
            yield url, lambda pause: thread.submit(restart, pause)


@contextlib.contextmanager
def database(server: str) -> Iterator[str]:
    """Yield the URL of a new, empty database."""
    name = f"rlm_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        quick = (
            " STRATEGY FILE_COPY" if connection.info.server_version >= 150000 else ""
        )  # five times as fast
        connection.execute(sql.SQL("CREATE DATABASE {}" + quick).format(sql.Identifier(name)))
    facts = {key: str(value) for key, value in conninfo_to_dict(server).items() if key != "dbname"}
    who = ":".join(quote(facts.pop(key), safe="") for key in ("user", "password") if key in facts)
    try:
        # With the socket's folder in the query, libpq can read it.
        yield f"postgresql://{who}@/{name}?{urlencode(facts)}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _ordinary_user(folder: Path) -> str | None:
    """Return another user for the folder if this process is root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            return name
    raise RuntimeError("root can't run PostgreSQL and there is neither a user postgres nor nobody")


def _as(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@contextlib.contextmanager
def _make_cluster() -> Iterator[tuple[Path, Path, str | None]]:
    """Return PostgreSQL's binaries, a folder with a new cluster, and its owner if that is another user. Skips
    the test if there are no binaries.
    """
    binaries = _binaries()
    if binaries is None:
        pytest.skip(
            "no PostgreSQL: set RLM_TEST_PG_URL, or install one (Debian: sudo apt install postgresql)"
        )
    folder = Path(tempfile.mkdtemp(prefix="rlm-pg-"))  # short, because a socket's path may have 107 bytes
    try:
        user = _ordinary_user(folder)
        _run_initdb(binaries, folder, user)
        yield binaries, folder, user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    """Return the folder of `initdb` and `postgres`: the newest of Debian's, else the one on the PATH."""
    versions = [
        folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()
    ]
    if versions:
        return max(versions, key=lambda folder: float(folder.parent.name))
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def _run_initdb(binaries: Path, folder: Path, user: str | None) -> None:
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = subprocess.run(
        [str(binaries / "initdb"), f"--pgdata={folder / 'data'}", *options],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        **_as(user),
    )
    if done.returncode:
        raise RuntimeError(f"initdb failed: {done.stderr.strip()[-500:]}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)  # so that a killed pytest leaves no server


@contextlib.contextmanager
def _serve(binaries: Path, folder: Path, user: str | None) -> Iterator[str]:
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *settings],
            cwd=folder,
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 (one system call, no locks)
            **_as(user),
        )
    url = make_conninfo("", host=str(folder), user="postgres", dbname="postgres")
    try:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(url, connect_timeout=5).close()
                break
            except psycopg.OperationalError as error:
                if server.poll() is not None or time.monotonic() > end:
                    log_text = (folder / "log").read_text(errors="replace")[-500:]
                    raise RuntimeError(f"PostgreSQL did not start: {log_text}") from error
                time.sleep(0.05)
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown: open sessions are ended
        server.wait(30)
