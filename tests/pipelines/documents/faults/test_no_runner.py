"""The only runner is killed: what still serves says so, and another runner goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from regente.pipelines.documents.standins.openrouter import ChatFault, OpenRouter
from regente.services.sandbox.sandbox import Sandbox
from tests.api.processes import caller, command
from tests.pipelines.documents.environment import Environment
from tests.pipelines.documents.faults.runner import DocumentRunner
from tests.support.eventually import eventually_async

SIX_MINUTES_LATER = (
    b"CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE sql STABLE "
    b"PARALLEL SAFE AS $clock$SELECT now() + interval '6 minutes'$clock$"
)


async def test_an_execution_whose_only_runner_was_killed_says_so(
    env: Environment,
    chat: OpenRouter,
    sandbox: Sandbox,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W1, W2, W5, W7: TRAVADO with the reason within its stall time, without an estimate; it is
    resumed, and goes on in the next runner."""
    for name in ("REGENTE_SWEEP_SECONDS", "REGENTE_BATCHES_SECONDS"):
        monkeypatch.setenv(name, "0.2")
    chat.break_with(ChatFault.HANG, contains="slow", times=1, seconds=600)
    env.write("quick.txt", "um contrato")
    env.write("slow.txt", "a slow contrato")
    execution_id = await env.submit()
    log = tmp_path / "runner.log"
    with DocumentRunner(database_url, sandbox.url, log) as runner:
        await env.until(
            lambda one: (
                one.status == "EM_ANDAMENTO"
                and (one.documentos.CONCLUIDO, one.documentos.PROCESSANDO) == (1, 1)
            ),
            execution_id,
        )
        runner.kill()
    async with command(database_url, tmp_path, "--no-auth") as told, caller(told["url"], {}) as api:
        before = await detail(api, execution_id)
        await env.sql(SIX_MINUTES_LATER)
        after = await stalled(api, execution_id)
        answer = await api.post(f"/execucoes/{execution_id}/retomar")
        with DocumentRunner(database_url, sandbox.url, log):
            execution = await env.ended(execution_id)
    assert before["status"] == "EM_ANDAMENTO"
    assert "Nenhum runner ativo atende o pipeline documents" in after["motivo"]
    assert (after["eta_segundos"], after["parado_em"]["codigo"]) == (None, "slow.txt")
    assert (answer.status_code, answer.json()["retomada"]) == (200, True)
    assert (execution.status, execution.documentos.CONCLUIDO) == ("CONCLUIDO", 2)


async def detail(api: httpx2.AsyncClient, execution_id: int) -> dict[str, Any]:
    found: dict[str, Any] = (
        (await api.get(f"/execucoes/{execution_id}/status-detalhado")).raise_for_status().json()
    )
    return found


async def stalled(api: httpx2.AsyncClient, execution_id: int) -> dict[str, Any]:
    async def seen() -> dict[str, Any] | None:
        found = await detail(api, execution_id)
        reaped = found["documentos"]["PROCESSANDO"] == 0
        return found if found["status"] == "TRAVADO" and reaped else None

    found = await eventually_async(seen)
    assert found is not None
    return found
