"""Test the helpers for children, progress and the end, through a real kernel and a real channel."""

from __future__ import annotations

import asyncio

from rlm.sandbox.types import ChildSlice, Span


async def run(kernel, code, *, round=1, timeout=20.0):
    return await kernel.execute(code, round=round, timeout=timeout)


async def test_a_child_result_is_a_string_that_knows_more(open_kernel) -> None:
    """ChildResult is a str with .ok .found .error .span .usage .cached."""
    kernel = await open_kernel()
    result = await run(
        kernel,
        "r = sub_query('read', (4, 7))\n"
        "print(isinstance(r, str), r, r[:4], r.ok, r.found, r.error, r.span, r.usage, r.cached)",
    )
    assert result.stdout == (
        "True read 0 read True True None Span(start=4, end=7) {'input_tokens': 7, 'output_tokens': 2} False\n"
    )
    absent = await run(kernel, "r = sub_query('absent', (0, 3)); print(r.ok, r.found)", round=2)
    assert absent.stdout == "True False\n"


async def test_a_failed_child_raises(open_kernel) -> None:
    """The exception is SubQueryError."""
    kernel = await open_kernel()
    result = await run(kernel, "sub_query('fail', (0, 3))")
    assert (result.ename, result.evalue) == ("SubQueryError", "the model is away")


async def test_spans_cross_the_channel_not_text(open_kernel, handler) -> None:
    """A slice is a chunk, a hit, a peek, (start, end), a str, or a list of these."""
    kernel = await open_kernel("one\ntwo\nthree\n")
    await run(
        kernel,
        "sub_query_batch('q', [chunk(5)[1], search('two', context=0)[0], peek(0, 3), (1, 2), 'made here', "
        "[peek(0, 1), 'and', (2, 3)], peek(0, 8)[2:4]])",
    )
    (batch,) = handler.batches
    assert [one.pieces for one in batch.slices] == [
        (Span(5, 10),),
        (Span(4, 7),),
        (Span(0, 3),),
        (Span(1, 2),),
        ("made here",),
        (Span(0, 1), "and", Span(2, 3)),
        ("e\n",),
    ]


async def test_offsets_of_a_slice_are_clamped_as_everywhere(open_kernel, handler) -> None:
    """Negative offsets count from the end. A slice of nothing is refused."""
    kernel = await open_kernel()
    for slice_ in ("(5, 99)", "(-4, 99)", "{'start': 3, 'end': 9}"):
        assert (await run(kernel, f"sub_query('q', {slice_})")).status == "ok"
    assert [batch.slices[0].pieces for batch in handler.batches] == [
        (Span(5, 14),), (Span(10, 14),), (Span(3, 9),)
    ]  # fmt: skip
    for slice_ in ("(50, 99)", "(-1, 3)", "{'start': 3, 'end': 1}"):
        result = await run(kernel, f"sub_query('q', {slice_})")
        assert (result.ename, len(handler.batches)) == ("ValueError", 3)
        assert "is empty in this input" in result.evalue


async def test_a_childs_answer_is_text_to_the_next_child(open_kernel, handler) -> None:
    """A synthesis reads what children answered, not the text they read."""
    kernel = await open_kernel()
    await run(
        kernel, "a = sub_query_batch('q', [(0, 3), (4, 7)])\nsub_query('merge', a)\nfinalize(1, evidence=a)"
    )
    assert handler.batches[1].slices[0].pieces == ("q 0", "q 1")
    assert handler.finals[0].evidence == (Span(0, 3), Span(4, 7))


async def test_a_hit_goes_to_a_child_with_its_lines(open_kernel, handler) -> None:
    """With the match alone a child could say nothing."""
    kernel = await open_kernel("one\nthe two of us\nthree\n")
    await run(
        kernel,
        "h = search('two', context=10)\nsub_query_batch('q', h)\n"
        "finalize('a', evidence=(one for one in [h, (0, 3)]))",
    )
    assert handler.batches[0].slices[0].pieces == (Span(0, 23),)
    assert handler.finals[0].evidence == (Span(4, 17), Span(0, 3))


async def test_an_answer_as_evidence_is_the_passage_it_quotes(open_kernel, handler) -> None:
    """The head of a long slice proves nothing. The passage that the child quoted from it does."""
    kernel = await open_kernel("x" * 500 + " The rent is 1,290 EUR a month. " + "y" * 500)
    await run(
        kernel,
        'said = \'say "The rent is 1,290 EUR a month." and "what nobody ever wrote down here"\'\n'
        "a = sub_query(said, (0, 1000))\n"
        "b = sub_query('no quote', (0, 1000))\n"
        "finalize(a, evidence=[a, b])",
    )
    assert handler.finals[0].evidence == (Span(501, 531), Span(0, 1000))


