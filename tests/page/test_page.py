"""The live page in headless Chromium, over a running router and two simulated engines."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path as File

import pytest

from router.core.words import Path
from tests.cases.kit.client import ask, post
from tests.cases.kit.router import RouterProcess
from tests.soak.engines import EngineProcess

playwright = pytest.importorskip("playwright.async_api", reason="make test-page installs playwright")

TOKEN = "page-test-token"
MARKER = "prompt-that-must-not-show"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


class Stack:
    """Router, engines and one page."""

    def __init__(self, router: RouterProcess, page: playwright.Page) -> None:
        self.router = router
        self.page = page
        self.requested: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.router.admin_port}/"


@pytest.fixture
async def stack(tmp_path: File) -> AsyncIterator[Stack]:
    engines = [EngineProcess(path) for path in Path]
    config = {"admin": {"token": TOKEN}, "policy": {"high": 4, "low": 1, "dwell": "1s", "smoothing": "200ms"}}
    router = RouterProcess(tmp_path, engines[0].url, engines[1].url, config)
    chromium = shutil.which("chromium")
    assert chromium, "Debian: apt-get install chromium"
    try:
        await asyncio.gather(*(engine.start() for engine in engines))
        await router.start()
        async with playwright.async_playwright() as tool:
            browser = await tool.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            page = await browser.new_page(viewport={"width": 1000, "height": 1100})
            made = Stack(router, page)
            await page.goto(made.url)
            await playwright.expect(page.locator("#connection")).to_have_text("live")
            yield made
            await browser.close()
    finally:
        router.kill()
        for engine in engines:
            engine.kill()


def _chat(stack: Stack) -> object:
    body = (
        f'{{"model":"m","stream":true,"max_tokens":200,"messages":[{{"role":"user","content":"{MARKER}"}}]}}'
    )
    return ask(stack.router.data_port, post(body.encode()), 60.0)


async def test_it_shows_a_switch_while_it_happens(stack: Stack) -> None:
    active = stack.page.locator("#active")
    await playwright.expect(active).to_have_text("speculative")
    load = [asyncio.ensure_future(_chat(stack)) for _ in range(8)]
    await playwright.expect(active).to_have_text("baseline", timeout=5000)
    await playwright.expect(stack.page.locator("#why")).to_contain_text("load rose to")
    await playwright.expect(stack.page.locator("#switches")).to_contain_text("speculative → baseline")
    await asyncio.gather(*load)
    await playwright.expect(active).to_have_text("speculative", timeout=8000)
    assert await stack.page.locator("#plot polyline").get_attribute("points")
    assert stack.complaints == []


async def test_pinning_needs_the_token_and_works_with_the_keyboard_alone(stack: Stack) -> None:
    page = stack.page
    await page.locator("select[name=path]").select_option("baseline")
    await page.locator("input[name=reason]").fill("<b>because</b>")
    await page.locator("input[name=token]").fill("wrong")
    await page.keyboard.press("Enter")
    await playwright.expect(page.locator("#pin-answer")).to_contain_text("admin token")
    await playwright.expect(page.locator("#active")).to_have_text("speculative")
    await page.locator("input[name=token]").fill(TOKEN)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await playwright.expect(page.locator("#pinned")).to_contain_text("pinned to baseline for another")
    await playwright.expect(page.locator("#pinned")).to_contain_text("<b>because</b>")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await playwright.expect(page.locator("#pinned")).to_be_hidden()
    await playwright.expect(page.locator("#active")).to_have_text("speculative")


async def test_nothing_leaks_and_nothing_comes_from_elsewhere(stack: Stack) -> None:
    await _chat(stack)
    await stack.page.locator("input[name=token]").fill(TOKEN)
    await stack.page.reload()
    await playwright.expect(stack.page.locator("#connection")).to_have_text("live")
    assert all(url.startswith(stack.url) for url in stack.requested)
    assert TOKEN not in "".join(stack.requested)
    for target in ("/", "/admin/status", "/admin/decisions", "/metrics"):
        text = (await stack.router.get(target, admin=True)).body.decode()
        assert MARKER not in text
        assert TOKEN not in text
    assert MARKER not in stack.router.log
    assert TOKEN not in stack.router.log


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_in_both_colour_schemes(stack: Stack, scheme: str) -> None:
    await stack.page.emulate_media(color_scheme=scheme)
    await stack.page.set_viewport_size({"width": 360, "height": 740})
    await stack.page.reload()
    await playwright.expect(stack.page.locator("#connection")).to_have_text("live")
    assert await stack.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    back, text = await stack.page.evaluate(
        "['backgroundColor', 'color']"
        ".map(name => Number(getComputedStyle(document.body)[name].match(/[0-9]+/)[0]))"
    )
    assert (back < text) == (scheme == "dark")


async def test_it_says_when_the_router_is_gone(stack: Stack) -> None:
    stack.router.kill()
    await playwright.expect(stack.page.locator("#connection")).to_contain_text("no answer", timeout=5000)
