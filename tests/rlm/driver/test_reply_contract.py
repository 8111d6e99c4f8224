"""Test the one-block contract on replies as models write them."""

from __future__ import annotations

import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm.driver.reply_contract import Cell, Violation, parse

LIST_FENCED = 'x = """\n```python\ny\n```\n"""\nprint(x)'


def kind(reply: str, **options: str) -> str:
    outcome = parse(reply, **options)
    assert isinstance(outcome, Violation), outcome
    assert len(outcome.received) <= 200
    assert "\n" not in outcome.received
    return outcome.kind


def block(code: str, mark: str = "```", info: str = "repl") -> str:
    return f"{mark}{info}\n{code}\n{mark}"


@pytest.mark.parametrize(
    "reply",
    [
        "```repl\nprint(1)\n```",
        "```REPL  \nprint(1)\n```",
        "``` repl\nprint(1)\n```",
        "`````repl\nprint(1)\n```````",
        "  ```repl\n  print(1)\n  ```",
        "```repl\r\nprint(1)\r\n```\r\n",
        "<think>hm\n\n```repl\ndraft()\n```\nno</think>\n```repl\nprint(1)\n```",
        "so I was thinking of\n```repl\ndraft()\n```\n</think>\n\n```repl\nprint(1)\n```",
        "\u200b\n\u200b```repl\u200b\nprint(1)\n\u2060```\ufeff",
        "- ```repl\n  print(1)\n  ```",
        "\ufeff- ```REPL\r\n  print(1)\r\n  ```\r\n",
    ],
)
def test_a_reply_that_is_exactly_one_closed_block_is_run(reply: str) -> None:
    """Any case, fence and length are accepted, after white space and leading reasoning."""
    assert parse(reply) == Cell("print(1)")


@pytest.mark.parametrize(
    "code",
    [
        LIST_FENCED,
        'a = """\n```repl\nprint(1)\n```\n"""',
        'fence = "```"\nprint(f"{fence}python")',
        's = """\n' + "```\n" * 31 + '"""',
        'await asyncio.sleep(0)\nreport = """\n```\n"""',
        'note = """\n```\n"""\n!ls -la\n%time print(1)',
        "r'''\\d\n```\n'''",
        "'\\d'",
    ],
)
def test_fences_inside_strings_belong_to_the_code(code: str) -> None:
    """The first candidate fence that makes the code parse closes the block."""
    assert parse(block(code)) == Cell(code)
    assert parse("First:\n" + block(code) + "\nThen more.\n") == Cell(code, "First:\nThen more.")


@pytest.mark.parametrize(
    "code",
    [
        "print('open",
        "%%bash\nls | wc",
        "-" * 50_000 + "1",
        "a" + ".a" * 100_000,
        'x = "\0"',
        'x = "\ud800"',
    ],
)
def test_code_that_does_not_parse_is_a_cell_all_the_same(code: str) -> None:
    """A syntax error is a failed cell, not a violation."""
    assert parse(block(code)) == Cell(code)


def test_of_unparsable_candidates_the_last_one_counts() -> None:
    """At most 32 candidates are tried."""
    assert parse('```repl\nx = (\n```\ny\n```\nz"\n```') == Cell('x = (\n```\ny\n```\nz"')
    code = 'x = """\n' + "```\n" * 40 + '"""'
    outcome = parse(block(code))
    assert isinstance(outcome, Cell)
    assert outcome.code == 'x = """\n' + "\n".join(["```"] * 31)


