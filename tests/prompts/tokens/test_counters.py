"""Test token counters by name."""

from __future__ import annotations

import base64
import json
import random
import string
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts.errors import UnknownCounter
from rlm.prompts.tokens.counters import counter_names, get_counter

SAMPLES = json.loads(Path(__file__).with_name("token_samples.json").read_text(encoding="utf-8"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # raised by its own file access
    import bpe_openai

OPENAI = bpe_openai.get_encoding("o200k_base")
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def o200k(text: str) -> int:
    """Count with OpenAI's own vocabulary. It is in the wheel of `bpe-openai`."""
    return len(OPENAI.encode_ordinary(text))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_estimate_is_never_under_o200k_and_at_most_twice_it(sample: dict[str, object]) -> None:
    """On prose, code, JSON, logs, UUIDs, CJK, Cyrillic, Arabic, base64 and emoji. The true counts were taken
    once with o200k's own tokenizer."""
    ratio = get_counter("estimate").count(str(sample["text"])) / int(str(sample["o200k"]))
    assert ratio >= 1.0
    if sample["common"]:
        assert ratio <= 2.0


def test_a_quarter_of_the_characters_would_undercount_what_an_rlm_reads() -> None:
    """chars/4 is too low for JSON, logs, CJK and base64, so it is not the default."""
    quarter = get_counter("chars4_ceil")
    under = {sample["name"] for sample in SAMPLES if quarter.count(sample["text"]) < sample["o200k"]}
    assert {"json", "logs", "uuids", "base64", "chinese", "emoji"} <= under


def test_estimate_counts_five_megabytes_a_second() -> None:
    """On prose, the slowest common class."""
    prose = next(sample["text"] for sample in SAMPLES if sample["name"] == "prose")
    text = (prose + "\n") * (2_000_000 // len(prose))
    counter = get_counter("estimate")
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        counter.count(text)
        best = min(best, time.perf_counter() - begun)
    assert len(text) / best > 5_000_000


@given(ANY_TEXT)
def test_every_counter_takes_any_string(text: str) -> None:
    """With lone surrogates and U+0000."""
    for name in counter_names():
        assert get_counter(name).count(text) >= 0
    assert (get_counter("estimate").count(text) == 0) == (text == "")
    assert get_counter("chars").count(text) == len(text)


@given(
    st.lists(
        ANY_TEXT | st.text("aeXYZ019 .-\n\0", max_size=80) | st.just("the end of the road and OF IT"),
        max_size=12,
    )
)
def test_counting_many_texts_at_once_is_counting_each(texts: list[str]) -> None:
    """The fast path for thousands of items gives the same counts."""
    for name in counter_names():
        counter = get_counter(name)
        assert counter.count_each(texts) == [counter.count(text) for text in texts]


@given(ANY_TEXT, ANY_TEXT)
def test_texts_joined_by_a_blank_line_take_no_more_than_apart(first: str, second: str) -> None:
    """No sequence of kinds spans a line break, so reserving parts agrees with measuring the whole."""
    count = get_counter("estimate").count
    assert count(f"{first}\n\n{second}") <= count(first) + count("\n\n") + count(second)


def test_the_counters_of_characters_and_bytes() -> None:
    """Code points, ceil(chars / 4) and floor(bytes / 4)."""
    text = "naïve 中文 😀!"  # 11 characters, 19 bytes
    assert len(text) == 11
    assert len(text.encode()) == 19
    assert get_counter("chars").count(text) == 11
    assert get_counter("chars4_ceil").count(text) == 3
    assert get_counter("bytes4_floor").count(text) == 4
    assert [get_counter(name).count("") for name in counter_names()] == [0] * len(counter_names())


def test_a_large_text_is_counted_in_windows_without_losing_tokens() -> None:
    """A window border may add a token but never removes one."""
    count = get_counter("estimate").count
    line = "status=ok id=4711 The quick brown fox\n"
    many = (2 << 20) // len(line) + 1
    whole = count(line * many)
    assert abs(whole - many * count(line * 1000) / 1000) < whole * 0.001


ROOT = Path(__file__).parents[3]
OUR_FILES = [*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), ROOT / "LICENSE", *ROOT.glob("prompts/*.py")]


def test_estimate_holds_on_every_window_of_our_own_files() -> None:
    """Licence, Markdown and code, in windows of 2,000 characters: never too low, at most double."""
    estimate = get_counter("estimate")
    for file in OUR_FILES:
        text = file.read_text(encoding="utf-8")
        for at in range(0, len(text), 1_000):
            window = text[at : at + 2_000]
            true = o200k(window)
            if true >= 100:
                assert 1.0 <= estimate.count(window) / true <= 2.0, (file.name, at)


RANDOM: dict[str, Callable[[random.Random, int], str]] = {
    "base64": lambda dice, size: base64.b64encode(dice.randbytes(size)).decode(),
    "hex": lambda dice, size: dice.randbytes(size).hex(),
    "capitals": lambda dice, size: "".join(dice.choices(string.ascii_uppercase, k=size)),
    "uuid": lambda dice, size: "\n".join(str(uuid.UUID(bytes=dice.randbytes(16))) for _ in range(size // 16)),
    "base32": lambda dice, size: base64.b32encode(dice.randbytes(size)).decode(),
    "digits": lambda dice, size: str(int.from_bytes(dice.randbytes(min(size, 800)), "big")),
}


# The seed is drawn, not the letters: a text that is chosen to be the worst is not a random one.
@given(st.integers(0, 2**64), st.integers(300, 1_500), st.sampled_from(sorted(RANDOM)))
@settings(max_examples=60)
def test_estimate_is_never_under_on_random_strings(seed: int, size: int, kind: str) -> None:
    """Strings of a few lines to a page, without words of any vocabulary. The tolerance is 5 per cent."""
    text = RANDOM[kind](random.Random(seed), size)
    assert get_counter("estimate").count(text) >= 0.95 * o200k(text)


def test_an_unknown_counter_names_those_there_are() -> None:
    with pytest.raises(UnknownCounter, match=r"'tiktoken'.*estimate, chars, chars4_ceil, bytes4_floor$"):
        get_counter("tiktoken")
