"""Keyboard, commands, languages, themes, phone width, path prefix, first run; axe on every page."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, Page, expect

from tests.api.processes import command
from tests.e2e.conftest import sign_in
from tests.e2e.environment import Demo
from tests.e2e.failing_pipelines import FailingPipelines
from tests.e2e.outcomes import Outcomes

AXE = Path(__file__).resolve().parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RESULTS = (
    "results",
    "results?of=rounds",
    "results?of=documents",
    "results?of=embeddings",
    "results/lots/{lot}",
    "results/quotes/{quote}",
    "results/quotes/{unknown}",
    "results/rounds/{round}",
    "results/rounds/{round}/{match}",
    "results/rounds/{round}/{spoilt}",
    "results/executions/{execution}",
)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = (
    "",
    "missions",
    "missions/{id}",
    "missions?new=1",
    "batches",
    "failures",
    "fleet",
    "runners",
    "audit",
    "audit?report=timeline&mission={id}",
    "audit?report=proxies",
    "settings",
    *RESULTS,
)


ANIMATIONS_ENDED = """Promise.allSettled(
  document.getAnimations()
    .filter(({effect}) => effect.getComputedTiming().endTime !== Infinity)
    .map(({finished}) => finished))"""


async def violations(page: Page) -> list[str]:
    """Runs axe in the page's main world, as the content policy allows no foreign script."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text("utf-8"))
    await page.evaluate(ANIMATIONS_ENDED)  # text that fades in has too little contrast
    asked = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    found: list[dict[str, Any]] = await page.evaluate(
        "asked => axe.run(document, asked).then((told) => told.violations)", asked
    )
    return [
        f"{one['id']}: {one['help']} {[node['html'][:160] for node in one['nodes']]}"
        for one in found
    ]


