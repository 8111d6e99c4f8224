"""Test that counting a plain text without its matches agrees with `re`, in any case and any script."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.in_kernel.searching.byte_rates import ByteRates
from rlm.sandbox.in_kernel.searching.case_folding import CaseFolder
from rlm.sandbox.in_kernel.searching.literal import Literal, LiteralScan, literal_of
from rlm.sandbox.in_kernel.searching.literal_count import LiteralCount
from rlm.sandbox.in_kernel.searching.scanner import ENGINE

# Letters that are one in `re` and several elsewhere, or the other way round; letters whose bytes differ from
# others in one only; marks, and characters that share bytes with them.
HARD = "iIİıkK\u212asSſßẞåÅ\u212bµμΜσςΣдДоОрРеЕёЁЀЂѠѐᲀᲁᲂᲃвВñÑé\u0301ΐΐǅǆǄ世界🙂Ĳĳ аА"
LITERALS = st.text(HARD, min_size=1, max_size=6)
TEXTS = st.lists(st.text(HARD + "\n", max_size=30), max_size=12).map("".join)
FLAGS = st.sampled_from([0, re.IGNORECASE, re.IGNORECASE | re.ASCII])


def literal_from(literal: str, flags: int) -> Literal:
    made = literal_of([ord(char) for char in literal], flags, ascii_body=False)
    assert made is not None
    return made


@given(LITERALS, TEXTS, FLAGS)
@example("договор", "ДОГОВОР договор Договор дᲂговор", re.IGNORECASE)
@example("рек", "Рек РЕК рЕК ѐек Ѐек Ѡек", re.IGNORECASE)
@example("kiß", "KIẞ \u212aiß kİß kıß", re.IGNORECASE)
@example("é", "É e\u0301 Ꭹ ꭰ", re.IGNORECASE)
@example("é丩", "É丩 É三 é三", re.IGNORECASE)
@example("ѵе", "ѕе ѕЕ ѴЕ", re.IGNORECASE)
@settings(max_examples=120)
def test_one_case_counts_as_re_does(literal: str, text: str, flags: int) -> None:
    text = f"{text}{literal}\n{literal.upper()}{literal.lower()} {literal.swapcase()}\n"
    made = literal_from(literal, flags)
    data = text.encode()
    case = CaseFolder(made.spellings, data)
    if not made.overlaps_itself():
        assert case.count(data) == len(re.findall(re.escape(literal), text, flags))
    assert case.write(data).count(b"\n") == data.count(b"\n")


@pytest.mark.parametrize("sparse", [False, True])
@given(LITERALS, TEXTS, FLAGS, st.integers(0, 3))
@example("аА", "аА" * 500, 0, 3)
@settings(max_examples=40)
def test_stretches_without_the_text_are_skipped_without_a_loss(
    monkeypatch_module, sparse: bool, literal: str, text: str, flags: int, far: int
) -> None:
    """This holds for any distance between matches, and for any end of a piece of the body."""
    made = literal_from(literal, flags)
    if made.overlaps_itself():
        return
    text = (text + "plain words\n" * (40 * far)) * 3 + literal
    with body_of(text) as body:
        counting = LiteralCount(made.spellings, body, ByteRates(body))
        counting._sparse = sparse
        assert counting.count() == len(re.findall(re.escape(literal), text, flags))


@given(LITERALS, TEXTS)
@settings(max_examples=40)
def test_the_c_librarys_places_are_those_of_re(monkeypatch_module, literal: str, text: str) -> None:
    """Several matches come at once, in windows of any size."""
    text = (text + literal) * 5
    with body_of(text) as body:
        for window in (1, 5, 64, 1 << 20):
            scan = LiteralScan(literal_from(literal, 0), body, ByteRates(body), ENGINE, window)
            found = [body.raw[start:end].decode() for start, end in scan._exact()]
            assert found == re.findall(re.escape(literal), text), window


@pytest.fixture(scope="module")
def monkeypatch_module():
    """Make pieces so small that a short text has several."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_SHORT", 40), ("_LONG", 64), ("_NARROW", 4)):
            patch.setattr(f"rlm.sandbox.in_kernel.searching.literal_count.{name}", value)
        patch.setattr("rlm.sandbox.in_kernel.searching.literal._MAX_PLACES", 3)
        yield


class body_of:  # noqa: N801
    """Return a body in memory that was never a file."""

    def __init__(self, text: str) -> None:
        self.raw = self.buffer = text.encode()
        self.bytes = len(self.raw)

    def __enter__(self) -> Body:
        return self  # type: ignore[return-value]

    def __exit__(self, *_: object) -> None:
        pass

    def passed(self, size: int) -> None:
        assert size >= 0
