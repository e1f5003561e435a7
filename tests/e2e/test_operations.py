"""Operators' actions beside missions: settings, batches, dead letters, fleet, audit."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from uuid import uuid4

import httpx2
from playwright.async_api import Page, expect

from tests.e2e.environment import Demo
from tests.e2e.failing_pipelines import FailingPipelines
from tests.support.eventually import eventually_async

REFUSED = re.compile("sandbox|about:srcdoc|Content Security Policy")


async def test_session_limit_is_changed_and_obeyed(page: Page, demo: Demo) -> None:
    """O19: after the change no session runs more missions than it allows."""
    await page.goto(f"{demo.url}/settings")
    await page.get_by_label("Missões por sessão").fill("1")
    await page.get_by_role("button", name="Salvar").click()
    await expect(page.get_by_text("Salvo.")).to_be_visible()
    async with demo.client() as client:
        await eventually_async(lambda: _idle(client), within_seconds=60)
        since = (await client.get("/api/stats")).json()["now"]
        days = {
            "date_start": "2025-04-01",
            "date_end": "2025-04-04",
            "media_types": ["video"],
            "languages": [["pt"]],
        }
        made = (await client.post("/api/missions", json={"range": days, "queue": True})).json()[
            "ids"
        ]
        await eventually_async(lambda: _all_ended(client, made), within_seconds=60)
        events = (
            await client.get(
                "/api/events", params={"since": since, "types": ["mission_assigned"], "limit": 200}
            )
        ).json()
        sessions = [event["details"]["session_id"] for event in events["items"]]
        assert len(sessions) >= 4
        assert len(set(sessions)) == len(sessions), "a session carried two missions"
        await client.patch("/api/settings", json={"session_limit": 5})
    await expect(page.get_by_label("Missões por sessão")).to_have_value("5")


async def test_settings_follow_what_others_change_but_keep_what_is_being_typed(
    page: Page, demo: Demo
) -> None:
    """O16, O19: a change made elsewhere comes by the stream and is shown beside an edited field."""
    await page.goto(f"{demo.url}/settings")
    days = page.get_by_role("spinbutton", name="retention_days")
    await expect(days).to_have_value("30")
    async with demo.client() as client:
        await client.patch("/api/settings", json={"retention_days": 45})
        await expect(days).to_have_value("45", timeout=10_000)
        await days.fill("60")
        await client.patch("/api/settings", json={"retention_days": 50})
        await expect(page.get_by_text("agora é 50")).to_be_visible(timeout=10_000)
        await expect(days).to_have_value("60")
        await page.get_by_role("button", name="Usar o novo valor").click()
        await expect(days).to_have_value("50")
        await days.fill("0.01")
        await page.get_by_role("button", name="Salvar").click()
        assert await days.evaluate("field => field.validity.rangeUnderflow")
        await days.fill("30")
        await page.get_by_role("button", name="Salvar").click()
        await expect(page.get_by_text("Salvo.")).to_be_visible()
        assert (await client.get("/api/settings")).json()["retention_days"] == 30


async def test_a_stuck_batch_goes_on_where_it_stopped(
    page: Page, demo: Demo, failing_pipelines: FailingPipelines
) -> None:
    """O19, W1: TRAVADO with its route and two buttons; "Continuar de onde parou" completes it."""
    name = f"cotacoes-{uuid4().hex[:6]}"
    await failing_pipelines.stuck_batch(name)
    await page.goto(f"{demo.url}/batches")
    card = page.get_by_role("article", name=name)
    banner = card.get_by_role("alert")
    await expect(banner).to_contain_text("TRAVADO", timeout=20_000)
    await expect(banner).to_contain_text("Rota afetada: SP → RJ / transportadora 7")
    await expect(card).to_contain_text("5 de 12 concluídas")
    await expect(banner.get_by_role("button", name="Reprocessar apenas erros")).to_be_disabled()
    await banner.get_by_role("button", name="Continuar de onde parou").click()
    await expect(card).to_contain_text("12 de 12 concluídas", timeout=20_000)
    await expect(card.locator(".status")).to_have_text("Concluída")
    assert (await failing_pipelines.app.batch(name)).resumes == 1


async def test_a_dead_letter_its_snapshot_and_its_retry(
    page: Page, demo: Demo, failing_pipelines: FailingPipelines, console_errors: list[str]
) -> None:
    """O19: groups, a hostile page without effect, retry of one and of all, discard."""
    code = f"BLOCKED_{uuid4().hex[:6].upper()}"
    letters = await failing_pipelines.dead_letters(4, code)
    await page.goto(f"{demo.url}/failures")
    group = page.get_by_role("article", name=code)
    await expect(group).to_contain_text("4 tarefas")
    await group.get_by_role("button", name="Mostrar todas as 4").click()
    await group.get_by_role("button", name=re.compile("^Detalhes")).first.click()
    await group.get_by_role("button", name=re.compile("como texto")).click()
    await expect(group.get_by_role("region", name="page.html")).to_contain_text(
        "<script>parent.document.title"
    )
    await group.get_by_role("button", name=re.compile("como página")).click()
    frame = page.frame_locator("iframe.snapshot")
    await expect(frame.get_by_role("heading", name="Blocked by the shop")).to_be_visible()
    await frame.get_by_role("button", name="Sign in again").click()
    assert await page.title() != "taken"
    assert [text for text in console_errors if not REFUSED.search(text)] == [], (
        "the browser refused all that the page tried"
    )
    console_errors.clear()
    await group.get_by_role("button", name=re.compile("^Descartar #")).first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Motivo").fill("a test of ours")
    await dialog.get_by_role("button", name="Descartar").click()
    await expect(group).to_contain_text("3 tarefas")
    failing_pipelines.shop_is_open.set()
    await group.get_by_role("button", name=re.compile("^Tentar novamente")).first.click()
    await expect(group).to_contain_text("2 tarefas")
    await group.get_by_role("button", name="Tentar todas").click()
    await expect(group).to_be_hidden()
    ended = [(await failing_pipelines.app.get(one)).status for one in letters]
    assert sorted(ended) == ["canceled", "completed", "completed", "completed"]
    failing_pipelines.shop_is_open.clear()
    await page.context.request.get(f"{failing_pipelines.recorder.url}/from-the-test")
    assert failing_pipelines.recorder.seen == ["GET /from-the-test HTTP/1.1"], (
        "nothing came from the hostile page"
    )


async def test_a_person_decides_on_payments_of_unknown_outcome(
    page: Page, demo: Demo, failing_pipelines: FailingPipelines
) -> None:
    """I2, O19: one is called again, one gets its result, as it was written; then nothing waits."""
    again, given = await failing_pipelines.unanswered_payments(2)
    await page.goto(f"{demo.url}/failures")
    panel = page.get_by_role("region", name="2 chamadas esperam a sua decisão")
    await expect(panel).to_be_visible()
    await expect(page.get_by_role("link", name="2 decisões pendentes")).to_be_visible()
    first = panel.get_by_role("region", name=f"#{again} · PAY")
    await expect(first).to_contain_text(re.compile(r"Pode ter sido chamada em .*, tentativa 1"))
    await first.get_by_role("button", name="Chamar de novo").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("será feita ou paga duas vezes")
    await dialog.get_by_role("button", name="Chamar de novo").click()
    toast = page.get_by_role("status")
    await expect(toast.get_by_text(f"PAY da tarefa {again} será chamada de novo.")).to_be_visible()
    await expect(first).to_be_hidden()
    await page.get_by_role("button", name=f"Informar o resultado #{given} · PAY").click()
    await dialog.get_by_label("Resultado (JSON)").fill("7.0.0")
    await dialog.get_by_role("button", name="Informar o resultado").click()
    await expect(dialog.get_by_text("Não é um JSON válido")).to_be_visible()
    await dialog.get_by_label("Resultado (JSON)").fill("7.0")
    await dialog.get_by_role("button", name="Informar o resultado").click()
    await expect(toast.get_by_text(f"A tarefa {given} continua com o resultado")).to_be_visible()
    await expect(page.get_by_role("button", name="Informar o resultado")).to_have_count(0)
    async with demo.client() as client:
        await eventually_async(lambda: _completed(client, [again, given]), within_seconds=30)
    results = [(await failing_pipelines.app.get(one)).result for one in (again, given)]
    assert list(map(repr, results)) == ["2.5", "7.0"]


async def test_the_demos_dead_letter_completes_once_its_cause_is_gone(
    page: Page, demo: Demo, completed: int
) -> None:
    """O19: a failed mission is retried from the console and completes."""
    async with demo.client() as client, demo.client() as library:
        await library.delete(f"{demo.library}/admin/faults")
        (failed,) = (await client.get("/api/missions", params={"statuses": ["failed"]})).json()[
            "items"
        ]
    await page.goto(f"{demo.url}/missions/{failed['id']}")
    await expect(page.get_by_role("region", name="Tentativas que falharam")).to_contain_text(
        "ERROR20"
    )
    await page.get_by_role("button", name="Tentar novamente").click()
    await expect(page.locator("dd .status")).to_have_text("Concluída", timeout=45_000)


async def test_the_fleet_is_tested_edited_drained_and_cleared(page: Page, demo: Demo) -> None:
    """O19: the test button's result, for a member that responds and for one that does not."""
    await page.goto(f"{demo.url}/fleet")
    await page.get_by_role("button", name="Testar demo-worker-1").click()
    await expect(page.get_by_role("status").filter(has_text="✓")).to_be_visible()
    await page.get_by_role("button", name="Adicionar worker").click()
    dialog = page.get_by_role("dialog")
    for label, value in (
        ("Nome", "w1"),
        ("Endereço", "http://127.0.0.1:9"),
        ("Chave de API", "secret"),
        ("Domínio", "s.test"),
    ):
        await dialog.get_by_label(label).fill(value)
    await dialog.get_by_role("button", name="Adicionar").click()
    await expect(page.get_by_role("cell", name="w1", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Testar w1", exact=True).click()
    await expect(page.get_by_role("status").filter(has_text="✗")).to_be_visible()
    await page.get_by_role("button", name="Desativar w1", exact=True).click()
    await expect(page.get_by_role("button", name="Ativar w1", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Editar w1", exact=True).click()
    await dialog.get_by_label("Nome").fill("w2")
    await dialog.get_by_role("button", name="Salvar").click()
    await expect(page.get_by_role("cell", name="w2", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Remover w2").click()
    await dialog.get_by_role("button", name="Remover").click()
    await expect(page.get_by_role("cell", name="w2", exact=True)).to_be_hidden()


async def test_the_audit_is_filtered_and_exported(page: Page, demo: Demo, completed: int) -> None:
    """O19, O18: CSV and JSON have the filtered events; the four reports are there."""
    await page.goto(f"{demo.url}/audit?types=worker_added")
    await expect(page.get_by_role("cell", name="worker_added").first).to_be_visible()
    async with page.expect_download() as csv_file:
        await page.get_by_role("link", name="Exportar CSV").click()
    rows = list(
        csv.DictReader(io.StringIO(Path(await (await csv_file.value).path()).read_text("utf-8")))
    )
    async with page.expect_download() as json_file:
        await page.get_by_role("link", name="Exportar JSON").click()
    events = json.loads(Path(await (await json_file.value).path()).read_text("utf-8"))
    assert (
        {row["event"] for row in rows} == {event["event"] for event in events} == {"worker_added"}
    )
    assert len(rows) == len(events) >= 3
    await page.get_by_label("Até").fill("2020-01-01T00:00")
    await page.get_by_role("button", name="Aplicar").click()
    await expect(page.get_by_text("Nenhum evento encontrado.")).to_be_visible()
    for tab, cell in (
        ("Desempenho por worker", "demo-worker-1"),
        ("Proxies com problemas", "demo-proxy-1"),
    ):
        await page.get_by_role("tab", name=tab).click()
        await expect(page.get_by_role("cell", name=cell, exact=True)).to_be_visible()
    await page.get_by_role("tab", name="Missões com falha").click()
    await expect(
        page.get_by_role("region", name="Missões com falha").get_by_role("row").nth(1)
    ).to_be_visible()
    await page.get_by_role("tab", name="Linha do tempo de uma missão").click()
    await page.get_by_role("textbox", name="Missão").fill(str(completed))
    await expect(page.get_by_role("cell", name="mission_completed")).to_be_visible()


async def _idle(client: httpx2.AsyncClient) -> bool:
    answer = await client.get("/api/orchestrator")
    return bool(answer.json()["state"] == "closed")


async def _completed(client: httpx2.AsyncClient, ids: list[int]) -> bool:
    found = [(await client.get(f"/api/tasks/{one}")).json()["status"] for one in ids]
    return set(found) == {"completed"}


async def _all_ended(client: httpx2.AsyncClient, ids: list[int]) -> bool:
    found = [(await client.get(f"/api/missions/{one}")).json()["status"] for one in ids]
    return all(status in ("completed", "failed", "canceled") for status in found)
