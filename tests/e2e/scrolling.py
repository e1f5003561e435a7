"""Scrolls a long list of missions in the browser and measures the long tasks of the main thread.

python -m tests.e2e.scrolling [MISSIONS]      100,000 by default; exit 1 when a task took longer
than 100 ms
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import date, timedelta

from playwright.async_api import Page, expect

from regente.app import Regente
from regente.pipelines.missions.args import MissionArgs
from tests.api.processes import command
from tests.e2e.environment import chromium, own_server

MOST_MS = 100
CHUNK = 10_000
ROWS = ".grid-row:not(.grid-head)"
WATCH = """() => { window.long = []; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.long.push(Math.round(entry.duration)); })
  .observe({type: 'longtask'}); }"""
SCROLL = """([steps, by]) => new Promise((done) => {
  const box = document.querySelector('.grid-scroll'); let left = steps;
  const step = () => { box.scrollBy(0, by); left -= 1;
    left > 0 ? requestAnimationFrame(step) : done(box.scrollTop); }; step(); })"""


@dataclass(frozen=True, slots=True)
class Measured:
    rows: int
    longest_ms: int
    long_tasks: int
    most_in_document: int
    filter_ms: int


async def make_missions(app: Regente, count: int) -> None:
    first = date(2000, 1, 1)
    for start in range(0, count, CHUNK):
        chunk = range(start, min(count, start + CHUNK))
        days = [first + timedelta(days=number % 9000) for number in chunk]
        await app.missions.create(
            [
                MissionArgs(date_start=day, date_end=day, media_type="video", languages=("pt",))
                for day in days
            ],
            by="scrolling",
        )


async def measure(page: Page, url: str, rounds: int) -> Measured:
    await page.goto(f"{url}/missions")
    await expect(page.locator(ROWS).first).to_be_visible()
    await page.evaluate(WATCH)
    most = 0
    for _ in range(rounds):
        await page.evaluate(SCROLL, [60, 120])
        most = max(most, await page.locator(ROWS).count())
    rows = int(await page.locator("[role=table]").get_attribute("aria-rowcount") or 0) - 1
    long: list[int] = await page.evaluate("window.long")
    began = time.monotonic()
    await page.get_by_role("button", name="Na fila").click()
    await expect(page.get_by_text("Nenhuma missão corresponde a este filtro.")).to_be_visible()
    return Measured(
        rows, max(long, default=0), len(long), most, round((time.monotonic() - began) * 1000)
    )


async def main(count: int) -> int:
    async with own_server() as (url, folder):
        folder.mkdir()
        async with Regente(url) as app:
            await make_missions(app, count)
        async with command(url, folder) as served, chromium() as browser:
            context = await browser.new_context(
                locale="pt-BR", viewport={"width": 1280, "height": 900}
            )
            page = await context.new_page()
            await page.goto(served["sign_in"])
            await expect(page.locator(".live")).to_have_text("Ao vivo", timeout=30_000)
            found = await measure(page, served["url"], rounds=40)
    print(found)
    return int(found.longest_ms > MOST_MS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 100_000)))
