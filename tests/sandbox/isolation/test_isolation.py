"""Test the layers of level 2, each by the attack it is there for."""

from __future__ import annotations

import builtins
import os
import platform
import socket
import sys
from pathlib import Path

import pytest

from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.isolation import syscalls
from rlm.sandbox.isolation.policy import LEVELS, Confinement
from rlm.sandbox.isolation.views import interpreter_paths


@pytest.fixture
async def confined_kernel(open_kernel):
    return await open_kernel("secret plans\n", level=2)


async def attempt(kernel, code: str):
    return await kernel.execute(code, round=1, timeout=20.0)


ATTACKS = {
    "the password file": "open('/etc/passwd').read()",
    "the driver's home": f"open({str(Path.home() / '.bashrc')!r}).read()",
    "the project": f"open({str(Path(__file__).resolve())!r}).read()",
    "listing the root": "import os; os.listdir('/')",
    "a TCP socket": "import socket; socket.socket(socket.AF_INET)",
    "an IPv6 socket": "import socket; socket.socket(socket.AF_INET6)",
    "a raw packet socket": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a netlink socket": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "writing to the system": "open('/usr/lib/x', 'w')",
    "writing to the context": "open('/context/body', 'r+b').write(b'x')",
    "writing to the kernel's own code": "open('/kernel/handle.py', 'a').write('#')",
    "a namespace of its own": "import ctypes, os\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError",
    "a mount": (
        "import ctypes\nif ctypes.CDLL(None).mount(b'x', b'/scratch', b'tmpfs', 0, None): raise OSError"
    ),
    "tracing": "import ctypes\nif ctypes.CDLL(None).ptrace(16, 1, 0, 0): raise OSError",
    "more memory by raising the limit": (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40))"
    ),
    "a file larger than the scratch": (
        "f = open('/scratch/x', 'wb')\nfor i in range(400): f.write(bytes(2**20))"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_level_2_refuses(confined_kernel, attack) -> None:
    """It refuses foreign files, the network, higher privileges and escapes."""
    result = await attempt(confined_kernel, ATTACKS[attack])
    assert result.status == "error"
    assert issubclass(getattr(builtins, result.ename), (OSError, ValueError)), result.ename


async def test_the_environment_is_not_the_drivers(open_kernel, monkeypatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-planted-0123456789")
    kernel = await open_kernel()
    result = await attempt(
        kernel, "import os; print(sorted(os.environ), open('/proc/self/environ', 'rb').read())"
    )
    assert "planted" not in result.stdout
    assert "SOME_API_KEY" not in result.stdout


async def test_other_processes_cannot_be_seen(confined_kernel) -> None:
    """The kernel has its own process namespace. Process 1, whose command line names the host's folders, is
    hidden."""
    result = await attempt(
        confined_kernel, "import os; print([p for p in os.listdir('/proc') if p.isdigit()])"
    )
    assert result.stdout == "['2']\n"
    assert (
        await attempt(confined_kernel, f"import os; os.kill({os.getpid()}, 0)")
    ).ename == "ProcessLookupError"


async def test_no_capability_is_left(confined_kernel) -> None:
    result = await attempt(
        confined_kernel, "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')])"
    )
    assert result.stdout == f"{['0' * 16] * 5}\n"


async def test_our_packages_are_not_importable(open_kernel) -> None:
    """rlm, sandbox and prompts are not importable in the kernel."""
    for level in (0, 2):
        kernel = await open_kernel(level=level)
        for name in ("rlm", "rlm.sandbox", "rlm.prompts", "rlm.sandbox.host.jupyter_sandbox"):
            assert (await attempt(kernel, f"import {name}")).ename == "ModuleNotFoundError"


async def test_a_planted_server_cannot_be_reached(confined_kernel) -> None:
    """No Unix socket of the host is reachable, not even an abstract one."""
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0rlm-planted")
    server.listen()
    with server:
        code = "import socket; socket.socket(socket.AF_UNIX).connect('\\0rlm-planted')"
        assert (await attempt(confined_kernel, code)).status == "error"


async def test_what_is_active_is_reported(confined_kernel) -> None:
    assert confined_kernel.isolation.level == 2
    assert set(confined_kernel.isolation.layers) == set(LEVELS[2])


@pytest.mark.parametrize("home", ["", "elsewhere", "project", "project/of/mine"])
def test_an_interpreter_shows_no_more_than_itself(tmp_path, monkeypatch, home) -> None:
    """It shows no home and no project files, even if the interpreter is installed in such a folder."""
    prefix = tmp_path / "project"
    for name in ("bin/python3", "bin/mine", "lib/mine/secret", "lib/libpython3.so.1", "pyvenv.cfg", "secret"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch()
    packages = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages.mkdir()
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, str(prefix))
    for name, target in (("python", "py"), ("py", "python3")):
        (prefix / "bin" / name).symlink_to(target)
    monkeypatch.setattr(sys, "executable", str(prefix / "bin" / "python"))
    monkeypatch.setenv("HOME", str(tmp_path / home))
    shown = {Path(path).relative_to(prefix).as_posix() for path in interpreter_paths()}
    if not home.startswith("project"):
        assert shown == {"bin", "lib", "pyvenv.cfg"}
    else:
        links = {"bin/python", "bin/py", "bin/python3"}
        assert shown == links | {f"lib/{packages.name}", "lib/libpython3.so.1", "pyvenv.cfg"}


@pytest.mark.parametrize("of", ["prefix", "base_prefix"])
async def test_a_kernel_runs_from_an_interpreter_in_a_home_that_it_does_not_see(
    open_kernel, monkeypatch, of
) -> None:
    """`python -m venv ~` is no reason to show the home."""
    home = Path(getattr(sys, of))
    if home.is_relative_to("/usr"):
        pytest.skip("what lies in /usr is shown anyhow")
    monkeypatch.setenv("HOME", str(home))
    kernel = await open_kernel(level=2)
    assert (await attempt(kernel, f"import os; sorted(os.listdir({str(home / 'bin')!r}))")).ename == (
        "PermissionError"
    )
    assert (await attempt(kernel, "import statistics; statistics.mean([1, 3])")).result == "2"


async def test_a_layer_that_fails_refuses_the_level(make_context, handler, monkeypatch) -> None:
    """Below level 2 model-written code does not run unasked. The missing layer is named."""
    context = make_context("x")
    monkeypatch.setattr(
        "rlm.sandbox.isolation.views.interpreter_paths", lambda: ["/nowhere-at-all"]
    )  # the private root can't contain a path that does not exist
    kernel = JupyterSandbox(context, handler, level="auto", minimum=2)
    with pytest.raises(SandboxRefused, match=r"root .*nowhere.*--sandbox 0"):
        await kernel.open()
    await kernel.close()


def test_a_confinement_survives_its_journey() -> None:
    confinement = Confinement(
        level=2,
        mount_point="/m",
        read_only={"/a": "/b"},
        hidden=("/h",),
        scratch="/scratch",
        scratch_mb=1,
        memory_mb=2,
        processes=4,
        open_files=5,
        environment={"PATH": "/bin"},
        keep_fds=(7,),
    )
    assert Confinement.from_json(confinement.to_json()) == confinement


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of this machine are not at hand")
def test_the_table_agrees_with_the_machine() -> None:
    """The numbers equal those of calls that libc knows by name."""
    assert syscalls.syscall("landlock_create_ruleset", None, 0, 1) >= 0
    with pytest.raises(OSError, match="pivot_root"):
        syscalls.syscall("pivot_root", b"/nowhere", b"/nowhere")


async def test_a_database_in_the_scratch_works_without_locks(confined_kernel) -> None:
    """Locks are refused, because other kernels would see them. The error says what to do."""
    refused = await attempt(
        confined_kernel, "import sqlite3; sqlite3.connect('a.db').execute('create table t(a)')"
    )
    assert "nolock=1" in refused.traceback
    code = "sqlite3.connect('file:a.db?nolock=1', uri=True).execute('create table t(a)'); 'made'"
    assert (await attempt(confined_kernel, code)).result == "'made'"
