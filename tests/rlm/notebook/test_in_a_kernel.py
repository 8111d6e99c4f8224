"""Test the magics in real kernels: the example notebook, hostile text, a Ctrl-C, and a plain shell."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from provider_server import Answer, ProviderServer

from rlm.notebook.magics import RLMMagics
from rlm.results import Coverage, RunResult

EXAMPLE = Path(__file__).parents[3] / "examples" / "notebook.ipynb"


# The client of these tests, which is not ours, leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep journals, caches and IPython's history out of the home folder. Collect sockets here, so
    that no other test is blamed for them."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    yield
    gc.collect()


@asynccontextmanager
async def notebook(folder: Path) -> AsyncIterator[NotebookClient]:
    """Start a kernel of this Python, for cells that are run one after the other."""
    manager = AsyncKernelManager(transport="ipc", ip=str(folder / "kernel"))
    client = NotebookClient(
        nbformat.v4.new_notebook(), km=manager, timeout=90, resources={"metadata": {"path": str(folder)}}
    )
    async with client.async_setup_kernel():
        yield client


async def run_cell(client: NotebookClient, source: str, *, allow_errors: bool = False) -> list[Any]:
    """Run one cell and return its outputs."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    client.allow_errors = allow_errors
    await client.async_execute_cell(cell, len(client.nb.cells) - 1)
    return list(cell.outputs)


def html_of(outputs: list[Any]) -> str:
    return "\n".join(one.data.get("text/html", "") for one in outputs if "data" in one)


def text_of(outputs: list[Any]) -> str:
    return "\n".join(
        one.get("text") or one.get("evalue") or one.get("data", {}).get("text/plain", "") for one in outputs
    )


async def test_the_example_notebook_runs(tmp_path: Path) -> None:
    example = nbformat.read(EXAMPLE, as_version=4)
    async with notebook(tmp_path) as client:
        shown = [await run_cell(client, cell.source) for cell in example.cells if cell.cell_type == "code"]
    line, variable, cell, text, table, awaited, printed = shown[2:]
    assert "customer 42 failed" in html_of(line)
    assert "server.log:2" in html_of(line)
    assert "of the input read" in html_of(line)
    assert "server.log:2" in text_of(variable)
    assert "customer 42 failed" in html_of(cell)
    assert "six weeks" in html_of(text)
    assert "DataFrame, row 2" in html_of(table)
    assert "customer 42 failed" in html_of(awaited)
    assert "**Sources**" in text_of(printed)


async def test_the_cell_shows_progress_and_the_text_is_never_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> & <img src=x onerror=alert(2)>"
    (tmp_path / "<b>evil.txt").write_text(f"Pay to {evil} the fee of nine euros.\n")
    async with notebook(tmp_path) as client:
        await run_cell(client, "%load_ext rlm.notebook")
        outputs = await run_cell(client, '%rlm "What is the fee <i>?" "<b>evil.txt" -m extractive -o kept')
        assert text_of(await run_cell(client, "kept is _")) == "True"
        html = html_of(outputs)
        # The progress, folded, then the result.
        assert "<b>rlm</b> done" in html
        assert "nine euros" in html
        for live in ("<script", "<img", "<b>evil", "<i>?"):
            assert live not in html
        # A line, no traceback.
        wrong = await run_cell(client, "%rlm What missing.txt", allow_errors=True)
        assert "missing.txt does not exist" in text_of(wrong)
        assert "Traceback" not in text_of(wrong)


async def test_an_interrupt_cancels_the_run_and_the_kernel_lives_on(tmp_path: Path) -> None:
    with ProviderServer() as server:
        server.always = Answer("late", delay=60.0)
        async with notebook(tmp_path) as client:
            await run_cell(client, "%load_ext rlm")
            await run_cell(client, "text = 'The code is K-7. ' * 20")
            line = f"%rlm 'What is the code?' text -m openai:slow@{server.url}/v1"
            asking = asyncio.ensure_future(run_cell(client, line, allow_errors=True))
            async with asyncio.timeout(60):
                while not server.requests:
                    await asyncio.sleep(0.1)
            await client.km.interrupt_kernel()
            async with asyncio.timeout(30):
                outputs = await asking
            assert "interrupted" in text_of(outputs)
            assert ".resume('" in text_of(outputs)
            left = "import threading; [one.name for one in threading.enumerate() if one.name == 'rlm'], 6 * 7"
            assert text_of(await run_cell(client, left)) == "([], 42)"


def test_a_plain_shell_has_the_magic_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The code word is Zebra-99.\n")
    script = "%load_ext rlm\n%rlm 'What is the code word?' a.txt -m extractive\n"
    (tmp_path / "a.ipy").write_text(
        script + "_r = get_ipython().run_line_magic('rlm', \"'Code word?' a.txt -m extractive\")\nprint(_r)"
    )
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "a.ipy"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert "Zebra-99" in done.stdout, done.stderr
    assert "run 20" in done.stderr


def test_in_a_terminal_a_result_is_its_text_and_help_is_a_word() -> None:
    """IPython prints text/plain: no representation that is cut, with `\\n` in it."""
    shell = InteractiveShell()
    answer = f"The code word is Zebra-99.\n\x1b[31m{'x ' * 200}end."
    long = RunResult("r", answer, None, "finalized", False, "rlm", (), Coverage(9), (), 1, 0, 1.0)
    plain = DisplayFormatter(parent=shell).format(long)[0]["text/plain"]
    assert plain.startswith("The code word is Zebra-99.\n")
    assert plain.endswith("end.")
    assert "\x1b" not in plain
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert RLMMagics(shell).rlm("--help") is None
    assert "--max-cost" in shown.getvalue()


def test_importing_rlm_imports_no_ipython() -> None:
    code = "import sys, rlm\nrlm.RLM\nassert 'IPython' not in sys.modules\nrlm.load_ipython_extension"
    subprocess.run([sys.executable, "-c", code], check=True)
