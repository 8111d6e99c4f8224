"""Test the page in a real Chromium."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.results import Coverage, RunResult
from rlm.testing import ScriptedModel
from rlm.viewer import LocalServer, export_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium is installed (Debian: sudo apt install chromium)"
    ),
    pytest.mark.timeout(240),
]
_ARGUMENTS = (
    "--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
_GONE = "net::ERR_CONNECTION_REFUSED"
TABS = ("answer", "steps", "timeline", "coverage", "children")


@dataclass
class Watched:
    """A page of the browser, with what it asked for and what went wrong in it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def texts(self, selector: str) -> list[str]:
        return [str(text) for text in await self.page.locator(selector).all_inner_texts()]


Open = Callable[..., Awaitable[Watched]]


@pytest.fixture
async def browse() -> AsyncIterator[Open]:
    """Yield `browse(url, width=1440)`. In the end, no page may have had an error."""
    playwright = pytest.importorskip(
        "playwright.async_api", reason="playwright is not installed (make setup)"
    )
    opened: list[Watched] = []
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))

        async def browse(url: str, *, width: int = 1440, height: int = 900, scheme: str = "light") -> Watched:
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            watched = Watched(await context.new_page())
            watched.page.on("request", lambda request: watched.requests.append(request.url))
            watched.page.on("pageerror", lambda error: watched.problems.append(str(error)))
            watched.page.on("dialog", lambda dialog: watched.problems.append(f"dialog {dialog.message}"))
            watched.page.on(
                "console", lambda line: watched.problems.append(line.text) if line.type == "error" else None
            )
            opened.append(watched)
            await watched.page.goto(url)
            return watched

        try:
            yield browse
            # The server may be stopped before the page is closed.
            problems = [line for watched in opened for line in watched.problems if _GONE not in line]
            assert problems == []
        finally:
            await browser.close()


@pytest.fixture
async def server(yard_views) -> AsyncIterator[LocalServer]:
    async with LocalServer.start(yard_views) as started:
        yield started


@pytest.fixture
async def own_server(views) -> AsyncIterator[LocalServer]:
    """Yield the server of the empty journal."""
    async with LocalServer.start(views) as started:
        yield started


async def test_a_citation_opens_its_place_in_the_source(server, browse, yards) -> None:
    seen = await browse(f"{server.url}#/run/{yards.newest}")
    page = seen.page
    await page.wait_for_selector(".citation")
    assert "of 160 t" in " ".join(await seen.texts(".answer"))
    assert len(await seen.texts(".claim.unsupported")) > 0
    await page.locator(".citation").nth(1).click()
    await page.wait_for_selector(".panel mark")
    assert (await seen.texts(".panel mark"))[0].strip() == "The rent of the crane is 21,400 euros a month"
    assert "Contract of the Harbour yard" in " ".join(await seen.texts(".page-text"))
    assert await seen.texts(".panel .badge") == []  # nothing is wrong
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await page.wait_for_selector(".panel .claim-box.unsupported")
    assert "Visitors fly" in " ".join(await seen.texts(".panel .claim-box"))
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".panel", state="detached")
    assert {url.split("#")[0] for url in seen.requests if not url.startswith(server.url)} == {"data:,"} & set(
        seen.requests
    )


async def test_code_output_and_children_are_side_by_side(server, browse, yards) -> None:
    seen = await browse(f"{server.url}#/run/{yards.newest}/steps", width=1700)
    await seen.page.wait_for_selector("article.step .child-line")
    assert "no block" in await seen.texts(".step .badge.bad")
    assert "NameError" in " ".join(await seen.texts(".text.bad pre"))
    assert "sub_query_batch" in await seen.texts(".py-call")
    step = seen.page.locator("article.step", has_text="16 children").first
    boxes = [await step.locator(".column").nth(place).bounding_box() for place in range(3)]
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]
    assert boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    await seen.page.locator(".tree button").nth(1).click()
    await seen.page.wait_for_selector(".node-head")
    assert "Is the notice of the Harbour yard" in " ".join(await seen.texts(".node-head"))


