"""Test quotes, places and merged items as evidence and slices, by cells in a real kernel."""

from __future__ import annotations

import json
import re

import pytest

from rlm.testing import ScriptedModel

LEASE = "# Lease\nThe lease for Mill Road ends in 2031. The rent is 900 euros a month.\n"
OFFICE = "# Office\nThe office in Kiel has room for 40 people. It opened in May.\n"
TEXT = LEASE + "\n" + "filler line about nothing at all\n" * 200 + "\n" + OFFICE

EVIDENCE = {
    "quote('The rent  is 900 euros')": "The rent is 900 euros",
    "[quote('The lease for Mill Road'), quote('room for 40 people')]": "The lease for Mill Road",
    "sentence_at(search('900')[0])": "The rent is 900 euros a month.",
    "around(search('900|Kiel'), 0)": LEASE.split("\n")[1] + "\n",
    "search('900')": LEASE.split("\n")[1],
    "[search('900')]": LEASE.split("\n")[1],
    "(peek(0, 1), chunk(90)[:1])[1:]": TEXT[:90],
    "section_at(search('900')[0])": "# Lease\n",
    "peek(search('900')[0])": "",
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


SLICES = (
    "quote('The rent is 900 euros')",
    "around(search('900|Kiel'))",
    "search('900')",
    "section_at(search('Kiel')[0])",
    "documents()[0]",
    "[sentence_at(search('900')[0]), search('Kiel')]",
)


@pytest.mark.parametrize("given", SLICES)
async def test_every_kind_of_place_is_a_slice(run, block, given) -> None:
    model = ScriptedModel.of(root=[block(f"finalize(sub_query('q', {given}))")], child="read")
    assert (await run(model, TEXT)).answer == "read"


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


FOUND = [
    [
        {"name": "Mill Road", "rent": 900, "proof": "The rent is 900 euros a month."},
        {"name": "Lease", "rent": None},
    ],
    [{"name": "mill  road", "rent": 950, "proof": ""}, {"name": "Lease", "rent": 40, "proof": ""}],
    [],
]


async def test_items_of_overlapping_slices_are_merged(run, block) -> None:
    """Order is kept, empty fields are filled, and each item knows its slices and what differs."""
    cell = """
answers = sub_query_batch('list them', [(0, 90), (40, 120), (6000, 6100)], schema=[{'name': str}])
items = merge(answers, key='name')
print(items)
print([item.spans for item in items], items[0].conflicts)
print(len(merge(answers)), len(merge(answers, key=lambda item: item['name'][0].lower())), merge([]))
finalize(items, evidence=items)
"""

    def reply(request):
        """Answer by the slice, because the children run at the same time."""
        prompt = request.messages[-1].content
        return json.dumps(FOUND[0 if "# Lease" in prompt else 1 if "2031" in prompt else 2])

    model = ScriptedModel.of(root=[block(cell)], child=reply)
    result = await run(model, TEXT)
    assert result.answer == [
        {"name": "Mill Road", "rent": 900, "proof": "The rent is 900 euros a month."},
        {"name": "Lease", "rent": 40, "proof": ""},
    ], model.requests[-1].messages[-1].content
    first, *others = result.citations
    assert first.quote == "The rent is 900 euros a month."
    assert [(one.start, one.end) for one in others] == [(0, 90), (40, 120)]


MERGES = {
    "merge('x')": "TypeError: answers must be what sub_query_batch(..., schema=...) returned, not str",
    "merge([5])": "TypeError: answers must be what",
    "merge(sub_query_batch('q', [(0, 9)]))": "TypeError: the answers have no .value",
    "merge(sub_query_batch('q', [(0, 9)], schema=[{'a': int}]), key='b')": "ValueError: an item has no field",
}


@pytest.mark.parametrize("call", MERGES)
async def test_what_cannot_be_merged_is_told(run, block, call) -> None:
    cell = (
        f"peek(0, 1)\ntry:\n    {call}\nexcept Exception as error:\n"
        "    finalize(f'{type(error).__name__}: {error}')"
    )
    result = await run(ScriptedModel.of(root=[block(cell)], child='[{"a": 1}]'), TEXT)
    assert result.answer.startswith(MERGES[call])


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
