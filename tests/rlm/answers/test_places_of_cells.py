"""Test quotes, places and merged items as evidence and slices, by cells in a real kernel."""

from __future__ import annotations

import re

import pytest

from rlm.testing import ScriptedModel

LEASE = "# Lease\nThe lease for Mill Road ends in 2031. The rent is 900 euros a month.\n"
OFFICE = "# Office\nThe office in Kiel has room for 40 people. It opened in May.\n"
TEXT = LEASE + "\n" + "filler line about nothing at all\n" * 200 + "\n" + OFFICE

EVIDENCE = {
    "quote('The rent  is 900 euros')": "The rent is 900 euros",
    "[quote('The lease for Mill Road'), quote('room for 40 people')]": "The lease for Mill Road",
    "around(search('900')[0], by='sentence')": "The rent is 900 euros a month.",
    "[search('900')]": LEASE.split("\n")[1],
    "(peek(0, 1), chunk(90)[:1])[1:]": TEXT[:90],
    "around(search('900')[0], by='section')": "# Lease\n",
    "sub_query('q', around(search('Kiel')[0]))": "The office in Kiel has room",
}


@pytest.mark.parametrize("evidence", EVIDENCE)
async def test_every_kind_of_place_is_evidence(run, block, evidence) -> None:
    """A child's answer stands for its quote, however the child spelt it."""
    answer = "It says “The office  in Kiel has room for 40 people.”"
    model = ScriptedModel.of(root=[block(f"finalize('x', evidence={evidence})")], child=answer)
    result = await run(model, TEXT)
    assert result.stop_reason == "finalized", model.requests[-1].messages[-1].content
    assert all(citation.verified for citation in result.citations)
    assert result.citations[0].quote.startswith(EVIDENCE[evidence])


SLICES = """
given = [
    quote('The rent is 900 euros'),
    around(search('900|Kiel')),
    search('900'),
    around(search('Kiel')[0], by='section'),
    documents()[0],
    [around(search('900')[0], by='sentence'), search('Kiel')],
]
finalize([sub_query('q', one) for one in given])
"""


async def test_every_kind_of_place_is_a_slice(run, block) -> None:
    result = await run(ScriptedModel.of(root=[block(SLICES)], child="read"), TEXT)
    assert result.answer == ["read"] * 6


async def test_a_refused_quote_names_the_nearest_place(run, block) -> None:
    """The root needs no second look: the next block cites it."""
    wrong = "peek(0, 1)\nfinalize('x', evidence=['The rent is 950 euros a month'])"
    model = ScriptedModel.of(root=[block(wrong), block("finalize('x', evidence=[(46, 75)])")])
    result = await run(model, TEXT)
    told = model.requests[-1].messages[-1].content
    assert "not finalised: 1 of 1 pieces of evidence were not found" in told
    assert "'The rent is 950 euros a month': Nearest: (46, 75), 6 of 7 words" in told
    assert "'900' stands for '950'" in told
    assert result.citations[0].verified


async def test_a_part_is_ranked_alone(run, block) -> None:
    """Packs reach no further than the part."""
    documents = ["the lease ends in spring\n" * 100, "the lease and the rent\n" * 100]
    cell = """
whole, part = rank('lease rent', k=50), rank('lease rent', k=50, within=documents()[1])
low, high = documents()[1].start, documents()[1].end
small = rank('lease', within=(30, 60))
finalize([len(whole) > len(part), all(low <= p.start < p.end <= high for p in part), len(part) > 0,
          [(p.start, p.end) for p in small]])
"""
    result = await run(ScriptedModel.of(root=[block(cell)]), documents)
    assert result.answer == [True, True, True, [[30, 60]]]


async def test_the_list_of_variables_names_what_matters(run, block) -> None:
    """Variables of loops and of `with`, imports, private names and helpers are left out."""
    cell = """
from math import pi
import io as stream
from collections import Counter
total = 0
for hit in search('rent'):
    total += hit.start
    last = hit
for place, (low, high) in enumerate([(1, 2)]):
    pass
with stream.StringIO() as file:
    _private = 1
look = search
hits = search('rent')
"""
    model = ScriptedModel.of(root=[block(cell), block("finalize('x')")])
    await run(model, TEXT)
    told = model.requests[-1].messages[-1].content
    listed = told.partition("new or changed variables")[2].partition(": end =====")[0]
    names = set(re.findall(r"^(\w+): ", listed, re.MULTILINE))
    assert names == {"total", "last", "hits"}, told