async def test_the_page_counts_as_the_account_does(server, browse, yards, yard_views) -> None:
    """The coverage, the tree and the timeline are folded from the events in the page."""
    result = (await yard_views._journal.last_event(yards.newest)).data
    seen = await browse(f"{server.url}#/run/{yards.newest}/coverage")
    await seen.page.wait_for_selector(".grid")
    shares = dict(zip(await seen.texts(".strip-name"), await seen.texts(".strip-share"), strict=True))
    whole = result["coverage"]["input_chars"]
    for lane in ("read", "answered", "failed"):
        part = result["coverage"][f"{lane}_chars"]
        assert shares[lane] == f"{100 * part // whole} %", lane
    assert len(await seen.texts(".grid tbody tr")) == 6
    assert [text.split("\n")[1] for text in await seen.texts(".tree button")] == [
        "7 rounds · 16 children · 1 failed · $0.218", "2 rounds · 1 child · $0.041"
    ]  # fmt: skip
    await seen.page.keyboard.press("3")
    await seen.page.wait_for_selector(".cost-row")
    assert {"Round 1", "block 2", "16 children", "check"} <= set(await seen.texts(".bar-name"))
    # What the child of a sub-RLM got is a place in the whole input.
    await seen.page.locator(".tree button").nth(1).click()
    await seen.page.keyboard.press("5")
    await seen.page.locator("button.child-row").click()
    chip = (await seen.page.locator(".panel .chip").inner_text()).removeprefix("characters ")
    assert int(chip.partition("–")[0].replace(",", "")) > 900


async def test_markdown_of_an_answer_has_its_shape(own_server, browse, journal) -> None:
    answer = "## Price\n\n- **5 euros** a month, `net`\n\n| a | b |\n<b>text</b>"
    async with journal.run("r1", "q", {}) as log:
        ended = RunResult("r1", answer, None, "finalized", False, "rlm", (), Coverage(10), (), 1, 0, 1.0)
        await log.append("finished", ended.to_json())
    seen = await browse(f"{own_server.url}#/run/r1")
    await seen.page.wait_for_selector(".answer .heading")
    assert await seen.texts(".answer .heading") == ["Price"]
    assert await seen.texts(".answer .item") == ["5 euros a month, net"]
    assert await seen.texts(".answer b") == ["5 euros"]
    assert "<b>text</b>" in await seen.texts(".answer .line")


async def test_the_keyboard(server, browse, yards) -> None:
    """j and k walk, Enter opens, digits and arrows turn the tabs, / searches, ? helps."""
    seen = await browse(server.url)
    page = seen.page
    await page.wait_for_selector(".runs a")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".citation")
    for _ in range(3):
        await page.keyboard.press("j")
    await page.keyboard.press("k")
    assert await page.evaluate("document.activeElement.matches('[data-item]')")
    await page.keyboard.press("ArrowRight")
    await page.wait_for_selector("article.step")
    for digit, selector in (("3", ".waterfall"), ("4", ".strip"), ("5", ".child-row"), ("1", ".citation")):
        await page.keyboard.press(digit)
        await page.wait_for_selector(selector)
    await page.keyboard.press("?")
    await page.wait_for_selector(".help")
    await page.keyboard.press("Escape")
    await page.keyboard.press("/")
    await page.wait_for_selector(".search input")
    await page.keyboard.type("lifts 160 t")
    await page.wait_for_selector(".hit")
    assert any("citation 1" in hit for hit in await seen.texts(".hit"))
    assert any("child of round 3" in hit for hit in await seen.texts(".hit"))
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".search", state="detached")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.wait_for_selector(".runs a")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1100), (1440, 900)])
async def test_no_view_scrolls_sideways(server, browse, yards, width: int, height: int) -> None:
    seen = await browse(f"{server.url}#/", width=width, height=height, scheme="dark")
    places = [
        "#/",
        *(f"#/run/{yards.newest}/{tab}" for tab in TABS),
    ]
    ready = (
        ".runs a",
        ".citation",
        "article.step",
        ".bar-row",
        ".grid",
        ".child-row",
    )
    for place, selector in zip(places, ready, strict=True):
        await seen.page.evaluate("place => { location.hash = place; }", place)
        await seen.page.wait_for_selector(selector)
        wide, inner = await seen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert (place, wide) == (place, inner)
    await seen.page.evaluate("place => { location.hash = place; }", places[1])
    await seen.page.locator(".citation").first.click()
    await seen.page.wait_for_selector(".panel mark")
    assert await seen.page.evaluate("document.documentElement.scrollWidth") == width


