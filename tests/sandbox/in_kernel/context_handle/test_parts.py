"""Test where one text holds several printed works, on texts of the shapes that real files have."""

from __future__ import annotations

import random

import pytest

WORDS = (
    "the board",
    "of the company",
    "met in spring",
    "and agreed",
    "on the plan",
    "for the year",
    "with all",
)


def prose(seed: int, chars: int = 1_800) -> str:
    """Return lines of about 70 characters."""
    chance = random.Random(seed)
    lines = []
    while sum(map(len, lines)) < chars:
        lines.append(" ".join(chance.choices(WORDS, k=5)).capitalize() + ".")
    return "\n".join(lines)


def report(year: int, pages: int, *, head: str) -> str:
    """Return a report with a title page. `head` is the line with the number of a page."""
    title = f"NORTHWIND TRADING PLC\nAnnual Report {year}\n\n"
    body = "\n".join(
        f"{prose(year + page)}\n{head.format(page=page, year=year)}" for page in range(2, pages + 1)
    )
    return title + body + "\n"


@pytest.mark.parametrize(
    "head",
    [
        "{page}",
        "Annual Report {year}    {page}",
        "- {page} -",
        "{page}   Northwind Trading",
        "Page {page} of 40",
    ],
)
def test_two_reports_in_one_text_are_two_parts(make_handle, head: str) -> None:
    """A part begins with the title page, and can be searched alone."""
    first, second = report(2023, 12, head=head), report(2024, 30, head=head)
    handle = make_handle(("both.txt", "text", first + second), ("other.txt", "text", "more"))
    both, other = handle.documents()
    assert "parts" not in other
    assert [(part.index, part.title) for part in both.parts] == [
        (0, "NORTHWIND TRADING PLC"),
        (1, "NORTHWIND TRADING PLC"),
    ]
    assert [(part.start, part.end) for part in both.parts] == [
        (0, len(first)),
        (len(first), len(first + second)),
    ]
    assert handle.count("Annual Report 2024\n", within=both.parts[1]) == 1
    assert handle.count("Annual Report 2024\n", within=both.parts[0]) == 0


def test_numbers_of_tables_and_axes_do_not_disturb(make_handle) -> None:
    """Papers hold lines of stray numbers."""
    noise = "\n".join(map(str, (0, 1, 1, 2, 20, 45, 60, 5, 10, 3)))
    text = "".join(
        f"{prose(page)}\n{noise}\n{page}\n{prose(page + 50, 300)}\n"
        if page % 3
        else f"{prose(page)}\n{page}\n"
        for page in [*range(1, 40), *range(1, 25)]
    )
    (document,) = make_handle(text).documents()
    assert len(document.parts) == 2
    assert text[document.parts[1].start - 4 : document.parts[1].start].strip() in ("39", "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(report(2023, 40, head="{page}"), id="one report"),
        pytest.param(
            "\n".join(f"{number}\n{prose(number, 25_000)}" for number in [*range(1, 9)] * 2), id="chapters"
        ),
        pytest.param("\n".join(map(str, [*range(1, 60)] * 5)), id="lists of numbers"),
        pytest.param("\n".join(f"{n}. item {n}" for n in [*range(1, 30)] * 20), id="numbered lists"),
        pytest.param("\n".join(f"{n}  {prose(n, 60)}" for n in [*range(1, 200)] * 2), id="numbered verses"),
        pytest.param("\n".join(f"{n},a,b,{n % 7}" for n in range(9_000)), id="a table"),
        pytest.param(
            "\n".join(f"[{n}] GINA: {prose(n, 90)} {n % 12}" for n in range(2_000)), id="a transcript"
        ),
        pytest.param("".join(f"{prose(n)}\n{n}\n" for n in (1, 2, 3, 1, 2, 3, 1, 2)), id="too few pages"),
        pytest.param("\n\n".join(f"{prose(n)}\n2024" for n in range(30)), id="a year"),
    ],
)
def test_other_texts_have_no_parts(make_handle, text: str) -> None:
    assert "parts" not in make_handle(text).documents()[0]


def test_a_large_input_is_not_looked_at(make_handle) -> None:
    """Listing the documents of a large input stays instant."""
    text = report(2023, 2_400, head="{page}") + report(2024, 40, head="{page}")
    assert len(text) > 4_000_000
    assert "parts" not in make_handle(text).documents()[0]
