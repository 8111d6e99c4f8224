"""Run every Python block of README and docs/, as a notebook does: in order, in one namespace for a page, with
`await` at the top. The models that the pages name are played by a server of this machine. A block that cannot
run says why: `<!-- not run: REASON -->` on the line above it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import ROOT, Block, all_pages, blocks_of, scratch

LANGUAGES = ("python", "py")
PAGES = [page for page in all_pages() if any(block.language in LANGUAGES for block in blocks_of(page))]
QUOTES = ("Either side may end it early", "offers the crane", "Ana,bolt,400", "against the bridge")


def _played(received: Any) -> str:
    """Answer a direct call with quotes of the text that it got, typed where a type is asked for. Answer
    a root with a block that finalizes."""
    asked = json.dumps(received.body, ensure_ascii=False)
    quotes = [quote for quote in QUOTES if quote in asked]
    if "```repl" in asked:
        return (
            f"```repl\nfinalize('Played.', evidence=[{quotes[0]!r}])\n```"
            if quotes
            else "```repl\npeek(0, 9)\nfinalize('Played.')\n```"
        )
    if "days" in asked:
        return json.dumps({"answer": {"clause": "7", "days": 90}, "evidence": quotes})
    return "\n".join(["Played.", "Evidence:", *(f'- "{quote}"' for quote in quotes)])


def _code(block: Block) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_python_blocks_of_a_page_run(
    page: Path, tmp_path: Path, sandbox_flag: str, monkeypatch: pytest.MonkeyPatch, provider_server: Any
) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(scratch(folder))
    provider_server.always = _played
    for name, value in {
        "RLM_SANDBOX": sandbox_flag,
        "OPENAI_API_KEY": "sk-test-0123456789",
        "OPENAI_BASE_URL": f"{provider_server.url}/v1",
    }.items():
        monkeypatch.setenv(name, value)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language not in LANGUAGES or block.reason:
            continue
        code = _code(block)
        try:
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(code, names))
            else:
                exec(code, names)
        except Exception as error:
            pytest.fail(f"{block.place}: {error!r}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_python_block_is_python(page: Path) -> None:
    """Also those that cannot run."""
    for block in blocks_of(page):
        if block.language in LANGUAGES:
            _code(block)