async def test_axe_finds_nothing_on_any_page_in_either_theme(
    page: Page, demo: Demo, completed: int, failing_pipelines: FailingPipelines, results: Outcomes
) -> None:
    """O19: WCAG 2.2 AA."""
    await failing_pipelines.dead_letters(1)
    wrong: dict[tuple[str, str], list[str]] = {}
    for path in PAGES:
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await page.goto(f"{demo.url}/{path.format(id=completed, **asdict(results))}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("Carregando…")).to_have_count(0)
        if path == "failures":
            await page.get_by_role("button", name=re.compile("^Mostrar")).first.click()
            await page.get_by_role("button", name=re.compile("^Detalhes")).first.click()
            await expect(page.get_by_text("Tentativa 1").first).to_be_visible()
        for summary in await page.locator("summary").all():
            await summary.click()
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", theme)
            if found := await violations(page):
                wrong[path, theme] = found
    assert wrong == {}


async def test_axe_finds_nothing_before_signing_in(signed_out_page: Page, demo: Demo) -> None:
    """O19: the sign-in page, too."""
    await signed_out_page.goto(f"{demo.url}/sign-in")
    await expect(signed_out_page.get_by_role("button", name="Entrar")).to_be_visible()
    assert await violations(signed_out_page) == []


async def test_axe_finds_nothing_in_the_documentation(page: Page, demo: Demo) -> None:
    """O18, O19: with an open operation that was tried."""
    await page.goto(f"{demo.url}/docs")
    operation = page.locator("main details").filter(has_text="List missions").first
    for summary in ("List missions", "Try it"):
        await operation.locator("summary").filter(has_text=summary).click()
    await operation.get_by_role("button", name="Send").click()
    await expect(operation.locator("pre").last).to_contain_text("200 OK")
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        assert await violations(page) == []


async def test_everything_by_keyboard(page: Page, demo: Demo, completed: int) -> None:
    """O19: the commands, the shortcuts, and the focus."""
    await page.goto(f"{demo.url}/")
    await expect(page.get_by_role("heading", name="Visão geral")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await expect(page).to_have_url(f"{demo.url}/fleet")
    await expect(page).to_have_title("Frota · Regente")
    assert await page.evaluate("document.activeElement.id") == "main"
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog").get_by_role("combobox")
    await expect(palette).to_be_focused()
    assert await violations(page) == []
    await palette.fill("missoes erro")
    await expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{demo.url}/missions?status=failed")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("/")
    await palette.fill(str(completed))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{demo.url}/missions/{completed}")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Atalhos de teclado")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("c")
    await expect(page.get_by_role("dialog", name="Criar missões")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_language_and_theme_are_switched_and_kept(page: Page, demo: Demo) -> None:
    """O19: two complete languages, two themes."""
    await page.goto(f"{demo.url}/settings")
    await page.get_by_label("Idioma").first.select_option("en")
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await page.get_by_label("Theme", exact=True).select_option("dark")
    await page.reload()
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    await expect(page.locator("html")).to_have_attribute("lang", "en")


async def test_a_phone_is_enough_for_looking_and_canceling(
    browser: Browser, demo: Demo, completed: int, results: Outcomes
) -> None:
    """O19: at 360 px only tables are wider than the screen, and a mission can be canceled."""
    context = await browser.new_context(
        locale="pt-BR", viewport={"width": 360, "height": 740}, has_touch=True
    )
    page = await context.new_page()
    await sign_in(page, demo.url, demo.api_key)
    for path in PAGES:
        await page.goto(f"{demo.url}/{path.format(id=completed, **asdict(results))}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("Carregando…")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
    async with demo.client() as client:
        day = {
            "date_start": "2026-03-15",
            "date_end": "2026-03-15",
            "media_type": "video",
            "languages": ["pt"],
        }
        (made,) = (await client.post("/api/missions", json={"missions": [day]})).json()["ids"]
    await page.goto(f"{demo.url}/missions?from=2026-03-15&status=draft")
    await page.get_by_role("link", name=str(made), exact=True).click()
    await page.get_by_role("button", name="Cancelar").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancelar").click()
    await expect(page.locator("dd .status")).to_have_text("Cancelada")
    await context.close()


async def test_it_works_under_a_path_prefix(
    signed_out_page: Page, demo: Demo, tmp_path: Path
) -> None:
    """O19: behind a proxy, also when a nested page is opened first."""
    async with command(demo.database_url, tmp_path, "--path-prefix", "/regente") as served:
        await sign_in(signed_out_page, served["url"], demo.api_key)
        await signed_out_page.goto(f"{served['url']}/missions/99999999")
        await expect(signed_out_page.get_by_role("alert")).to_be_visible()
        await signed_out_page.get_by_role("link", name="Auditoria").click()
        await expect(
            signed_out_page.get_by_role("cell", name="operator_action").first
        ).to_be_visible()
        assert signed_out_page.url == f"{served['url']}/audit"


async def test_an_empty_installation_explains_itself_and_runs_the_demo(
    signed_out_page: Page, database_url: str, tmp_path: Path
) -> None:
    """O19: three steps that are ticked off live; a button starts the demo."""
    async with command(database_url, tmp_path) as served:
        await signed_out_page.goto(served["sign_in"])
        steps = signed_out_page.get_by_role("region", name=re.compile("três passos")).get_by_role(
            "listitem"
        )
        await expect(steps).to_have_count(3)
        await expect(signed_out_page.locator("[data-done=true]")).to_have_count(0)
        await signed_out_page.get_by_role("button", name="Rodar a demonstração").click()
        await expect(steps.nth(0)).to_have_attribute("data-done", "true", timeout=90_000)
        await expect(steps.nth(1)).to_have_attribute("data-done", "true", timeout=90_000)
        # With the first mission completed there is nothing left to explain.
        await expect(steps).to_have_count(0, timeout=90_000)
        await expect(signed_out_page.get_by_role("link", name="Concluída")).to_be_visible()
