"""Test runs that look at pages: what a child sees, what it costs, and how its answer is cited."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from handmade_pdf import picture_of, save_picture, scanned_pdf

from rlm import Limits, RunResult, Settings
from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import MeteredModel
from rlm.cli.console.render_result import answer_text, full_account
from rlm.errors import BudgetExhausted, DocumentError
from rlm.journal import Journal
from rlm.models.base import Image, Message, ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.families import image_tokens
from rlm.models.catalog.info import Prices
from rlm.playback.recording import Recording
from rlm.prompts import NOT_FOUND
from rlm.testing import ScriptedModel

SEES = ModelWindow(128_000, 8_000, sees=True)
AUTO = Settings(strategy="auto")


def images(request: Request) -> list:
    return [image for message in request.messages for image in message.images]


def children(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if request.role == "child"]


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return scanned_pdf(
        tmp_path / "scan.pdf", ["Invoice 4711", "Total 93.20 EUR"], ["Page two"], ["Page three"]
    )


async def test_a_scanned_pdf_is_answered_by_looking(run, block, scan) -> None:
    """No page holds text: `auto` works in rounds, the child gets the page as a picture, and what it saw is
    cited as seen, never as verified."""
    model = ScriptedModel.of(
        root=[
            block(
                "page = documents()[0].page(1)\nsaw = look(page, 'What is the total?')\n"
                "print(saw, saw.how, saw.found, page)\n"
                "finalize('The total is 93.20 EUR [1].', confidence='high', evidence=[saw])"
            )
        ],
        child="“Total 93.20 EUR”",
        window=SEES,
    )
    result = await run(model, scan, settings=AUTO)
    assert result.answer == "The total is 93.20 EUR [1]."
    (child,) = children(model)
    (picture,) = images(child)
    assert (picture.media_type, max(picture.width, picture.height)) == ("image/png", 1568)
    assert "picture" in child.messages[-1].content
    assert "page 1" in child.messages[-1].content
    (cited,) = result.citations
    assert (cited.verified, cited.seen, cited.quote) == (False, True, "")
    assert (cited.document, cited.page) == ("scan.pdf", 1)
    assert result.coverage.pages_looked == 1
    assert not result.coverage.complete
    assert result.confidence == "high"
    assert "scan.pdf, page 1  seen on the page (not verifiable by text)" in answer_text(result)
    assert "1 page looked at" in full_account(result)
    assert "0 of 1 citation found in the input; 1 seen on pages" in full_account(result)
    assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    (first,) = [request for request in model.requests if request.role == "root"]
    assert "3 pages of it hold no text" in first.messages[-1].content
    assert "`look(pages, prompt" in first.messages[0].content


async def test_a_list_of_pages_gives_one_child_each(run, block, scan, tmp_path) -> None:
    """A page may be (document, page), a span within it, or a picture file; a span over pages gives one child
    all of them."""
    photo = save_picture(tmp_path / "photo.png", "A photo")
    model = ScriptedModel.of(
        root=[
            block(
                "d, p = documents()\n"
                "saw = look([d.page(2), ('scan.pdf', 3), p], 'What is it?')\n"
                "both = look((d.start, d.start + 2), 'What are they?')\n"
                "print(d.pages, p.kind, p.pages, peek(p.start, p.end))\n"
                "finalize([str(one) for one in [*saw, both]], evidence=saw)"
            )
        ],
        child=lambda request: f"{len(images(request))} of {request.slices[0].document}",
        window=SEES,
    )
    result = await run(model, [scan, photo])
    assert result.answer == ["1 of scan.pdf", "1 of scan.pdf", "1 of photo.png", "2 of scan.pdf"]
    assert [(one.document, one.page, one.seen) for one in result.citations] == [
        ("scan.pdf", 2, True),
        ("scan.pdf", 3, True),
        ("photo.png", 1, True),
    ]
    assert (result.coverage.pages_looked, result.coverage.complete) == (4, True)


async def test_a_page_with_text_comes_with_it_and_quotes_are_looked_up(run, block, tmp_path) -> None:
    pdf = scanned_pdf(
        tmp_path / "mixed.pdf", ["A chart"], text={1: "Figure 7: rain fell on forty days of the year."}
    )
    model = ScriptedModel.of(
        root=[
            block(
                "quoted, drawn = [look(documents()[0].page(1), ask) for ask in ('Quote', 'Draw')]\n"
                "finalize('It rained on forty days [1]. The bar is blue [2].', evidence=[quoted, drawn])"
            )
        ],
        child=lambda request: (
            "“rain fell on forty days of the year”" if request.task == "Quote" else "The bar is blue."
        ),
        window=SEES,
    )
    result = await run(model, pdf)
    assert all("rain fell on forty days" in one.messages[-1].content for one in children(model))
    text, seen = result.citations
    assert (text.verified, text.seen, text.quote) == (True, False, "rain fell on forty days of the year")
    # The page has text, but not what was drawn on it.
    assert (seen.verified, seen.seen) == (False, True)


async def test_what_no_child_saw_is_not_cited_as_seen(run, block, scan) -> None:
    model = ScriptedModel.of(
        root=[
            block(
                "look(documents()[0].page(2), 'What?')\npage = documents()[0].page(1)\n"
                "finalize('It says 93.20 [1].', evidence=[page])"
            ),
            block("finalize('It says 93.20 [1].', evidence=[documents()[0].page(1)])"),
        ],
        child="nothing",
        window=SEES,
    )
    result = await run(model, scan)
    assert [(one.verified, one.seen) for one in result.citations] == [(False, False)]
    roots = [request for request in model.requests if request.role == "root"]
    assert len(roots) == 2, "the first answer was refused for its evidence"


async def test_a_blind_model_is_refused_before_anything_is_paid(run, block, tmp_path) -> None:
    """The PDF has text, so it loads. The root is not told of `look`, and a guess gets the remedy."""
    pdf = scanned_pdf(tmp_path / "mixed.pdf", ["A chart"], text={1: "Figure 7 shows rain."})
    for sees, says in ((False, "does not see pictures"), (None, r"sees = true")):
        model = ScriptedModel.of(
            root=[
                block("look(documents()[0].page(1), 'What?')"),
                block("finalize('no', evidence=['Figure 7 shows rain.'])"),
            ],
            window=ModelWindow(128_000, 8_000, sees=sees),
        )
        result = await run(model, pdf)
        assert result.sub_calls == 0
        second = [request for request in model.requests if request.role == "root"][1]
        assert says in second.messages[-1].content
        assert "--sub-model" in second.messages[-1].content
        assert "look(" not in second.messages[0].content


async def test_a_scan_without_a_model_that_sees_names_the_remedy(run, block, scan, tmp_path) -> None:
    photo = save_picture(tmp_path / "photo.jpg", "A photo")
    model = ScriptedModel.of(root=[block("finalize('no')")])
    for path in (scan, photo):
        with pytest.raises(DocumentError, match=r"--sub-model that sees, and pip install -e '\.\[vision\]'"):
            await run(model, path)


async def test_pictures_are_reserved_by_their_pixels(tmp_path: Path) -> None:
    """A call whose words fit the tokens that are left, but not its picture, is not sent. What pictures take
    does not bend the estimate of text."""
    model = ScriptedModel.of(child=Reply("!", usage=TokenUsage(input_tokens=2_000)))
    picture = Image("image/png", b"x", 1109, 1568)
    message = Message("user", "?", images=(picture,))
    request = Request("child", (message,), max_output_tokens=0, task="?")
    most = image_tokens(model.name, picture)
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        for tokens in (most, most + 200):
            metered = MeteredModel(Budget(Limits(tokens=tokens)), log, Recording(), lambda _: None, Prices())
            if tokens == most:
                with pytest.raises(BudgetExhausted, match="tokens"):
                    await metered.ask(model, request, prompt_tokens=100, event_fields={})
            else:
                await metered.ask(model, request, prompt_tokens=100, event_fields={})
                assert metered.calibrated(model, 1_000) == 1_000
    assert len(model.requests) == 1


async def test_a_page_is_looked_at_once_for_the_same_question(run, block, scan) -> None:
    model = ScriptedModel.of(
        root=[
            block(
                "p = documents()[0].page(1)\na, b = look(p, 'What?'), look(p, 'What?')\n"
                "c, d = look(p, 'Why?'), look(documents()[0].page(2), 'What?')\n"
                "finalize([a, b.cached, c, d], evidence=[a])"
            )
        ],
        child=lambda request: request.task,
        window=SEES,
    )
    result = await run(model, scan)
    assert result.answer == ["What?", True, "Why?", "What?"]
    assert len(children(model)) == 3


async def test_a_schema_gives_values_from_pages(run, block, scan) -> None:
    model = ScriptedModel.of(
        root=[
            block(
                "saw = look([documents()[0].page(1)], 'The total?', schema={'total': 'number'})\n"
                "finalize(saw[0].value, evidence=saw)"
            )
        ],
        child='{"total": 93.2}',
        window=SEES,
    )
    assert (await run(model, scan)).answer == {"total": 93.2}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("look(documents()[0].page(9), 'x')", "has no page 9: its pages are 1 to 3"),
        ("look(documents()[1], 'x')", "'notes.md' (kind markdown) has no pages to look at"),
        ("look(('scan.pdf', 0), 'x')", "has no page 0"),
        ("look([], 'x')", "there is no page. Nothing was sent"),
        ("look(None, 'x')", "there is no page. Nothing was sent"),
        ("look('nothing.pdf', 'x')", "no document is named 'nothing.pdf'"),
        ("look(documents()[0].page(1))", "Call look(pages, prompt"),
    ],
)
async def test_a_wrong_place_says_what_to_do(run, block, scan, tmp_path, call, says) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nSome words.\n")
    model = ScriptedModel.of(
        root=[block(call), block("finalize('x', evidence=['Some words.'])")], window=SEES
    )
    await run(model, [scan, tmp_path / "notes.md"])
    second = [request for request in model.requests if request.role == "root"][1]
    assert says in second.messages[-1].content


async def test_a_child_that_finds_nothing_says_so(run, block, scan) -> None:
    model = ScriptedModel.of(
        root=[block("saw = look(documents()[0].page(1), 'x')\nfinalize(saw.found, evidence=[saw])")],
        child=NOT_FOUND,
        window=SEES,
    )
    assert (await run(model, scan)).answer is False


async def test_a_picture_beyond_what_is_drawn_fails_alone(run, block, scan, tmp_path) -> None:
    """The page that crashes its reader is a failed child with its reason; the others are answered."""
    bad = tmp_path / "bad.jpg"
    whole = io.BytesIO()

    picture_of("x").save(whole, "JPEG")
    bad.write_bytes(whole.getvalue()[:400])
    model = ScriptedModel.of(
        root=[
            block(
                "saw = look([documents()[0].page(1), ('bad.jpg', 1)], 'x')\n"
                "finalize([one.ok for one in saw], evidence=saw[:1])"
            )
        ],
        child="seen",
        window=SEES,
    )
    result = await run(model, [scan, bad])
    assert result.answer in ([True, False], [True, True])
    assert len(children(model)) == result.answer.count(True)


async def test_a_sub_rlm_looks_at_its_own_pages(run, block, scan, tmp_path) -> None:
    """Its source is a window of the body: its page is the page of the file, and what it saw counts above."""
    (tmp_path / "a.md").write_text("Some words before the scan.\n")
    model = ScriptedModel.of(
        root=[
            block("d = documents()[1]\nfinalize(sub_rlm('Look', d.page(2)), evidence=[d.page(2)])"),
            block("finalize(look(documents()[0], 'What?'), evidence=[documents()[0].page(1)])"),
        ],
        child="Page two",
        window=SEES,
    )
    result = await run(model, [tmp_path / "a.md", scan])
    assert result.answer == "Page two"
    (child,) = children(model)
    assert len(images(child)) == 1
    assert result.coverage.pages_looked == 1
    assert [(one.page, one.seen) for one in result.citations] == [(2, True)]


async def test_what_a_child_read_on_a_page_may_be_quoted(run, block, scan) -> None:
    """No text holds the passage. It is cited as seen, with its page; words that no child read are refused."""
    look = "saw = look([documents()[0].page(1), documents()[0].page(2)], 'What?')\n"
    made_up = "finalize('It says “a total of seven hundred” [1].', evidence=saw)"
    read = "finalize('It says “Total, 93.20 EUR in all” [1].', confidence='high', evidence=saw)"
    model = ScriptedModel.of(
        root=[block(look + made_up), block(read)],
        child=lambda request: (
            "The page reads: total 93.20 EUR in all" if request.slices[0].span.start == 0 else "nothing"
        ),
        window=SEES,
    )
    result = await run(model, scan)
    roots = [request for request in model.requests if request.role == "root"]
    assert "a total of seven hundred" in roots[1].messages[-1].content
    assert [(one.page, one.quote, one.verified, one.seen) for one in result.citations] == [
        (1, "", False, True),
        (2, "", False, True),
        (1, "Total, 93.20 EUR in all", False, True),
    ]
    assert "“Total, 93.20 EUR in all”" in answer_text(result)
    assert "not verifiable by text" in result.markdown()
    assert "not verifiable by text" in result._repr_html_()


async def test_each_page_has_its_own_picture(run, block, scan) -> None:
    model = ScriptedModel.of(
        root=[
            block("saw = look([documents()[0].page(n) for n in (1, 2, 3)], 'x')\nfinalize(1, evidence=saw)")
        ],
        child="seen",
        window=SEES,
    )
    await run(model, scan)
    assert len({images(one)[0].sha256 for one in children(model)}) == 3


async def test_of_several_sub_models_the_first_that_sees_looks(run, block, scan) -> None:
    root = ScriptedModel.of(
        root=[block("finalize(look(documents()[0].page(1), 'x'), evidence=[documents()[0].page(1)])")]
    )
    blind = ScriptedModel.of(child="nothing")
    seer = ScriptedModel.of(child="a total", window=SEES)
    result = await run(root, scan, sub_models={"cheap": blind, "seer": seer})
    assert result.answer == "a total"
    assert (len(children(blind)), len(children(seer))) == (0, 1)