def test_ipython_magic_does_not_swallow_what_follows_its_block() -> None:
    """Lines that only IPython understands do not extend the search."""
    reply = "```repl\n%time x = 1\n!ls\n```\nFor example:\n```python\nx\n```"
    assert parse(reply) == Cell("%time x = 1\n!ls", "For example:\n```python\nx\n```")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("", "no_block"),
        ("FINAL(42)", "final_call"),
        ("The answer is clear.\n\nFINAL_VAR(total)", "final_call"),
        ("The crane costs 40 euros an hour.", "no_block"),
        ("```repl print(1)```", "no_block"),
        ("    ```repl\n    print(1)\n    ```", "no_block"),
        ("```json\n1\n```", "wrong_language"),
        ("```python\nprint(\n```", "wrong_language"),
        ("```\nprint(1)\n```\n```\n1\n```", "wrong_language"),
        ("```python\na()\n```\nthen\n```py\nb()\n```", "several_blocks"),
        ("```repl print(1)\n```", "wrong_language"),
        ("````markdown\n```repl\nprint(1)\n```\n````", "wrong_language"),
        ("```repl\nprint(1)```", "unclosed_block"),
        ("````repl\nprint(1)\n```", "unclosed_block"),
        ("```repl\n```", "empty_block"),
        (block("x = 1") + "\n" + block("y = 2"), "several_blocks"),
        ("```repl\nx = 1\n" + block("y = 2"), "several_blocks"),
        ("<think>I should begin", "no_block"),
    ],
)
def test_violations_are_typed(reply: str, expected: str) -> None:
    """Every reply without exactly one closed repl block has one named fault, and nothing runs."""
    assert kind(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("```python\nprint(1)\n```", Cell("print(1)", mark="python")),
        ("```\nprint(1)\n```", Cell("print(1)", mark="")),
        ("Look:\n```python\nx = '```'\nprint(x)\n```", Cell("x = '```'\nprint(x)", "Look:", "python")),
        (
            "```python\na()\n```\nIt prints\n```json\n1\n```",
            Cell("a()", "It prints\n```json\n1\n```", "python"),
        ),
        ("- ```python\n  a()\n  ```", Cell("a()", mark="python")),
    ],
)
def test_one_python_block_is_a_soft_breach(reply: str, expected: Cell) -> None:
    """It runs under its mark if it parses. The strict contract refuses it."""
    assert parse(reply) == expected
    assert kind(reply, contract="strict") == "wrong_language"


def test_a_mangled_reply_with_two_blocks_is_refused() -> None:
    """Closing fences with text after them, special tokens, and two attempts in one reply are refused."""
    reply = (
        "Let's look first.\n\n```repl\nSHOW-vars()\n```ical output of it.\n```\n<|im_start|>\n"
        "Then print it.\n```repl\nprint(text)\n```ical output of it.\n```\n<|im_start|>"
    )
    assert kind(reply) == "several_blocks"


def test_a_reply_cut_by_the_output_limit_is_not_run() -> None:
    """The fault is truncated_reply, even if the reply holds a closed block."""
    assert kind(block("print(1)"), finish_reason="length") == "truncated_reply"
    assert parse(block("print(1)"), finish_reason="other") == Cell("print(1)")


@pytest.mark.parametrize(
    ("reply", "prose"),
    [
        ("I will look.\n\n```repl\nprint(1)\n```", "I will look."),
        ("```repl\nprint(1)\n```\n```", "```"),
        ("```python\nx\n```\n```repl\nprint(1)\n```", "```python\nx\n```"),
        ("A stray fence\n```\nand then\n```repl\nprint(1)\n```", "A stray fence\n```\nand then"),
        ("<think>never closed\n```repl\nprint(1)\n```", "<think>never closed"),
    ],
)
def test_prose_around_one_block_is_a_soft_breach(reply: str, prose: str) -> None:
    """The block runs and the prose is kept apart. `strict` refuses it."""
    assert parse(reply) == Cell("print(1)", prose)
    assert kind(reply, contract="strict") == "prose_around"
    assert parse(block("print(1)"), contract="strict") == Cell("print(1)")


def test_a_fence_indented_in_a_list_gives_code_without_the_indent() -> None:
    """Up to three spaces before the fence are not part of the code."""
    reply = "1. Look:\n   ```repl\n   if x:\n       print(1)\n\n   ```"
    assert parse(reply) == Cell("if x:\n    print(1)\n", "1. Look:")


@pytest.mark.parametrize(
    ("reply", "received"),
    [
        ("", ""),
        ("x" * 5_000, "x" * 199 + "…"),
        ("a\n\n  b\tc", "a b c"),
        ("Look:\n" + block("print(1)", info="ruby"), "```ruby print(1) ```"),
        (block("x = 1") + "\n" + block("y = 2"), "2 blocks: x = 1 | y = 2"),
        ("\n".join([block("x" * 500)] * 9), "3 blocks or more: " + " | ".join(["x" * 39 + "…"] * 3)),
        ("Look:\n```repl\nprint(1)", "print(1)"),
        ("```repl\n```", "```repl ```"),
    ],
)
def test_a_violation_says_what_was_received(reply: str, received: str) -> None:
    """The received part at fault is quoted on one line, in at most 200 characters."""
    outcome = parse(reply)
    assert isinstance(outcome, Violation)
    assert outcome.received == received


