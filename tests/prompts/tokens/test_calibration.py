"""Test calibrating the estimate with a provider's counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts.tokens.calibration import ENOUGH, Calibration


def calibration_of(*pairs: tuple[int, int]) -> Calibration:
    calibration = Calibration()
    for estimated, actual in pairs:
        calibration = calibration.observe(estimated, actual)
    return calibration


def test_nothing_is_corrected_before_anything_was_observed() -> None:
    assert Calibration().tokens(1_234) == 1_234


def test_an_estimate_that_was_too_low_is_raised_at_once() -> None:
    assert 3_150 <= calibration_of((1_000, 1_500)).tokens(2_000) <= 3_151  # with a margin


def test_an_estimate_is_lowered_only_after_enough_samples_and_stays_above_the_worst() -> None:
    """The factor stays at 1 until enough samples agree."""
    few = calibration_of(*[(1_000, 600)] * (ENOUGH - 1))
    assert few.factor == 1.0
    assert few.observe(1_000, 700).tokens(10_000) == 7_350


def test_short_prompts_and_providers_that_count_nothing_teach_nothing() -> None:
    assert calibration_of((50, 500), (1_000, 0)) == Calibration()


def test_an_outlier_leaves_the_window_in_time() -> None:
    """Only the last samples count."""
    odd = calibration_of((1_000, 3_000))
    for _ in range(32):
        odd = odd.observe(1_000, 900)
    assert odd.factor < 1.0


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10**7)), max_size=60), st.integers(0, 10**6))
def test_the_factor_stays_within_bounds_and_covers_every_sample_it_remembers(
    pairs: list[tuple[int, int]], estimated: int
) -> None:
    calibration = calibration_of(*pairs)
    assert 0.4 <= calibration.factor <= 4.0
    assert calibration.factor >= max(calibration.ratios, default=0.0)
    assert calibration.tokens(estimated) >= calibration.factor * estimated - 1e-6
