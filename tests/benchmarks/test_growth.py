"""Tests of benchmarks/scale: the fit, the pictures, the table, and a run of small sizes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.scale.fit import fit
from benchmarks.scale.plot import log_log
from benchmarks.scale.series import MEASURES
from benchmarks.scale.table import growth_pictures, growth_table

ROOT = Path(__file__).parents[2]


def test_an_exact_power_is_found_with_an_interval_of_nothing() -> None:
    found = fit([(10.0**power, 3 * 10.0 ** (1.5 * power)) for power in range(6)])
    assert found is not None
    assert math.isclose(found.exponent, 1.5)
    assert math.isclose(found.factor, 3)
    assert found.high - found.low < 1e-6


def test_the_interval_holds_the_exponent_of_noisy_points() -> None:
    noise = [1.1, 0.9, 1.05, 0.97, 1.02, 0.94]
    found = fit([(10.0**power, 10.0**power * noise[power]) for power in range(6)])
    assert found is not None
    assert found.low < 1 < found.high
    assert found.high - found.low < 0.2


def test_a_constant_has_the_exponent_zero() -> None:
    found = fit([(10.0, 7.0), (100.0, 7.0), (1000.0, 7.0)])
    assert found is not None
    assert (found.exponent, found.low, found.high) == (0, 0, 0)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0), (10.0, 3.0)], [(1.0, 0.0), (10.0, 1.0), (100.0, 2.0)]])
def test_fewer_than_three_points_have_no_fit(points: list[tuple[float, float]]) -> None:
    assert fit(points) is None


def test_a_picture_is_xml_and_holds_each_point() -> None:
    points = [(10.0**power, 2 * 10.0**power) for power in range(4)]
    picture = ElementTree.fromstring(log_log("A & B", "x < y", "seconds", points))
    circles = [element for element in picture.iter() if element.tag.endswith("circle")]
    assert len(circles) == 4
    heights = [float(circle.attrib["cy"]) for circle in circles]
    assert heights == sorted(heights, reverse=True)
    assert "exponent 1.00 (1.00 to 1.00)" in "".join(picture.itertext())


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no point"):
        log_log("A", "x", "y", [(10.0, 0.0)])


def _facts(**exponents: float) -> dict[str, object]:
    points = {
        str(10**power): {name: 5 * 10 ** (power * exponents.get(name, 0)) for name in MEASURES}
        for power in range(1, 5)
    }
    machine = {"cores": 2, "python": "3.11.7", "date": "2026-01-01"}
    one = {"name": "batch", "points": points, "failure": ""}
    return {"repeat": 3, "machine": machine, "series": [one]}


def test_the_table_tells_what_grows_more_than_expected() -> None:
    table = growth_table(_facts(calls=1, cost=1, seconds=1.4))
    (expected,) = [line for line in table.splitlines() if line.startswith("| expected")]
    assert expected == "| expected | ≤ 0: held | ≤ 1: held | ≤ 1: held | ≤ 0: held | ≤ 1: **more** |"
    assert "1.40 (1.40 to 1.40)" in table


def test_each_measure_of_a_series_has_a_picture() -> None:
    assert set(growth_pictures(_facts())) == {
        "batch-root-tokens.svg",
        "batch-calls.svg",
        "batch-cost.svg",
        "batch-megabytes.svg",
        "batch-seconds.svg",
    }


def test_a_real_run_of_small_sizes(tmp_path: Path) -> None:
    """The root's tokens stay, and the children follow the batch."""
    file = tmp_path / "growth.json"
    command = [sys.executable, "-m", "benchmarks.scale", "--series", "batch", "--to", "10", "--quick"]
    ended = subprocess.run(
        [*command, "--json", file, "--scratch", tmp_path],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ended.returncode == 0, ended.stderr
    (series,) = json.loads(file.read_text("utf-8"))["series"]
    assert not series["failure"]
    assert [point["calls"] for point in series["points"].values()] == [1, 10]
    tokens = [point["root_tokens"] for point in series["points"].values()]
    assert max(tokens) - min(tokens) < 50
    assert all(point["megabytes"] > 1 for point in series["points"].values())
