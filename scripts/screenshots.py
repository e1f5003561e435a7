"""Every page of the console in both languages and themes, into screenshots/ (not committed), taken
from a running demo.

python scripts/screenshots.py            all of them, and four for docs/images
python scripts/screenshots.py overview   only the pages with these names
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.async_api import Browser, Page  # noqa: E402
from tests.e2e.environment import Demo, chromium, demo_up, own_server, running_demo  # noqa: E402
from tests.e2e.failing_pipelines import run_failing_pipelines  # noqa: E402
from tests.e2e.outcomes import Outcomes, outcomes  # noqa: E402

FOLDER = ROOT / "screenshots"
IMAGES = ROOT / "docs" / "images"
CHOSEN = {
    ("overview", "en", "light"),
    ("missions", "pt-BR", "dark"),
    ("mission", "en", "dark"),
    ("batches", "pt-BR", "light"),
}
PAGES = {
    "sign-in": "sign-in",
    "overview": "",
    "missions": "missions",
    "create": "missions?new=1",
    "mission": "missions/{mission}",
    "batches": "batches",
    "failures": "failures",
    "fleet": "fleet",
    "runners": "runners",
    "audit": "audit",
    "audit-timeline": "audit?report=timeline&mission={mission}",
    "audit-workers": "audit?report=workers",
    "settings": "settings",
    "quotes": "results",
    "lot": "results/lots/{lot}",
    "quote": "results/quotes/{quote}",
    "rounds": "results?of=rounds",
    "round": "results/rounds/{round}",
    "match": "results/rounds/{round}/{match}",
    "documents": "results?of=documents",
    "execution": "results/executions/{execution}",
    "embeddings": "results?of=embeddings",
}
LANGUAGES = ("pt-BR", "en")
THEMES = ("light", "dark")
SIZES = {"": (1280, 860), "-phone": (390, 800)}
MAX_BYTES = 150_000


async def take(demo: Demo, names: list[str], results: Outcomes) -> None:
    async with demo.client() as client, chromium() as browser:
        missions = (
            await client.get("/api/missions", params={"statuses": ["failed", "completed"]})
        ).json()["items"]
        shown = next(
            (one for one in missions if one["status"] == "failed"), missions[0]
        )  # it has retries to show
        paths = {name: PAGES[name].format(mission=shown["id"], **asdict(results)) for name in names}
        for language in LANGUAGES:
            for theme in THEMES:
                await take_all(browser, demo, paths, language, theme)


async def take_all(
    browser: Browser, demo: Demo, paths: dict[str, str], language: str, theme: str
) -> None:
    for size, (width, height) in SIZES.items():
        if size and (language, theme) != ("pt-BR", "light"):
            continue  # one set is enough to see how a phone shows it
        context = await browser.new_context(
            locale=language,
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
            color_scheme="dark" if theme == "dark" else "light",
        )
        page = await context.new_page()
        if "sign-in" in paths:
            await shoot(page, demo, "sign-in", paths["sign-in"], language, theme, size)
        await context.request.post(f"{demo.url}/api/session", data={"api_key": demo.api_key})
        for name, path in paths.items():
            if name != "sign-in":
                await shoot(page, demo, name, path, language, theme, size)
        await context.close()


async def shoot(
    page: Page, demo: Demo, name: str, path: str, language: str, theme: str, size: str
) -> None:
    await page.goto(f"{demo.url}/{path}")
    await page.get_by_role("heading", level=1).first.wait_for()
    if name == "overview":
        await page.locator(".bars").first.wait_for()
    await page.wait_for_timeout(800)
    if name == "failures":
        group = page.get_by_role("article", name="BLOCKED_PAGE")
        await group.get_by_role("button", name="Mostrar" if language == "pt-BR" else "Show").click()
        await group.get_by_role(
            "button", name="Detalhes" if language == "pt-BR" else "Details"
        ).first.click()
        await group.get_by_role(
            "button", name="página" if language == "pt-BR" else "as a page"
        ).first.click()
        await page.wait_for_timeout(300)
    await page.screenshot(
        path=FOLDER / f"{name}-{language}-{theme}{size}.png",
        full_page=bool(size) or name in ("mission", "overview", "failures", "quote", "match"),
    )
    if (name, language, theme) in CHOSEN and not size:
        image = await page.screenshot(path=IMAGES / f"{name}.png")
        assert len(image) < MAX_BYTES, f"the image of {name} has {len(image)} bytes"


async def main() -> None:
    names = [name for name in PAGES if not sys.argv[1:] or name in sys.argv[1:]]
    async with AsyncExitStack() as stack:
        if given := os.environ.get("REGENTE_E2E_DEMO"):
            demo = running_demo(Path(given))
        else:
            url, folder = await stack.enter_async_context(own_server())
            demo = await stack.enter_async_context(demo_up(url, folder))
        await demo.settled.wait()
        results = await outcomes(demo)
        failing_pipelines = await stack.enter_async_context(
            run_failing_pipelines(demo.database_url)
        )
        await failing_pipelines.stuck_batch("cotacoes-rodada-7")
        await failing_pipelines.dead_letters(3)
        await failing_pipelines.unanswered_payments(2)
        await take(demo, names, results)
    print(
        f"{len(list(FOLDER.glob('*.png')))} screenshots in {FOLDER.relative_to(ROOT)}, "
        f"4 in {IMAGES.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    asyncio.run(main())
