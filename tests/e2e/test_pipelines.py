"""Results of the other pipelines in the console: quotes, rounds, documents, embeddings."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
from playwright.async_api import Page, expect

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import register_documents
from regente.pipelines.documents.standins.openrouter import OpenRouter
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.api.processes import command
from tests.e2e.conftest import sign_in
from tests.e2e.environment import Demo
from tests.e2e.outcomes import CHAIR, TEXTS, Outcomes, classified, spoilt_round
from tests.pipelines.documents.environment import Environment, stalled
from tests.support.running import runner_in

BEGIN = {
    "quotes": "regente quotes submit",
    "rounds": "regente rounds start",
    "documents": "regente documents classify",
    "embeddings": "regente embeddings add",
}


async def test_a_quote_is_shown_with_its_evidence(
    page: Page, demo: Demo, results: Outcomes
) -> None:
    """Q1, Q2, O19: from batch to lot to quote: value, statistics, sources, checkpoints."""
    async with demo.client() as client:
        quote = (await client.get(f"/api/quotes/{results.quote}")).json()
    await page.goto(f"{demo.url}/batches")
    await (
        page.get_by_role("article", name=quote["lot"])
        .get_by_role("link", name=re.compile("Ver resultados"))
        .click()
    )
    await expect(page.get_by_role("heading", name=f"Lote {quote['lot']}")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=CHAIR)
    await expect(row.locator(".status")).to_have_text("Concluída")
    await expect(row).to_contain_text(reais(quote["value"]))
    await row.get_by_role("link", name=str(results.quote), exact=True).click()
    await expect(page.get_by_role("heading", name=f"Cotação {results.quote}")).to_be_visible()
    await expect(page.locator(".value")).to_have_text(reais(quote["value"]))
    statistics = page.get_by_role("region", name=re.compile("^Estatísticas"))
    await expect(statistics).to_contain_text(f"Média{reais(quote['statistics']['mean'])}")
    await expect(statistics).to_contain_text(
        f"Preços mantidos{quote['statistics']['kept']} de {quote['statistics']['prices']}"
    )
    sources = page.get_by_role("region", name="Fontes").get_by_role("table").get_by_role("row")
    await expect(sources).to_have_count(1 + len(quote["sources"]))
    (outlier,) = [one for one in quote["sources"] if one["outlier"]]
    await expect(sources.filter(has_text=outlier["source"])).to_contain_text(
        re.compile(r"discrepante: [\d,]+ vezes a mediana")
    )
    kept = next(one for one in quote["sources"] if one["price"] is not None and not one["outlier"])
    seen = sources.filter(has_text=kept["source"])
    await expect(seen).to_contain_text("mantido")
    await expect(seen).to_contain_text(reais(kept["price"]))
    link = seen.get_by_role("link")
    await expect(link).to_have_attribute("href", kept["url"])
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    passed = page.get_by_role("region", name="Checkpoints percorridos")
    for name in (
        "AI_ANALYSIS_DONE",
        "SHOPPING_SEARCH_DONE",
        f"PRICE_EXTRACTION_PROGRESS × {len(quote['sources'])}",
        "COMPLETED",
    ):
        await expect(passed.get_by_role("cell", name=name, exact=True)).to_be_visible()


async def test_a_quote_that_failed_says_why(page: Page, demo: Demo, results: Outcomes) -> None:
    """Q1, O19: found by its status; its error, its checkpoint, and its failed attempt."""
    await page.goto(f"{demo.url}/results/lots/{results.lot}")
    await page.get_by_label("Filtrar por status").select_option("ERROR")
    await expect(page).to_have_url(f"{demo.url}/results/lots/{results.lot}?status=ERROR")
    rows = (
        page.get_by_role("region", name="Cotações deste lote")
        .get_by_role("table")
        .get_by_role("row")
    )
    await expect(rows).to_have_count(2)
    await expect(rows.nth(1)).to_contain_text("FIPE_NOT_FOUND")
    await rows.nth(1).get_by_role("link").click()
    await expect(page).to_have_url(f"{demo.url}/results/quotes/{results.unknown}")
    await expect(page.get_by_role("alert")).to_contain_text("FIPE_NOT_FOUND")
    await expect(page.get_by_text("Nenhuma fonte foi consultada ainda.")).to_be_visible()
    await expect(page.get_by_role("cell", name="AI_ANALYSIS_DONE", exact=True)).to_be_visible()
    await expect(page.get_by_role("region", name="Tentativas que falharam")).to_contain_text(
        "FIPE_NOT_FOUND"
    )


async def test_a_round_is_a_table_and_what_failed_runs_again(
    page: Page, demo: Demo, results: Outcomes
) -> None:
    """Z4, Z5, Z6, O19: scores and failures; the retry reports its result, the table updates."""
    async with (
        demo.client() as client,
        httpx2.AsyncClient(base_url=demo.library, trust_env=False) as sandbox,
    ):
        round_id, good, bad = await spoilt_round(client, sandbox)
        found = (await client.get(f"/api/rounds/{round_id}")).json()
        stored = next(one for one in found["matches"] if one["match_id"] == good)
        await page.goto(f"{demo.url}/results?of=rounds&batch={found['batch_id']}")
        await expect(page).to_have_url(f"{demo.url}/results/rounds/{round_id}")
        table = page.get_by_role("region", name="Partidas").get_by_role("table")
        await expect(table.get_by_role("row")).to_have_count(1 + len(found["matches"]))
        cells = table.get_by_role("row").filter(has_text=good).get_by_role("cell")
        score = f"{stored['home_goals']} × {stored['away_goals']}"
        await expect(cells).to_have_text(
            [good, stored["home"], score, stored["away"], "Concluída", "1", ""]
        )
        row = table.get_by_role("row").filter(has_text=bad)
        await expect(row).to_contain_text("LAYOUT_CHANGED")
        await expect(row.locator(".status")).to_have_text("Com erro")
        await sandbox.delete("/league/admin/faults")
    await page.get_by_role("button", name="Repetir falhas").click()
    await expect(
        page.get_by_text("1 tarefa voltou para a fila, de 1 não armazenadas.")
    ).to_be_visible()
    await expect(row.locator(".status")).to_have_text("Concluída")
    await expect(page.get_by_role("button", name="Repetir falhas")).to_have_count(0)
    await row.get_by_role("link").click()
    await expect(page.get_by_role("region", name="Tentativas que falharam")).to_contain_text(
        "LAYOUT_CHANGED"
    )
    await page.goto(f"{demo.url}/results/rounds/{round_id}/{good}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(
        f"{stored['home']} {score} {stored['away']}"
    )
    events = page.get_by_role("region", name="Lances").get_by_role("table").get_by_role("row")
    await expect(events).to_have_count(1 + stored["events"])
    await expect(page.get_by_role("region", name="Estatísticas").get_by_role("row")).to_have_count(
        1 + stored["stats"] // 2
    )


async def test_documents_are_filtered_and_their_errors_reprocessed(
    page: Page, demo: Demo, results: Outcomes
) -> None:
    """W2, W4, W6, O19: states, a class with its confidence, the reason of a PULADO; reprocess."""
    async with (
        demo.client() as client,
        httpx2.AsyncClient(base_url=demo.library, trust_env=False) as sandbox,
    ):
        execution = await classified(client, sandbox)
        await sandbox.delete("/openrouter/admin/faults")
        name = (await client.get(f"/api/documents/executions/{execution}")).json()["nome"]
        answers = (await client.get(f"/api/documents/executions/{execution}/documents")).json()[
            "items"
        ]
    await page.goto(f"{demo.url}/results?of=documents")
    await page.get_by_role("link", name=name, exact=True).click()
    await expect(page.get_by_role("heading", name=f"Execução {name}")).to_be_visible()
    table = page.get_by_role("region", name="Resultados dos documentos").get_by_role("table")
    contract = next(one for one in answers if one["codigo"] == "a.pdf")
    row = table.get_by_role("row").filter(has_text="a.pdf")
    await expect(row.get_by_role("cell").nth(1)).to_have_text("CONCLUIDO")
    await expect(row.get_by_role("cell").nth(2)).to_have_text("contrato")
    await expect(row.get_by_role("cell").nth(3)).to_have_text(
        re.compile(rf"^{round(100 * contract['confianca'])}(,\d)?%$")
    )
    await page.get_by_label("Filtrar por status").select_option("PULADO")
    await expect(table.get_by_role("row")).to_have_count(2)
    await expect(table).to_contain_text("EMPTY")
    await page.get_by_label("Filtrar por status").select_option("ERRO")
    await expect(table.get_by_role("row").nth(1)).to_contain_text("ruim.txt")
    await page.get_by_role("button", name="Reprocessar apenas erros").click()
    await expect(page.get_by_text("Nenhum documento tem este status.")).to_be_visible()
    await page.get_by_label("Filtrar por status").select_option("")
    await expect(
        table.get_by_role("row").filter(has_text="ruim.txt").locator(".status")
    ).to_have_text("CONCLUIDO")
    await expect(page.locator(".page-head .status")).to_have_text("CONCLUIDO")


async def test_a_stuck_execution_goes_on_where_it_stopped(
    signed_out_page: Page, database_url: str, tmp_path: Path
) -> None:
    """W1, W2, W6, O19: TRAVADO without a runner, with that reason; "Continuar de onde parou"."""
    registry = Registry()
    settings = Settings(sweep_seconds=0.2, batches_seconds=0.2, drain_seconds=5.0)
    async with (
        command(database_url, tmp_path) as served,
        Sandbox(proxies=0, standins=[OpenRouter(1)]) as sandbox,
        Regente(database_url, settings=settings, pipelines=registry) as app,
    ):
        env = Environment(app, DocumentOperations(app), tmp_path / "files")
        env.write("parado.txt", "Um contrato entre as partes")
        execution = await env.submit()
        await stalled(env, registry, execution)
        await signed_out_page.goto(served["sign_in"])
        await expect(signed_out_page.get_by_role("heading", name="Visão geral")).to_be_visible()
        await signed_out_page.goto(f"{served['url']}/results/executions/{execution}")
        banner = signed_out_page.get_by_role("alert").filter(has_text="TRAVADO")
        await expect(banner).to_contain_text("Nenhum runner ativo atende o pipeline documents")
        await expect(banner).to_contain_text("Rota afetada: /classificador/")
        await expect(banner).to_contain_text("Parou em parado.txt")
        await expect(banner.get_by_role("button", name="Reprocessar apenas erros")).to_be_disabled()
        await banner.get_by_role("button", name="Continuar de onde parou").click()
        await expect(banner).to_have_count(0)
        pipelines = register_documents(registry, app, DocumentSettings(), sandbox.url)
        async with runner_in(app):
            await expect(signed_out_page.locator(".page-head .status")).to_have_text("CONCLUIDO")
            await expect(
                signed_out_page.get_by_role("row").filter(has_text="parado.txt").locator(".status")
            ).to_have_text("CONCLUIDO")
        await pipelines.close()


async def test_texts_are_found_by_similarity(page: Page, demo: Demo, results: Outcomes) -> None:
    """S5, O19: the counts, and a search that finds the text itself first."""
    await page.goto(f"{demo.url}/results")
    await page.get_by_role("tab", name="Embeddings").click()
    await expect(
        page.get_by_role("region", name="Modelos").get_by_role("cell", name="hashing")
    ).to_be_visible()
    await page.get_by_label("Texto", exact=True).fill(TEXTS[0])
    await page.get_by_label("Modelo", exact=True).select_option("hashing")
    await page.get_by_role("button", name="Buscar", exact=True).click()
    found = page.get_by_role("region", name="Textos encontrados").get_by_role("row")
    await expect(found.nth(1).get_by_role("cell").nth(1)).to_have_text(TEXTS[0])
    await expect(found.nth(1).get_by_role("cell").nth(0)).to_have_text("100%")


async def test_a_viewer_sees_and_does_not_act(
    signed_out_page: Page, demo: Demo, results: Outcomes
) -> None:
    """O19: the same pages without the buttons of other roles."""
    async with demo.client() as client:
        key = (await client.post("/api/keys", json={"name": "olha", "role": "viewer"})).json()[
            "api_key"
        ]
    await sign_in(signed_out_page, demo.url, key)
    await signed_out_page.goto(f"{demo.url}/results/rounds/{results.round}")
    await expect(
        signed_out_page.get_by_role("region", name="Partidas").get_by_text("LAYOUT_CHANGED")
    ).to_be_visible()
    await expect(signed_out_page.get_by_role("button", name="Repetir falhas")).to_have_count(0)
    await signed_out_page.goto(f"{demo.url}/results/executions/{results.execution}")
    await expect(signed_out_page.get_by_role("cell", name="ruim.txt")).to_be_visible()
    await expect(
        signed_out_page.get_by_role("button", name="Reprocessar apenas erros")
    ).to_have_count(0)
    await signed_out_page.goto(f"{demo.url}/results?of=embeddings")
    await expect(signed_out_page.get_by_text("A busca exige o papel de operação")).to_be_visible()


async def test_an_empty_page_says_how_to_begin(
    signed_out_page: Page, database_url: str, tmp_path: Path
) -> None:
    """O19: each tab names the command."""
    async with command(database_url, tmp_path) as served:
        await signed_out_page.goto(served["sign_in"])
        await expect(signed_out_page.get_by_role("heading", name="Visão geral")).to_be_visible()
        for tab, words in BEGIN.items():
            await signed_out_page.goto(f"{served['url']}/results?of={tab}")
            await expect(signed_out_page.locator(".command")).to_contain_text(words)


def reais(amount: str) -> str:
    """The amount as `Intl` formats it in Portuguese."""
    whole, cents = f"{float(amount):,.2f}".split(".")
    return f"R$\N{NO-BREAK SPACE}{whole.replace(',', '.')},{cents}"
