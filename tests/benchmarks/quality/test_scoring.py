"""Test rules and intervals."""

from __future__ import annotations

import pytest

from benchmarks.quality.intervals import interval_of, paired, wilson
from benchmarks.quality.scoring import score

DENIED = "Not in the documents: no passage holds enough of this question's words. The closest passages:\n\n"


@pytest.mark.parametrize(
    ("rule", "answer", "golds", "expected"),
    [
        ("number", "13", ["13"], 1.0),
        ("number", "There are **13** orders. [¹]", ["13"], 1.0),
        ("number", "Answer: 1,234.50", ["1234.5"], 1.0),
        (
            "number",
            "Of 40 orders, 13 are open.",
            ["13"],
            0.0,
        ),  # two numbers: it is not clear which one is meant
        ("number", "Of 40 orders, 13 are open.\nAnswer: 13", ["13"], 1.0),
        ("number", "thirteen", ["13"], 0.0),
        ("number", "", ["0"], 0.0),
        ("number", "-5", ["5"], 0.0),
        ("near", "12", ["13"], 0.75),
        ("near", "11", ["13"], 0.5625),
        ("near", "13", ["13"], 1.0),
        ("exact", "Mara.", ["mara"], 1.0),
        ("exact", "I looked it up.\nMara", ["Mara"], 1.0),
        ("exact", "Mara or Jonas", ["Mara"], 0.0),
        ("contains", "It is 123 and 456.", ["123", "456", "789"], 2 / 3),
        ("contains", "1234", ["123"], 0.0),
        ("letter", "C", ["C"], 1.0),
        ("letter", "(b) because", ["B"], 1.0),
        ("letter", "The answer is: D", ["D"], 1.0),
        ("letter", "It is A or B", ["A"], 0.0),
        ("f1", "the old mill", ["old mill"], 0.8),
        ("set", "(2, 1)\n(3, 4)", ["(1, 2)", "(3, 4)"], 1.0),
        ("set", "(1, 2)", ["(1, 2)", "(3, 4)"], 2 / 3),
        ("set", "4829173, 1111111", ["4829173", "2222222"], 0.5),
        ("set", "0, 0", ["(0, 0)"], 1.0),
        ("number", f"{DENIED} The access code of the blue archive is 7250375. [¹]", ["7250375"], 0.0),
        ("contains", f"{DENIED} The access code of the blue archive is 7250375. [¹]", ["7250375"], 0.0),
        ("set", "Not found. The closest line: code 7250375", ["7250375"], 0.0),
        ("number", "No passage with these words; the nearest:\n\nIt is 13. [¹]", ["13"], 0.0),
        ("contains", "The text does not hold the answer: it was cut. In the part shown, 13.", ["13"], 0.0),
        ("exact", "Not in the documents", ["Not in the documents"], 1.0),
        ("contains", "The note that was not found earlier is 13.", ["13"], 1.0),
        ("share", "Shield, Fire Bolt, Wish", ["Fire Bolt", "Shield"], 1.0),
        ("share", "- Shield\n- Wish", ["Fire Bolt", "Shield"], 0.5),
    ],
)
def test_rules(rule, answer, golds, expected) -> None:
    assert score(rule, answer, golds) == pytest.approx(expected)


def test_intervals() -> None:
    """Wilson's for right and wrong; a bootstrap over items for parts and repetitions."""
    low, high = wilson(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 5)[0] == 0.0
    right = interval_of({str(number): [float(number < 8)] for number in range(10)})
    assert (right.method, right.mean, right.low) == ("Wilson", 0.8, low)
    parts = {str(number): [number / 10] for number in range(10)}
    found = interval_of(parts)
    assert found == interval_of(dict(reversed(parts.items())))
    assert found.method == "bootstrap"
    assert found.low < found.mean < found.high
    again = interval_of({str(number): [float(number < 8)] * 3 for number in range(10)})
    assert (again.method, again.count) == ("bootstrap", 10)
    assert interval_of({}) is None


def test_paired_differences() -> None:
    """Only items of both arms count."""
    one = {str(number): [1.0] for number in range(12)}
    other = {str(number): [float(number % 3 == 0)] for number in range(2, 14)}
    found = paired(one, other)
    assert (found.better, found.equal, found.worse) == (7, 3, 0)
    assert found.mean == pytest.approx(0.7)
    assert 0 < found.low <= found.mean <= found.high
    assert found.p == pytest.approx(2 / 2**7)
    same = paired(one, one)
    assert (same.mean, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    assert paired(one, {"x": [1.0]}) is None
