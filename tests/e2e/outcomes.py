"""Results of the other pipelines: the demo's runners process them against its sandbox."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2

from tests.e2e.environment import Demo
from tests.pipelines.documents import pdfs
from tests.support.eventually import eventually_async

CHAIR = "Cadeira de escritório ergonômica preta"
TEXTS = ["uma cadeira de carvalho", "uma mesa de pinho", "um notebook com tela de 14 polegadas"]
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One of each kind, all of them ended."""

    lot: int
    quote: int
    unknown: int
    """The quote of a car that the FIPE table does not know."""
    round: int
    match: str
    spoilt: str
    """The match whose page has changed its layout."""
    execution: int


async def outcomes(demo: Demo) -> Outcomes:
    async with (
        demo.client() as client,
        httpx2.AsyncClient(base_url=demo.library, trust_env=False, timeout=30) as sandbox,
    ):
        lot, quote, unknown = await quotes(client)
        round_id, match, spoilt = await spoilt_round(client, sandbox)
        execution = await classified(client, sandbox)
        await embedded(client)
    return Outcomes(lot, quote, unknown, round_id, match, spoilt, execution)


async def quotes(client: httpx2.AsyncClient) -> tuple[int, int, int]:
    """A lot of a chair, a car, and a car that is too old for the table."""
    things = [
        {"description": CHAIR, "reference": "P-1"},
        *({"description": f"VW Gol 1.0 Flex ano {year}"} for year in (2015, 1999)),
    ]
    made = await _post(
        client, "/api/quotes", json={"quotes": things, "lot": f"inventário {uuid4().hex[:6]}"}
    )
    lot = f"/api/quotes/lots/{made['batch_id']}"
    await _until(client, lot, lambda one: (one["completed"], one["failed"]) == (2, 1))
    return made["batch_id"], made["ids"][0], made["ids"][2]


async def spoilt_round(
    client: httpx2.AsyncClient, sandbox: httpx2.AsyncClient
) -> tuple[int, str, str]:
    """A round with one unreadable match, in a league of its own: a round is started once."""
    league = f"liga-{uuid4().hex[:8]}"
    page = await sandbox.get(f"/league/{league}/rounds/12")
    names: list[str] = re.findall(r'data-match-id="([^"]+)"', page.text)
    await _post(
        sandbox,
        "/league/admin/faults",
        json={"kind": "layout", "league": league, "match_id": names[0]},
    )
    started = await _post(client, "/api/scrape", json={"league": league, "round": 12})
    await _until(
        client, f"/api/rounds/{started['job_id']}", lambda one: one["status"] == "INCOMPLETE"
    )
    return started["job_id"], names[1], names[0]


async def classified(client: httpx2.AsyncClient, sandbox: httpx2.AsyncClient) -> int:
    """An execution of a contract, an unreadable file, and a text with invalid answers."""
    project = f"contratos-{uuid4().hex[:6]}"
    fields = {"classes": [{"name": "contrato"}, {"name": "outro"}], "max_retries_documento": 0}
    (await client.put(f"/api/documents/projects/{project}", json=fields)).raise_for_status()
    word = f"ruim{uuid4().hex[:6]}"
    await _post(
        sandbox, "/openrouter/admin/faults", json={"kind": "unknown_class", "contains": word}
    )
    files = [
        (
            "files",
            ("a.pdf", pdfs.text_pdf("Este contrato vincula as partes", pages=2), "application/pdf"),
        ),
        ("files", ("empty.pdf", b"", "application/pdf")),
        ("files", ("ruim.txt", f"Um texto {word} que ninguém entende".encode(), "text/plain")),
    ]
    made = await _post(
        client, "/api/documents/executions", files=files, data={"project": project, "name": project}
    )
    execution: int = made["id"]
    await _until(
        client, f"/api/documents/executions/{execution}", lambda one: one["progresso_pct"] == 100
    )
    return execution


async def embedded(client: httpx2.AsyncClient) -> None:
    made = await _post(client, "/api/embeddings", json={"texts": TEXTS, "model": "hashing"})
    await _until(
        client, f"/api/batches/{made['batch_id']}", lambda one: one["status"] == "completed"
    )


async def _post(client: httpx2.AsyncClient, path: str, **body: Any) -> Any:
    answer = await client.post(path, **body)
    assert answer.is_success, answer.text
    return answer.json()


async def _until(client: httpx2.AsyncClient, path: str, there: Callable[[Any], bool]) -> None:
    async def look() -> bool:
        return there((await client.get(path)).json())

    await eventually_async(look, within_seconds=TIMEOUT_SECONDS)
