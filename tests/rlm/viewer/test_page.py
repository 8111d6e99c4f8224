"""Test the page as a text: what it may hold, and what an exported one leaves out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import rlm.viewer
from rlm.viewer import PAGE_HEADERS, export_page, page_bytes

FOLDER = Path(rlm.viewer.__file__).parent / "page"
OWN = sorted(FOLDER.glob("*.js"))


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.name)
def test_the_code_makes_no_html_of_texts(file: Path) -> None:
    code = file.read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http:",
        "https:",
    ):
        assert word not in code
    assert not re.search(r"</script|<!--", code, re.IGNORECASE)


def test_the_policy_allows_its_own_code_alone() -> None:
    page = page_bytes().decode()
    inline = re.findall(r"<script>(.*?)</script>|<style>(.*?)</style>", page, re.DOTALL)
    assert len(inline) == 3
    for texts in inline:
        digest = base64.b64encode(hashlib.sha256("".join(texts).encode()).digest()).decode()
        assert f"'sha256-{digest}'" in PAGE_HEADERS["Content-Security-Policy"]
        assert f"'sha256-{digest}'" in page
    assert not re.search(r"\b(?:src|href)=[\"'](?!data:,)", page.partition("<script")[0])


async def test_an_export_is_bounded(views, write_children) -> None:
    """The most important pieces come first. What does not fit is left out."""
    await write_children("r1", 3_000)
    page = (await export_page(views, "r1", most=60_000)).decode()
    assert len(page) < len(page_bytes()) + 62_000
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["start"] == "#/run/r1"
    pieces = data["pieces"]["r1"]
    assert {"overview", "event/2"} <= set(pieces)
    assert "events/0" not in pieces


async def test_a_run_is_exported_with_its_parts(yard_views, yards) -> None:
    page = (await export_page(yard_views, yards.newest)).decode()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert {"overview", "events/0", "event/2", "place/1"} <= set(data["pieces"][yards.newest])
