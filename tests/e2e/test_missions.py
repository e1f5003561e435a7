"""Missions in the console: created by range, queued, watched, canceled, cloned."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta

from playwright.async_api import Page, expect

from tests.e2e.environment import Demo

ROWS = ".grid-row:not(.grid-head)"


async def test_signing_in_by_link_and_by_key(signed_out_page: Page, demo: Demo) -> None:
    """O19, O18: a link lets in; a wrong key is refused, a right one lets in."""
    async with demo.client() as client:
        (key,) = [
            one for one in (await client.get("/api/keys")).json() if one["name"] == "journeys"
        ]
        link = (await client.post(f"/api/keys/{key['id']}/sign-in-link")).json()["url"]
    await signed_out_page.goto(link)
    await expect(signed_out_page.get_by_role("heading", name="Visão geral")).to_be_visible()
    assert "token" not in signed_out_page.url
    await expect(signed_out_page.locator(".live")).to_have_text("Ao vivo")
    await signed_out_page.get_by_role("button", name="Sair").click()
    await signed_out_page.get_by_label("Chave de API").fill("rgt_wrong")
    await signed_out_page.get_by_role("button", name="Entrar").click()
    await expect(signed_out_page.get_by_role("alert")).to_be_visible()
    await signed_out_page.get_by_label("Chave de API").fill(demo.api_key)
    await signed_out_page.get_by_role("button", name="Entrar").click()
    await expect(signed_out_page.get_by_role("heading", name="Visão geral")).to_be_visible()


async def test_twelve_missions_by_range_are_queued_and_one_is_watched_to_its_end(
    page: Page, demo: Demo
) -> None:
    """O19, O16: 3 days × 2 media × 2 languages; selection, preview, result; live to its end."""
    first = date(2011, 1, 1) + timedelta(days=random.randrange(3000))
    last = first + timedelta(days=2)
    await page.goto(f"{demo.url}/missions?from={first}&to={last}")
    await page.get_by_role("button", name="Criar missões").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("De", exact=True).fill(str(first))
    await dialog.get_by_label("Até").fill(str(last))
    await dialog.get_by_label("Vídeo").check()
    await dialog.get_by_label("Imagem").check()
    await dialog.get_by_label("Todas").uncheck()
    await dialog.get_by_label("Idiomas").fill("pt, en")
    await expect(dialog.get_by_text("Isto cria 12 missões.")).to_be_visible()
    await dialog.get_by_role("button", name="Criar como rascunho").click()
    await expect(dialog).to_be_hidden()
    rows = page.locator(ROWS)
    await expect(rows).to_have_count(12)
    await page.get_by_label("Selecionar todas as missões carregadas").check()
    await page.get_by_role("button", name="Adicionar à fila").click()
    await expect(dialog.get_by_text("12 missões de 12 irão para a fila.")).to_be_visible()
    await dialog.get_by_role("button", name="Adicionar à fila").click()
    await expect(dialog.get_by_text("Pronto: 12 missões alteradas de 12.")).to_be_visible()
    await dialog.get_by_role("button", name="Fechar").last.click()
    await rows.last.get_by_role("link").click()
    await expect(page.locator("dd .status")).to_have_text("Concluída", timeout=45_000)
    await expect(page.get_by_role("figure", name="Linha do tempo")).to_be_visible()
    await expect(page.get_by_role("cell", name="mission_completed")).to_be_visible()
    await expect(page.get_by_role("region", name="Argumentos")).to_contain_text('"media_type"')


async def test_a_running_mission_is_canceled(page: Page, demo: Demo) -> None:
    """O19, W6: while a worker runs it."""
    async with demo.client() as client:
        # A long range: it runs for long enough to be caught in the act.
        long = {
            "date_start": "2025-05-01",
            "date_end": "2025-09-30",
            "media_type": "video",
            "languages": ["pt", "en"],
        }
        answer = await client.post("/api/missions", json={"missions": [long], "queue": True})
        (mission_id,) = answer.json()["ids"]
    await page.goto(f"{demo.url}/missions/{mission_id}")
    status = page.locator("dd .status")
    await expect(status).to_have_text("Em andamento", timeout=45_000)
    await page.get_by_role("button", name="Cancelar").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancelar").click()
    await expect(status).to_have_text("Cancelada")
    await page.get_by_role("button", name="Clonar").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Isto cria 1 missão.")).to_be_visible()
    await expect(dialog.get_by_label("De", exact=True)).to_have_value("2025-05-01")


async def test_changes_by_others_appear_without_a_reload(page: Page, demo: Demo) -> None:
    """O16."""
    day = str(date(2001, 1, 1) + timedelta(days=random.randrange(3000)))
    await page.goto(f"{demo.url}/missions?from={day}&to={day}")
    await expect(page.get_by_text("Nenhuma missão corresponde a este filtro.")).to_be_visible()
    await expect(page.locator(".live")).to_have_text("Ao vivo")
    mission = {"date_start": day, "date_end": day, "media_type": "video", "languages": ["pt"]}
    async with demo.client() as client:
        await client.post("/api/missions", json={"missions": [mission]})
        await expect(page.locator(ROWS)).to_have_count(1, timeout=10_000)


async def test_all_that_match_are_selected_and_the_filter_is_in_the_address(
    page: Page, demo: Demo, completed: int
) -> None:
    """O19: a bulk action on all N matches, with a preview that can be declined."""
    await page.goto(f"{demo.url}/missions?status=completed")
    await expect(page.locator(ROWS).first).to_be_visible()
    await page.get_by_label("Selecionar todas as missões carregadas").check()
    await page.get_by_role(
        "button", name=re.compile("Selecionar todas as .* que correspondem")
    ).click()
    await page.get_by_role("button", name="Cancelar", exact=True).click()
    await expect(
        page.get_by_role("dialog").get_by_text(re.compile("0 miss.* serão canceladas"))
    ).to_be_visible()
    await expect(
        page.get_by_role("dialog").get_by_role("button", name="Cancelar", exact=True)
    ).to_be_disabled()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Com erro").click()
    await expect(page).to_have_url(re.compile("status=completed&status=failed"))