async def test_dark_and_light(server, browse, yards) -> None:
    async def back(watched: Watched) -> str:
        await watched.page.wait_for_selector(".runs a")
        return str(await watched.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = await browse(server.url), await browse(server.url, scheme="dark")
    colours = (await back(light), await back(dark))
    assert colours == ("rgb(247, 247, 248)", "rgb(19, 20, 24)")
    await dark.page.keyboard.press("t")
    assert await back(dark) == colours[0]


EVIL = (
    "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
    "<svg onload='window.pwned = 3'></svg>{{script}}<!-- ${window.pwned = 4} \u202eevil\u2028"
)


async def test_hostile_text_stays_text(own_server, browse, journal, views, tmp_path, sandbox_level) -> None:
    """Wherever it comes from: a document and its name, the question, a model, an output, a tool."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "<img src=x onerror=alert(1)>.txt").write_text(f"The price is 5. {EVIL}\n", encoding="utf-8")
    store = tmp_path / "own.db"
    quoted = repr(EVIL)
    script = [
        EVIL,
        f"```repl\nprint({quoted})\n```",
        f"```repl\nsaid = sub_query({quoted}, (0, 40))\nlookup({quoted})\nraise ValueError({quoted})\n```",
        f"```repl\nfinalize('It is 5 [1]. ' + {quoted}, evidence=['The price is 5. ' + {quoted}[:30]])\n```",
    ]

    def lookup(word: str) -> str:
        """Look a word up."""
        return word

    rlm = RLM(
        ScriptedModel.of(root=script, child=EVIL),
        settings=Settings(strategy="rlm", sandbox=sandbox_level, store=store),
        tools=[lookup],
    )
    try:
        result = await rlm.run(f"What is the price? {EVIL}", folder)
    finally:
        await rlm.aclose()
    exported = tmp_path / "page.html"
    exported.write_bytes(await export_page(views, result.run_id))
    for url in (own_server.url, exported.as_uri()):
        seen = await browse(f"{url}#/run/{result.run_id}")
        page = seen.page
        for tab in TABS:
            await page.evaluate("place => { location.hash = place; }", f"#/run/{result.run_id}/{tab}")
            await page.wait_for_selector(f".tabs a[aria-current][href$='{tab}']")
            await page.wait_for_timeout(300)
            assert await page.evaluate("window.pwned") is None
            assert (
                await page.evaluate(
                    "document.querySelectorAll('img, main svg[onload], iframe, object').length"
                )
                == 0
            )
        await page.locator("button.child-row").first.click()
        await page.wait_for_selector(".panel .facts")
        shown = await page.evaluate("document.body.innerText")
        assert "window.pwned = 2" in shown
        assert "\u202e" not in shown
        assert await page.evaluate("window.pwned") is None


async def test_the_policy_blocks_what_text_could_smuggle_in(server, browse, yards) -> None:
    seen = await browse(f"{server.url}#/run/{yards.newest}")
    await seen.page.wait_for_selector(".citation")
    await seen.page.evaluate(
        """() => {
          window.blocked = [];
          const note = (event) => window.blocked.push(event.effectiveDirective);
          addEventListener('securitypolicyviolation', note);
          const frame = document.createElement('iframe');
          frame.src = 'https://example.com/';
          document.body.append(frame);
          const style = document.createElement('style');
          style.textContent = 'body { display: none }';
          document.body.append(style);
          fetch('https://example.com/').catch(() => {});
          const image = new Image();
          image.src = 'https://example.com/x.png';
        }"""
    )
    script = "Object.assign(document.createElement('script'), {textContent: 'window.pwned = 1'})"
    for attempt in (
        "document.body.innerHTML = '<img src=x onerror=\"window.pwned = 4\">'",
        f"document.body.append({script})",
        "setTimeout(() => eval('window.pwned = 2'))",  # a timer: the debugger itself may use eval
        "setTimeout('window.pwned = 3')",
    ):
        await seen.page.evaluate(f"() => {{ try {{ {attempt}; }} catch {{}} }}")
    await seen.page.wait_for_timeout(300)
    seen.problems.clear()  # the browser reports what it blocked
    assert await seen.page.evaluate("window.pwned") is None
    blocked = set(await seen.page.evaluate("window.blocked"))
    assert {"frame-src", "style-src-elem", "connect-src", "img-src"} <= blocked


async def test_a_run_of_another_process_is_live(own_server, browse, journal, child_event) -> None:
    async with journal.run(
        "20260101-000000-live", "How many?", {"model": "m", "context_chars": 1_000}
    ) as log:
        seen = await browse(f"{own_server.url}#/run/20260101-000000-live/steps")
        await seen.page.wait_for_selector(".badge.live")
        call = {
            "role": "root",
            "model": "m",
            "round": 1,
            "reply": "```repl\nprint('first')\n```",
            "usage": {},
        }
        await log.append("model_call", {**call, "cost_usd": 0.1, "seconds": 0.1})
        await seen.page.wait_for_selector("article.step", timeout=10_000)
        await log.append("child", child_event(1, "the child says so"))
        await seen.page.wait_for_selector("text=the child says so", timeout=10_000)
        await log.append(
            "cell",
            {
                "round": 1,
                "code": "print('first')",
                "result": {"report": {}, "status": "ok", "stdout": "first light"},
            },
        )
        await seen.page.wait_for_selector("text=first light", timeout=10_000)
    await seen.page.wait_for_selector(".head .badge:has-text('stopped')", timeout=10_000)


async def test_an_exported_page_needs_nothing(browse, yard_views, yards, tmp_path) -> None:
    """It opens from a file, asks for nothing, and shows what the live page does."""
    page_file = tmp_path / "page.html"
    page_file.write_bytes(await export_page(yard_views, yards.newest))
    seen = await browse(page_file.as_uri())
    await seen.page.wait_for_selector(".citation")
    await seen.page.locator(".citation").first.click()
    await seen.page.wait_for_selector(".panel mark")
    await seen.page.keyboard.press("Escape")
    await seen.page.keyboard.press("5")
    await seen.page.locator("button.child-row").nth(1).click()
    await seen.page.wait_for_selector(".panel .facts")
    assert "By this contract" in " ".join(await seen.texts(".panel pre"))
    assert [url for url in seen.requests if not url.startswith("data:")] == [page_file.as_uri()]


async def test_ten_thousand_children(own_server, browse, write_children, record_property) -> None:
    """The first rows are there, and more on demand; a filter finds one of all."""
    await write_children("r1", 10_000)
    began = time.monotonic()
    seen = await browse(f"{own_server.url}#/run/r1/children")
    await seen.page.wait_for_selector(".child-row .child-reply")
    ready = time.monotonic() - began
    assert len(await seen.texts("button.child-row")) == 300
    await seen.page.locator("text=Show more of 10,000 children").click()
    await seen.page.wait_for_selector("text=part 2299 says 16093")
    began = time.monotonic()
    await seen.page.locator(".filters input").fill("says 51800")
    await seen.page.wait_for_selector("text=1 of 10,000 children")
    filtered = time.monotonic() - began
    measured = f"10,000 children: shown in {ready:.2f} s, a filter in {filtered:.2f} s"
    record_property("measured", measured)
    print(measured)


async def test_the_command_shows_its_own_runs(browse, yards, run_view: Callable[..., Any]) -> None:
    """`rlm view` in another process, opened by the address that it prints."""
    url, process = await run_view(yards.newest[:-1], "--store", str(yards.store), "--no-open")
    seen = await browse(url)
    await seen.page.wait_for_selector(".citation")
    assert url.endswith(f"/#/run/{yards.newest}")
    process.send_signal(2)
    assert await asyncio.wait_for(process.wait(), 20) == 130
    await seen.page.keyboard.press("2")
    await seen.page.locator(".step-links button").first.click()
    await seen.page.wait_for_selector("text=The server does not answer", timeout=10_000)
    seen.problems.clear()  # the browser reports that the server is gone