def test_no_warning_of_the_reply_s_code_comes_out() -> None:
    """Replies are only parsed; `1 is 1` in one must not warn here."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert parse(block("'\\d' is 1")) == Cell("'\\d' is 1")
    assert seen == []


MEAN = {
    "backticks": "`" * 1_000_000,
    "fence lines": "```\n" * 250_000,
    "fence lines in a block": "```repl\n" + "```\n" * 250_000,
    "unclosed blocks": "```repl\n" * 125_000,
    "closings too short": "````repl\n" * 60_000 + "```\n" * 100_000,
    "other blocks": "```a\n~~~repl\n" * 60_000,
    "open thoughts": "<think>" * 140_000,
    "ends of thoughts": "</think>\n" * 110_000,
    "huge code, 32 closings": "```repl\nx = (\n" + "yyyyyyyy\n" * 100_000 + "```\n" * 32,
    "late error, 32 closings": "```repl\n" + "x = [1, 2]\n" * 9_000 + ")\n" + "```\n" * 32,
    "brackets": "```repl\n" + "(" * 1_000_000 + "\n```",
}


@pytest.mark.parametrize("name", MEAN)
def test_the_time_taken_stays_near_linear(name: str) -> None:
    """A megabyte of the worst reply takes seconds even on a busy machine. Quadratic work would take hours."""
    started = time.process_time()
    parse(MEAN[name])
    assert time.process_time() - started < 10.0


pieces = st.sampled_from(
    [
        "```",
        "~~~",
        "````",
        "repl",
        "python",
        "\n",
        "\r\n",
        " ",
        "   ",
        "x = 1",
        '"""',
        "(",
        "<think>",
        "</think>",
    ]
)


@given(
    st.one_of(st.text(), st.lists(pieces, max_size=40).map("".join)), st.sampled_from(["one-block", "strict"])
)
@example("```repl\n\x00\n```", "strict")
def test_any_text_has_an_outcome(reply: str, contract: str) -> None:
    """The parser accepts any string, and returns only code of the reply itself."""
    outcome = parse(reply, contract=contract)
    if isinstance(outcome, Cell):
        assert outcome.code.strip()
        assert outcome.code in reply or "\r" in reply or "\n " in "\n" + reply
        assert contract == "one-block" or not outcome.prose
    else:
        assert len(outcome.received) <= 200


lines_of_code = st.lists(
    st.text(st.characters(exclude_characters="\n"), max_size=30).filter(
        lambda line: not line.lstrip(" ").startswith(("```", "~~~"))
    ),
    min_size=1,
    max_size=12,
)


@given(lines_of_code.map("\n".join).filter(str.strip), st.sampled_from(["```", "~~~", "`````"]))
def test_code_without_fence_lines_comes_back_as_it_was(code: str, mark: str) -> None:
    """Code in a fence is run unchanged, to the character."""
    assert parse(block(code, mark)) == Cell(code)


@given(
    st.lists(
        st.sampled_from(["```", "```repl", "```python", "~~~", "text", "", "   ```", "print(1)"]), max_size=30
    ),
    st.sampled_from(["```", "~~~"]),
)
def test_a_string_full_of_fences_is_recovered_whole(inside: list[str], mark: str) -> None:
    """Up to 31 fences inside a string literal do not end the block."""
    code = 'doc = """\n' + "\n".join(inside) + '\n"""\nprint(doc)'
    assert parse(block(code, mark)) == Cell(code)


def test_invisible_characters_are_no_prose() -> None:
    """The strict contract accepts what its reader cannot see."""
    assert parse("\ufeff\n```repl\nprint(1)\n```\n\u200b", contract="strict") == Cell("print(1)")


def test_a_list_of_blocks_is_several_blocks() -> None:
    assert kind("- ```repl\n  a()\n  ```\n- ```repl\n  b()\n  ```") == "several_blocks"
    assert kind("- ```python\n  a()\n  ```\n- ```python\n  b()\n  ```") == "several_blocks"
    assert parse("- ```python\n  a()\n  ```\n\n```repl\nb()\n```").code == "b()"