async def test_an_awaited_answer_is_itself(open_kernel, handler) -> None:
    """Helpers are plain functions. A model that awaits them must not lose what it paid for."""
    kernel = await open_kernel()
    result = await run(
        kernel,
        "a = await sub_query('q', (0, 3))\nb = await sub_query_batch('q', [(4, 7)])\nprint(a, b)",
    )
    assert (result.stdout, len(handler.batches)) == ("q 0 <1 answers, 1 found, 0 failed: ['q 0']>\n", 2)


async def test_evidence_in_the_place_of_the_confidence_is_evidence(open_kernel, handler) -> None:
    kernel = await open_kernel()
    await run(kernel, "finalize('a', [(0, 3), 'two'])")
    assert (handler.finals[0].confidence, handler.finals[0].evidence) == (None, (Span(0, 3), "two"))


SEARCH = "Call search(pattern, max_hits=100, context=120, within=None)."
WRONG = {
    "search('t', flags=2)": f"search() takes no 'flags'. {SEARCH}",
    "search('t', max_hits=5, limit=2)": f"search() takes no 'limit'. {SEARCH}",
    "around()": "around() missing 1 required positional argument: 'where'. "
    "Call around(where, lines=3, by=None).",
    "peek(3)": "end is missing: peek(start, end), or around(offset) for the lines around one",
    "count()": "count() missing 1 required positional argument: 'pattern'. Call count(pattern, within=None).",
    "peek('a', 3)": "start is a whole number, not str: use int(...) or // to make it one",
}


async def test_a_wrong_call_is_answered_with_the_right_one(open_kernel) -> None:
    """Errors name the remedy."""
    kernel = await open_kernel()
    tries = "".join(f"try: {call}\nexcept TypeError as error: said.append(str(error))\n" for call in WRONG)
    result = await run(kernel, f"said = []\n{tries}print(*said, sep='\\n')")
    assert result.stdout.splitlines() == list(WRONG.values())


async def test_a_failing_finalize_loses_no_account_of_what_was_read(open_kernel, handler) -> None:
    """Evidence of an unknown kind is a TypeError, and what was read stays read."""
    kernel = await open_kernel()
    for evidence in ("[5]", "[{'quote': 'one', 'line': 1}]", "[None]"):
        result = await run(kernel, f"peek(0, 3)\ncount('t')\nfinalize('a', evidence={evidence})")
        assert (result.ename, handler.finals) == ("TypeError", [])
        assert (result.report.read, result.report.scanned) == ((Span(0, 3),), (Span(0, 14),))


async def test_evidence_outside_the_input_is_for_the_run_to_judge(open_kernel, handler) -> None:
    """Unverified evidence is reported once, then marked. It is not a failure."""
    kernel = await open_kernel()
    assert (await run(kernel, "finalize('a', evidence=[(5, 10**9), 'never said'])")).status == "ok"
    assert handler.finals[0].evidence == (Span(5, 10**9), "never said")


async def test_an_answer_that_is_too_large_is_a_value_error(open_kernel, handler) -> None:
    kernel = await open_kernel()
    result = await run(kernel, "finalize('x' * 50_000_000)")
    assert (result.ename, handler.finals) == ("ValueError", [])


async def test_a_batch_keeps_its_order_and_its_failures(open_kernel) -> None:
    """Failed slots are empty strings with .ok false, and one loud line is printed."""
    kernel = await open_kernel()
    result = await run(
        kernel, "b = sub_query_batch('fail odd', [(0, 1), (1, 2), (2, 3), (3, 4)])\nprint(list(b), b.failed)"
    )
    assert result.stdout.splitlines() == [
        "2 of 4 failed: [1, 3] (first: the model is away); the same call again asks only those",
        "['fail odd 0', '', 'fail odd 2', ''] [1, 3]",
    ]
    raised = await run(kernel, "sub_query_batch('fail odd', [(0, 1), (1, 2)], on_error='raise')", round=2)
    assert raised.ename == "SubQueryError"


async def test_joined_findings_can_be_cited(open_kernel) -> None:
    """.joined() returns the found answers, each under its span and document."""
    kernel = await open_kernel()
    result = await run(kernel, "print(sub_query_batch('q', [(0, 3), (4, 7)]).joined())")
    assert result.stdout == "[text, characters 0-3]\nq 0\n\n[text, characters 4-7]\nq 1\n"
    none = await run(kernel, "sub_query_batch('absent', [(0, 3)]).joined()", round=2)
    assert none.result == "''"


async def test_prompts_pair_with_slices(open_kernel, handler) -> None:
    """A length mismatch is a ValueError, and nothing is spent."""
    kernel = await open_kernel()
    good = await run(kernel, "list(sub_query_map(['a', 'b'], [(0, 1), (1, 2)])), list(sub_query_map(['c']))")
    assert good.result == "(['a 0', 'b 1'], ['c 0'])"
    asked = len(handler.batches)
    bad = await run(kernel, "sub_query_map(['a', 'b'], [(0, 1)])", round=2)
    assert (bad.ename, len(handler.batches)) == ("ValueError", asked)


