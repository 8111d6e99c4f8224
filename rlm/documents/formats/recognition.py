"""Recognizes the words of scanned PDF pages and of pictures (OCR), with RapidOCR's models.

The models are loaded, and PDFium and each codec tried, before the process is confined. All computing is done
on one thread, because a reader may start none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import atan2, cos, sin
from statistics import median
from typing import Any, BinaryIO, NamedTuple

import pypdfium2

from rlm.documents.formats import pdf, picture
from rlm.documents.formats.piece import Ended, Fault, Page, Piece, Problem, Text

__all__ = ["prepare", "recognize_pdf", "recognize_picture"]

_SCALE = 200 / 72
"""Pixels of a PDF point: scans are read well at 200 dots per inch."""
_MAX_SIDE = 2_600
"""Pixels of the longer side of what is read."""
_ENGINE: list[Any] = []


def prepare() -> None:
    """Load the models and everything else that reading needs: later nothing can be opened."""
    # OpenBLAS starts its threads when NumPy is imported, and a fork has none of them.
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    pdf.prepare()
    picture.prepare("pdf")
    import cv2
    import numpy
    from PIL import Image, ImageDraw
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    one = {
        f"EngineConfig.onnxruntime.{threads}": 1
        for threads in ("intra_op_num_threads", "inter_op_num_threads")
    }
    _ENGINE[:] = [RapidOCR(params={**one, "Global.log_level": "critical"})]
    sample = Image.new("RGB", (300, 80), "white")
    ImageDraw.Draw(sample).text((20, 20), "The words of a page", fill="black")
    _words(numpy.asarray(sample))


def recognize_pdf(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each page: its text, or, if it holds none, the words that its picture shows. A remark counts
    the pages whose words were recognized."""
    document = pdf.open_pdf(file)
    recognized: list[int] = []
    broken = empty = 0
    for number in range(len(document)):
        try:
            text, added = pdf.text_of(document, number)
            if not text:
                text = _words(_array(picture.draw_page(document[number], _MAX_SIDE, _SCALE).to_pil()))
                recognized += [number + 1] if text else []
                empty += not text
            text = "\n\n".join(filter(None, (text, added)))
        except (pypdfium2.PdfiumError, Fault):
            broken += 1
            text = ""
        yield Page()
        yield Text(f"{text}\n\n" if text else "\n")
    yield from _notes(recognized, "page")
    yield from pdf.broken_pages(broken, len(document))
    if empty:
        what = f"no words were recognized on {empty:,} of {len(document):,} pages"
        yield Problem(what, "look whether they hold any")
    yield Ended()


def recognize_picture(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a page for each frame with the words that it shows. Raises Fault for a picture without
    words."""
    opened = picture.open_picture(file)
    recognized: list[int] = []
    frames = picture.frames_of(opened)
    held: list[Piece] = []
    for number in range(frames):
        text = _words(_array(picture.frame_of(opened, number + 1, _MAX_SIDE)))
        held += [Page(), Text(f"{text}\n\n" if text else "\n")]
        if text:
            recognized.append(number + 1)
        if recognized:
            yield from held
            held.clear()
    if not recognized:
        raise Fault("bare", "no words were recognized", "look at it yourself")
    yield from held
    yield from _notes(recognized, "frame")
    yield Ended()


def _notes(recognized: list[int], what: str) -> Iterator[Problem]:
    if count := len(recognized):
        pages = f"{count:,} {what}{'s' * (count > 1)}"
        yield Problem(
            f"the words of {pages} were recognized in a picture (OCR) and may be wrong",
            "check what matters in the file itself",
            "remark",
        )


def _array(image: Any) -> Any:
    """Return the pixels as the models want them: blue, green, red."""
    import numpy

    return numpy.asarray(image.convert("RGB"))[:, :, ::-1].copy()


def _words(pixels: Any) -> str:
    """Return the lines of a picture (blue, green, red), from top to bottom."""
    found = _ENGINE[0](pixels)
    if not found.txts:
        return ""
    texts = [" ".join(text.split()) for text in found.txts]
    return "\n".join(_lines([[(float(x), float(y)) for x, y in box] for box in found.boxes], texts))


def _lines(boxes: list[list[tuple[float, float]]], texts: list[str]) -> Iterator[str]:
    """Yield the text of each line: boxes side by side belong to one. A box is its corners, from the top left
    one clockwise. A page that was scanned at an angle is turned first."""
    angle = median(atan2(two[1] - one[1], two[0] - one[0]) for one, two, *_ in boxes)
    placed = []
    for corners, text in zip(boxes, texts, strict=True):
        across = [x * cos(angle) + y * sin(angle) for x, y in corners]
        down = [y * cos(angle) - x * sin(angle) for x, y in corners]
        placed.append(_Placed(min(down), max(down), min(across), max(across), text))
    line: list[_Placed] = []
    for box in sorted(placed, key=lambda one: one.middle):
        if line and not all(box.stands_beside(other) for other in line):
            yield "  ".join(one.text for one in sorted(line, key=lambda one: one.left))
            line = []
        line.append(box)
    yield "  ".join(one.text for one in sorted(line, key=lambda one: one.left))


class _Placed(NamedTuple):
    """A recognized text and its place, in pixels."""

    top: float
    bottom: float
    left: float
    right: float
    text: str

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    def stands_beside(self, other: _Placed) -> bool:
        """Return whether both belong to one line: at the same height, and next to each other."""
        apart = self.left >= other.right - self.height or other.left >= self.right - self.height
        return apart and other.top < self.middle < other.bottom

    @property
    def height(self) -> float:
        return self.bottom - self.top
