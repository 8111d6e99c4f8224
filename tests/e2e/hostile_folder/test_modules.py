"""Test that nothing but settings is taken from the folder in which a command runs: no module, no program's
configuration.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(sys.executable).with_name("rlm")
MODULES = (
    "sitecustomize", "usercustomize", "conftest", "rlm", "sandbox", "typing", "json", "typer", "asyncio",
    "openai", "anthropic", "aiohttp", "httpx2", "re2", "sqlite3", "ipykernel",
    "zmq", "IPython", "jupyter_client", "jupyter_config", "jupyter_server_config", "ipython_config",
    "ipython_kernel_config", "pypdfium2", "selectolax", "numpy", "pathspec",
    "chardet",
)  # fmt: skip
FILES = {
    "pyvenv.cfg": "home = /nowhere\n",
    ".netrc": "machine 127.0.0.1 login me password hunter2\n",
    "kernel.json": '{"argv": ["sh", "-c", "touch written"]}',
    "python3": "#!/bin/sh\ntouch ../written\n",
    "bwrap": "#!/bin/sh\ntouch ../written\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder full of modules that leave a file behind when they are imported."""
    here = tmp_path / "repository"
    here.mkdir()
    (here / "page.html").write_text("<h1>Bridges</h1><p>The bridge was closed in May.</p>" * 50)
    for name in MODULES:
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'written')!r}, 'a').write({name!r} + ' ')\n")
    for name, text in FILES.items():
        (here / name).write_text(text)
        (here / name).chmod(0o755)
    return here


def test_the_command_imports_nothing_of_its_folder(
    folder: Path, environment: dict[str, str], provider_server: Any
) -> None:
    """Neither the driver nor what it starts: forkserver, watcher, kernel, reader of documents."""
    key = {
        "RLM_OPENAI_COMPATIBLE_KEY": "sk-0123456789",
        "RLM_OPENAI_COMPATIBLE_KEY_HOST": provider_server.url,
    }
    provider_server.always = "```repl\nfinalize(peek(0, 4))\n```"
    for arguments in (
        ["ask", "When was the bridge closed?", "page.html", "--strategy", "rlm"],
        ["ask", "When?", "page.html", "--strategy", "rlm", "--model", f"openai:m@{provider_server.url}/v1"],
        ["doctor"],
    ):
        ran = subprocess.run(
            [SCRIPT, *arguments],
            cwd=folder,
            env={**environment, **key},
            capture_output=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        assert not (folder.parent / "written").exists(), (folder.parent / "written").read_text()
    assert len(provider_server.requests) == 1


def test_the_driver_s_memory_and_environment_are_its_own(tmp_path: Path) -> None:
    """It can't be dumped, traced or read by another process of the user. What it starts can: the confinement
    of an ordinary user's kernel writes to /proc/PID.
    """
    code = (
        "import ctypes, os, resource, subprocess, sys\n"
        "from rlm.cli.memory import hide_process_memory\n"
        "hide_process_memory()\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534); hide_process_memory()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "path = f'/proc/{os.getpid()}/environ'\n"
        "print(subprocess.run(['/bin/cat', path], capture_output=True).returncode)\n"
        "print(subprocess.run(['/bin/cat', '/proc/self/environ'], capture_output=True).returncode)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["0", "0", "1", "0"]


def test_the_command_line_hides_its_memory() -> None:
    code = (
        "import ctypes, sys\n"
        "from rlm.cli import main\n"
        "sys.argv = ['rlm', '--version']\n"
        "try: main()\n"
        "except SystemExit: print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "0"