async def test_a_refused_batch_is_a_value_error(open_kernel) -> None:
    kernel = await open_kernel()
    result = await run(kernel, "sub_query_batch('refuse', [(0, 1)])")
    assert (result.ename, result.evalue) == ("ValueError", "only 3 calls are left")


async def test_options_reach_the_driver(open_kernel, handler) -> None:
    kernel = await open_kernel()
    await run(kernel, "sub_query('q', (0, 3), sample=2, numbered=True, schema={'name': 'str'})")
    await run(kernel, "sub_query_batch('q', chunk(5))", round=2)
    first, second = handler.batches
    assert (first.sample, first.schema, first.chunked) == (2, {"name": "str"}, False)
    assert first.slices == (ChildSlice((Span(0, 3),), numbered=True),)
    assert (second.chunked, len(second.slices)) == (True, 3)


async def test_children_can_be_asked_from_threads(open_kernel) -> None:
    kernel = await open_kernel()
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    found = list(pool.map(lambda n: sub_query(f'q{n}', (0, 1)), range(40)))\n"
        "print(found == [f'q{n} 0' for n in range(40)])"
    )
    assert (await run(kernel, code)).stdout == "True\n"


async def test_an_interrupt_cancels_children_in_flight(open_kernel, handler) -> None:
    cancelled = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    handler.before_answer = never
    kernel = await open_kernel()
    running = asyncio.ensure_future(run(kernel, "sub_query('q', (0, 3))"))
    while not handler.batches:
        await asyncio.sleep(0.01)
    await kernel.interrupt()
    assert (await running).ename == "KeyboardInterrupt"
    await asyncio.wait_for(cancelled.wait(), 5)
    assert (await run(kernel, "1 + 1", round=2)).result == "2"


async def test_finalize_ends_the_cell_there(open_kernel, handler) -> None:
    """Spans, hits and quotes are evidence."""
    kernel = await open_kernel("one\ntwo\nthree\n")
    result = await run(
        kernel,
        "try:\n    finalize({'n': [1, None]}, confidence=0.5,\n"
        "             evidence=[search('two')[0], 'three', (0, 3)])\n"
        "except Exception:\n    print('caught')\nprint('after')",
    )
    assert (result.status, result.stdout) == ("ok", "")
    (final,) = handler.finals
    assert final.value == {"n": [1, None]}
    assert final.confidence == 0.5
    assert final.evidence == (Span(4, 7), "three", Span(0, 3))
    assert final.access.scanned == (Span(0, 14),)


NO_ANSWERS = [
    ("finalize({'a': [1, {2}]})", "TypeError", 'value["a"][1] is a set'),
    ("finalize({1: 2})", "TypeError", "the key 1"),
    ("a = []\na.append(a)\nfinalize(a)", "ValueError", "deeper than 100 levels, or contains itself"),
    ("a = {}\na['b'] = a\nfinalize(a)", "ValueError", "deeper than 100 levels, or contains itself"),
    ("a = 1\nfor _ in range(9_000): a = [a]\nfinalize(a)", "ValueError", "deeper than 100 levels"),
    ("finalize(float('nan'))", "TypeError", "nan"),
    ("finalize(1, confidence='sure')", "ValueError", "'sure'"),
    ("finalize(1, confidence=2)", "ValueError", "0 to 1"),
]


async def test_what_cannot_be_an_answer_is_named(open_kernel, handler) -> None:
    """A value that is not JSON-safe is a TypeError that names the path."""
    kernel = await open_kernel()
    for number, (call, ename, words) in enumerate(NO_ANSWERS, 1):
        result = await run(kernel, call, round=number)
        assert (result.ename, handler.finals) == (ename, []), call
        assert words in result.evalue


async def test_a_cell_continues_after_a_refused_final_answer(open_kernel, handler) -> None:
    handler.refuse = "nothing was read"
    kernel = await open_kernel()
    result = await run(kernel, "finalize('x')")
    assert (result.ename, result.evalue) == ("ValueError", "not finalised: nothing was read")


async def test_progress_and_the_plan_come_from_the_driver(open_kernel) -> None:
    """evaluate_progress also returns the chunk size for a full pass."""
    kernel = await open_kernel()
    result = await run(kernel, "x = 1\np = evaluate_progress(); print(p)\ncontext_meta().recommended_chunk")
    assert result.stdout == (
        "{'has_final_answer': False, 'variables': {'x': 'int'}, "
        "'limits': {'rounds': {'used': 1, 'limit': 30, 'left': 29}}, 'coverage': {'complete': False}}\n"
    )
    assert result.result == "1234"


async def test_what_was_read_and_scanned_is_reported(open_kernel) -> None:
    """The kernel reports once a cell."""
    kernel = await open_kernel("one\ntwo\nthree\n")
    result = await run(kernel, "peek(0, 3); peek(2, 5); count('t')")
    assert result.report.read == (Span(0, 5),)
    assert result.report.scanned == (Span(0, 14),)
    assert (await run(kernel, "1", round=2)).report.read == ()
