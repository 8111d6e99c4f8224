"""Test what a cell may give as a slice, through a real kernel and a real channel."""

from __future__ import annotations

from rlm.sandbox.types import Span


async def run(kernel, code, *, round=1):
    return await kernel.execute(code, round=round, timeout=20.0)


EMPTY = (
    "sub_query('q', None)",
    "sub_query('q', search('ZZZ'))",
    "sub_query('q', [])",
    "sub_query('q', '')",
    "sub_query('q', [' ', ''])",
    "sub_query('q', (5, 5))",
    "sub_query('q', [[3, 3]])",
    "sub_query('q', sub_query_batch('fail', [(0, 3)]))",
    "sub_rlm('q', None)",
    "sub_rlm('q', search('ZZZ'))",
    "sub_query_map(['q'], None)",
    "sub_rlm(['q'], None)",
    "sub_query_batch('q', [(0, 3), None], on_error='raise')",
    "sub_query_map(['q', 'r'], [(0, 3), []], on_error='raise')",
)


async def test_an_empty_slice_is_refused_before_anything_is_sent(open_kernel, handler) -> None:
    """A search that found nothing must not become a task without a slice."""
    kernel = await open_kernel()
    tries = "".join(
        f"try:\n    {call}\nexcept ValueError as error: said.append(str(error))\n" for call in EMPTY
    )
    result = await run(kernel, f"said = []\n{tries}print(*said, sep='\\n')")
    said = [line for line in result.stdout.splitlines() if "is empty" in line or "is None" in line]
    assert len(said) == len(EMPTY), result.stdout + result.traceback
    assert [batch.prompts for batch in handler.batches] == [("fail",)]


async def test_an_empty_slot_of_a_batch_fails_alone(open_kernel, handler) -> None:
    """The other slots are asked, and the line says that asking again does not help."""
    kernel = await open_kernel()
    result = await run(
        kernel,
        "b = sub_query_batch('q', [search('ZZZ'), (0, 3), None, '', (4, 7)])\n"
        "print([str(one) for one in b], b.failed, len(b.found))\n"
        "print(b[0].error, b[0].error_type)\n"
        "print(b.joined())",
    )
    assert result.stdout.splitlines() == [
        "3 of 5 slices are empty and were not sent: [0, 2, 3]",
        "['', 'q 0', '', '', 'q 1'] [0, 2, 3] 2",
        "the slice is empty: a list without items empty_slice",
        "[text, characters 0-3]",
        "q 0",
        "",
        "[text, characters 4-7]",
        "q 1",
    ]
    (batch,) = handler.batches
    assert [one.pieces for one in batch.slices] == [(Span(0, 3),), (Span(4, 7),)]
    none = await run(kernel, "c = sub_query_batch('q', [None, []])\nlen(c), c.failed", round=2)
    assert (none.result, len(handler.batches)) == ("(2, [0, 1])", 1)


async def test_failures_and_empty_slots_are_told_apart(open_kernel) -> None:
    kernel = await open_kernel()
    result = await run(kernel, "b = sub_query_batch('fail odd', [(0, 3), None, (4, 7)])\nprint(b.failed)")
    assert result.stdout.splitlines() == [
        "1 of 3 failed: [2] (first: the model is away); the same call again asks only those",
        "1 of 3 slices are empty and were not sent: [1]",
        "[1, 2]",
    ]


async def test_an_answer_without_a_slice_is_marked(open_kernel, handler) -> None:
    """It is the model's own knowledge: `.grounded` is False, also in what is made of it alone."""
    kernel = await open_kernel()
    result = await run(
        kernel,
        "a = sub_query('q')\nb = sub_query('q', (0, 3))\nm = sub_query_map(['x', 'y'])\n"
        "print(a.grounded, b.grounded, sub_query('again', a).grounded, sub_query('both', [a, b]).grounded)\n"
        "print(m.joined())",
    )
    assert handler.batches[0].slices == (None,)
    assert result.stdout.splitlines() == [
        "False True False True",
        "[no slice: the model's own knowledge, not from the input]",
        "x 0",
        "",
        "[no slice: the model's own knowledge, not from the input]",
        "y 1",
    ]


async def test_spans_in_the_form_of_json_are_spans(open_kernel, handler) -> None:
    """Everywhere a slice is accepted; `around` of a list takes two places."""
    kernel = await open_kernel()
    result = await run(
        kernel,
        "sub_query('q', [[0, 3], [4, 7]])\n"
        "sub_query('q', [0, 3])\n"
        "sub_query_batch('q', [[0, 3], [[4, 7], (8, 9)]])\n"
        "print(chunk_coverage([[0, 3], [4, 14]]).covered_chars, around((4, 7), 0))\n"
        "finalize('x', evidence=[[0, 3], [4, 7]])",
    )
    assert result.stdout == "13 two\n\n", result.traceback
    sent = [[one.pieces for one in batch.slices] for batch in handler.batches]
    assert sent == [
        [(Span(0, 3), Span(4, 7))],
        [(Span(0, 3),)],
        [(Span(0, 3),), (Span(4, 7), Span(8, 9))],
    ]
    assert handler.finals[0].evidence == (Span(0, 3), Span(4, 7))


WRONG = [
    ("sub_query_batch('q', [(0, 3)], on_error='ignore')", "ValueError", "on_error must be 'keep' or"),
    ("sub_query_map(['q'], [(0, 3)], on_error=None)", "ValueError", "on_error must be 'keep' or"),
    ("sub_query('q', (0, 3), sample=-1)", "ValueError", "sample must be a whole number from 0"),
    ("sub_query('q', (0, 3), sample='2')", "TypeError", "sample must be a whole number from 0"),
    ("sub_query('q', (0, 3), numbered='yes')", "TypeError", "numbered must be True or False"),
    ("sub_query('q', (0, 3), schema={'a': object()})", "TypeError", "schema['a'] is an object"),
    ("sub_query('', (0, 3))", "TypeError", "a prompt must be a non-empty str"),
    ("sub_query_map(['q', ''], [(0, 3), (4, 7)])", "TypeError", "a prompt must be a non-empty str"),
    ("sub_query_map(5)", "TypeError", "prompts must be a list of str"),
    ("sub_rlm(None, (0, 3))", "TypeError", "a prompt must be a non-empty str"),
    ("sub_query_batch('q', 5)", "TypeError", "slices must be a list of slices"),
    ("sub_query_batch('q', (0, 3))", "TypeError", "for a single one call sub_query"),
    ("sub_query_batch('q', [(0, 3), 5.5])", "TypeError", "slice 1: float names no part of the input"),
]


async def test_a_bad_argument_is_refused_before_any_call(open_kernel, handler) -> None:
    kernel = await open_kernel()
    for round_, (call, ename, words) in enumerate(WRONG, 1):
        result = await run(kernel, call, round=round_)
        assert (result.ename, handler.batches) == (ename, []), call
        assert words in result.evalue


async def test_prompts_may_come_from_a_generator(open_kernel, handler) -> None:
    kernel = await open_kernel()
    result = await run(kernel, "list(sub_query_map((p for p in 'ab'), ((n, n + 1) for n in range(2))))")
    assert result.result == "['a 0', 'b 1']"


async def test_a_schema_of_python_types_reaches_the_driver(open_kernel, handler) -> None:
    kernel = await open_kernel()
    await run(kernel, "sub_query('q', (0, 3), schema={'a': int, 'b': [str], 'c': list[int], 'd': None})")
    assert handler.batches[0].schema == {
        "a": {"type": "integer"},
        "b": [{"type": "string"}],
        "c": {"type": "array", "items": {"type": "integer"}},
        "d": None,
    }
