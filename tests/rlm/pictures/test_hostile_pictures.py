"""Test drawing of hostile pages: each is refused in a line, in its own process, within bounds."""

from __future__ import annotations

import os
import signal
import threading
import time
import zlib
from pathlib import Path

import pytest
from handmade_pdf import pdf_by_hand, picture_of, png_that_claims, scanned_pdf

from rlm.documents import load
from rlm.documents.pictures import PageRenderer, PictureLimits, Unrenderable, _parsed
from rlm.errors import DocumentError


@pytest.fixture(scope="module")
def renderer():
    drawing = PageRenderer(PictureLimits(seconds=10))
    yield drawing
    drawing.close()


def refusal(renderer: PageRenderer, path: Path, kind: str, page: int = 1) -> str:
    began = time.monotonic()
    with pytest.raises(Unrenderable) as caught:
        renderer.draw(path, kind, page)
    assert time.monotonic() - began < 60
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_picture_bomb_is_not_decoded(renderer, tmp_path):
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png_that_claims(50_000, 50_000))
    assert bomb.stat().st_size < 50_000
    assert "50,000 × 50,000 pixels, and at most 100,000,000 are decoded" in refusal(renderer, bomb, "image")
    with pytest.raises(DocumentError, match="50,000 × 50,000 pixels"):
        load([bomb], tmp_path / "context", pictures=True)
    assert not (tmp_path / "context").exists()


@pytest.mark.parametrize("sides", [(1, 40_000_000), (90_000, 2)])
def test_a_mere_line_is_not_decoded(renderer, tmp_path, sides):
    (tmp_path / "line.png").write_bytes(png_that_claims(*sides))
    assert "a mere line" in refusal(renderer, tmp_path / "line.png", "image")


@pytest.mark.parametrize("kept", [20, 100, 1_000])
def test_a_cut_picture_is_refused(renderer, tmp_path, kept):
    whole = tmp_path / "whole.png"
    picture_of("some words").save(whole)
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:kept])
    assert refusal(renderer, tmp_path / "cut.png", "image")


def test_only_the_known_formats_are_opened(renderer, tmp_path):
    """Pillow reads dozens of formats, some of which call other programs."""
    picture_of("x", size=(300, 300)).save(tmp_path / "x.bmp")
    (tmp_path / "x.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n")
    for name in ("x.bmp", "x.eps"):
        assert "damaged" in refusal(renderer, tmp_path / name, "image")


@pytest.mark.parametrize("box", ["0 0 9000000 9000000", "0 0 10 14000", "0 0 1e30 1e30", "0 0 612 0.001"])
def test_a_page_with_a_huge_box_is_refused_or_small(renderer, tmp_path, box):
    pdf_by_hand(tmp_path / "box.pdf", ["Some words"])
    data = (tmp_path / "box.pdf").read_bytes().replace(b"[0 0 612 792]", f"[{box}]".encode())
    (tmp_path / "box.pdf").write_bytes(data)
    said = ""
    try:
        drawn = renderer.draw(tmp_path / "box.pdf", "pdf", 1)
        assert max(drawn.width, drawn.height) <= 1_569
    except Unrenderable as refused:
        said = str(refused)
    assert not said or "points" in said


def test_a_page_that_draws_for_ever_is_killed(tmp_path):
    """Its content paints the page a million times, and is a small file."""
    content = zlib.compress(b"0 0 600 700 re f\n" * 10_000_000, 9)
    pdf_by_hand(tmp_path / "slow.pdf", ["Some words"])
    data = (tmp_path / "slow.pdf").read_bytes()
    start, end = data.index(b"<< /Length"), data.index(b"endstream")
    head = b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(content)
    (tmp_path / "slow.pdf").write_bytes(data[:start] + head + content + b"\n" + data[end:])
    assert (tmp_path / "slow.pdf").stat().st_size < 2_000_000
    drawing = PageRenderer(PictureLimits(seconds=2))
    try:
        said = refusal(drawing, tmp_path / "slow.pdf", "pdf")
    finally:
        drawing.close()
    assert any(word in said for word in ("too complex", "crashed", "memory", "damaged"))


def test_a_killed_worker_is_an_error_and_the_next_page_is_drawn(tmp_path):
    scan = scanned_pdf(tmp_path / "scan.pdf", ["Some words"])
    drawing = PageRenderer()
    try:
        assert drawing.draw(scan, "pdf", 1).media_type == "image/png"
        pid = drawing.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        try:
            drawn = drawing.draw(scan, "pdf", 1)
        except Unrenderable:
            drawn = drawing.draw(scan, "pdf", 1)
        assert drawn.width < drawn.height <= 1_569
    finally:
        drawing.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b"not json",
        b'{"media_type": "image/svg+xml", "width": 1, "height": 1}\n<svg/>',
        b'{"media_type": "image/png", "width": 1, "height": 1}\n<svg/>',
        b'{"media_type": "image/png", "width": 99999, "height": 1}\n\x89PNG\r\n\x1a\n',
        b'{"media_type": "image/png", "width": true, "height": 1}\n\x89PNG\r\n\x1a\n',
    ],
)
def test_what_a_process_that_was_taken_over_sends_is_checked(answer):
    with pytest.raises(Unrenderable, match="crashed its reader"):
        _parsed(answer, PictureLimits())


def test_formats_and_modes_are_drawn(renderer, tmp_path):
    """Transparency is drawn on white, 16 bits are spread, a TIFF has its pages, a film its first frame."""
    from PIL import Image

    clear = Image.new("RGBA", (300, 200), (0, 0, 0, 0))
    deep = Image.new("I;16", (300, 200), 40_000)
    made = {"clear.png": clear, "deep.png": deep, "one.webp": clear.convert("RGB"), "one.gif": clear}
    for name, picture in made.items():
        picture.save(tmp_path / name)
    clear.convert("RGB").save(tmp_path / "two.tif", save_all=True, append_images=[clear.convert("RGB")])
    for name in made:
        assert renderer.draw(tmp_path / name, "image", 1)[2:] == (300, 200), name
    assert renderer.draw(tmp_path / "two.tif", "image", 2)[2:] == (300, 200)
    assert "damaged" in refusal(renderer, tmp_path / "two.tif", "image", 3)
    loaded = load([tmp_path / "two.tif", tmp_path / "one.gif"], tmp_path / "context", pictures=True)
    assert [(one.kind, one.pages) for one in loaded.context.documents] == [("image", 2), ("image", 1)]


def test_several_pages_are_drawn_at_a_time(renderer, tmp_path):
    scan = scanned_pdf(tmp_path / "scan.pdf", *(["Some words"] for _ in range(4)))
    drawn = []
    threads = [
        threading.Thread(target=lambda page=page: drawn.append(renderer.draw(scan, "pdf", page)))
        for page in range(1, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(drawn) == 4


def test_an_error_leaves_no_file(tmp_path):
    """A load that fails after a document was kept removes its file."""
    scan = scanned_pdf(tmp_path / "scan.pdf", ["Some words"])

    def stop(name: str, size: int) -> None:
        if name == "b.txt":
            raise RuntimeError

    (tmp_path / "b.txt").write_text("words\n")
    with pytest.raises(RuntimeError):
        load([scan, tmp_path / "b.txt"], tmp_path / "context", stop, pictures=True)
    assert not (tmp_path / "context").exists()
