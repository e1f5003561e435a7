"""What an operator does in the console."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2
import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page, expect
else:
    expect = pytest.importorskip("playwright.async_api", reason="Playwright is not installed").expect


async def signed_in(page: Page, told: dict[str, str]) -> None:
    await page.goto(told["sign_in"])
    await expect(page.get_by_role("heading", name="Visão geral")).to_be_visible()


async def test_missions_are_created_by_range_queued_listed_and_canceled(page: Page, told: dict[str, str]) -> None:
    """O19, O16: sign in, 12 missions by range, into the queue, cancel one."""
    await signed_in(page, told)
    await expect(page.locator(".live")).to_have_text("Ao vivo")
    await expect(page.get_by_text("Tudo certo")).to_be_visible()
    await page.get_by_role("link", name="Missões", exact=True).first.click()
    await page.get_by_role("button", name="Criar missões").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("De", exact=True).fill("2025-01-01")
    await dialog.get_by_label("Até").fill("2025-01-03")
    await dialog.get_by_label("Vídeo").check()
    await dialog.get_by_label("Idiomas").fill("pt, es")
    await expect(dialog.get_by_text("Isto cria 12 missões.")).to_be_visible()
    await dialog.get_by_role("button", name="Criar no banco").click()
    await expect(dialog).to_be_hidden()
    rows = page.locator(".grid-row:not(.grid-head)")
    await expect(rows).to_have_count(12)
    await page.get_by_role("button", name="Selecionar Missões").click()
    await expect(page).to_have_url(re.compile("status=draft"))
    await page.get_by_label("Selecionar todas as missões carregadas").check()
    await page.get_by_role("button", name="Adicionar à fila").click()
    await expect(dialog.get_by_text("12 missões de 12 irão para a fila.")).to_be_visible()
    await dialog.get_by_role("button", name="Adicionar à fila").click()
    await expect(dialog.get_by_text("Pronto: 12 missões alteradas de 12.")).to_be_visible()
    await dialog.get_by_role("button", name="Fechar").last.click()
    await page.get_by_role("button", name="Limpar", exact=True).click()
    await expect(rows.filter(has_text="Na fila")).to_have_count(12)
    await rows.first.get_by_role("link").click()
    await expect(page.get_by_text("Por que está esperando?")).to_be_visible()
    await page.get_by_role("button", name="Cancelar").click()
    await dialog.get_by_role("button", name="Cancelar").click()
    await expect(page.get_by_text("Cancelada", exact=True)).to_be_visible()
    await page.get_by_role("link", name="← Missões").click()
    await expect(rows.filter(has_text="Cancelada")).to_have_count(1)
    await expect(rows.filter(has_text="Na fila")).to_have_count(11)


async def test_what_others_do_shows_within_a_second(page: Page, told: dict[str, str]) -> None:
    """O16: live, without a reload."""
    await signed_in(page, told)
    await page.goto(f"{told['url']}/missions")
    await expect(page.get_by_text("Ainda não há missões")).to_be_visible()
    await expect(page.locator(".live")).to_have_text("Ao vivo")
    day = {"date_start": "2025-01-15", "date_end": "2025-01-15", "media_type": "video", "languages": ["pt"]}
    async with httpx2.AsyncClient(base_url=told["url"], headers={"x-api-key": told["api_key"]}, trust_env=False) as client:
        await client.post("/api/missions", json={"missions": [day], "queue": True})
        await expect(page.locator(".grid-row:not(.grid-head)")).to_have_count(1, timeout=3000)


async def test_settings_fleet_and_language(page: Page, told: dict[str, str]) -> None:
    """O19: settings are saved, a worker is added, tested and switched off; the language is switched and kept."""
    await signed_in(page, told)
    await page.get_by_role("link", name="Configurações").click()
    await page.get_by_label("Missões por sessão").fill("7")
    await page.get_by_role("button", name="Salvar").click()
    await page.reload()
    await expect(page.get_by_label("Missões por sessão")).to_have_value("7")
    await page.get_by_role("link", name="Frota").click()
    await page.get_by_role("button", name="Adicionar worker").click()
    dialog = page.get_by_role("dialog")
    for label, value in (("Nome", "w1"), ("Endereço", "http://127.0.0.1:9"), ("Chave de API", "secret"), ("Domínio", "s.test")):
        await dialog.get_by_label(label).fill(value)
    await dialog.get_by_role("button", name="Adicionar").click()
    await expect(page.get_by_role("cell", name="w1", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Testar w1").click()
    await expect(page.get_by_role("status").filter(has_text="✗")).to_be_visible()
    await page.get_by_role("button", name="Desativar w1").click()
    await expect(page.get_by_role("button", name="Ativar w1", exact=True)).to_be_visible()
    await page.get_by_label("Idioma").select_option("en")
    await page.reload()
    await expect(page.get_by_role("heading", name="Fleet")).to_be_visible()


@pytest.mark.parametrize("told", [("--path-prefix", "/regente")], indirect=True, ids=["prefix"])
async def test_it_works_under_a_path_prefix(page: Page, told: dict[str, str]) -> None:
    """O19: behind a proxy, also when a page deep down is opened first."""
    await signed_in(page, told)
    await page.goto(f"{told['url']}/missions/1")
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_role("link", name="Auditoria").click()
    await expect(page.get_by_role("cell", name="operator_action").first).to_be_visible()
    assert page.url == f"{told['url']}/audit"
