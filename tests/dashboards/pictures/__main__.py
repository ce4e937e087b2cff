"""Writes docs/pictures: the three dashboards and the live page during a demo wave.

Usage: python -m tests.dashboards.pictures [--seconds 120] [--keep FOLDER]

Needs Prometheus, Chromium, npm and playwright; `make panels` installs the last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from tests.dashboards.pictures.modules import bundle
from tests.dashboards.pictures.stack import Stack, running
from tests.dashboards.pictures.visitors import visit

PICTURES = Path("docs/pictures")
LARGEST = 300_000
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Until rates and quantiles have two scrapes to stand on.
WARM_UP = 15.0
DRAW_MILLISECONDS = 120_000
BOARDS = ("now", "decisions", "engines")


async def main(seconds: float, keep: Path | None) -> int:
    """Run the stack for that long, then draw. Exit status 1 where a picture is too large."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = await asyncio.to_thread(bundle, folder)
        async with running(folder) as stack, async_playwright() as tool:
            chromium = shutil.which("chromium")
            assert chromium, "Debian: apt-get install chromium"
            browser = await tool.chromium.launch(executable_path=chromium, args=FLAGS)
            visiting = asyncio.create_task(visit(stack.router.data_port))
            try:
                await asyncio.sleep(WARM_UP)
                start = time.time()
                await live_page(browser, stack, seconds)
                for board in BOARDS:
                    await draw(browser, index, board, stack.prometheus.port, start, start + seconds)
            finally:
                visiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await visiting
                await browser.close()
            if keep is not None:
                shutil.copy(stack.decisions, keep)
    return report()


async def live_page(browser: Browser, stack: Stack, seconds: float) -> None:
    """The admin port's page, looked at for that long so that its curves are full."""
    page = await browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="dark")
    await page.goto(f"http://127.0.0.1:{stack.router.admin_port}/")
    await asyncio.sleep(seconds)
    await page.screenshot(path=PICTURES / "page.png", full_page=True)
    await page.close()


async def draw(browser: Browser, index: Path, board: str, prometheus: int, start: float, end: float) -> None:
    """One dashboard over a span of time."""
    page = await browser.new_page(viewport={"width": 1410, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # On whole steps, as Grafana aligns them.
    span = f"start={start // 2 * 2:.0f}&end={end // 2 * 2:.0f}"
    await page.goto(f"{index.as_uri()}#board={board}&prometheus={prometheus}&{span}")
    await page.wait_for_function("window.empty || window.failed", timeout=DRAW_MILLISECONDS)
    failed = await page.evaluate("window.failed")
    assert not failed, failed
    await page.wait_for_selector("canvas", timeout=DRAW_MILLISECONDS)
    await page.wait_for_timeout(1500)
    assert not complaints, complaints
    await page.locator("#panels").screenshot(path=PICTURES / f"dashboard-{board}.png")
    print(f"{board}: no data in {', '.join(await page.evaluate('window.empty')) or 'no panel'}")
    await page.close()


def report() -> int:
    """Sizes; 1 if one is too large for a repository."""
    sizes = {file.name: file.stat().st_size for file in sorted(PICTURES.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{name}: {size:,} bytes")
    return int(any(size > LARGEST for size in sizes.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--keep", type=Path, help="folder for the log of decisions")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.seconds, options.keep)))
