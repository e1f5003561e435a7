"""The embeddings' routes on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.setup import register_embeddings
from regente.settings import Settings
from tests.api.conftest import Served, body_of, events_of, served
from tests.pipelines.embeddings.conftest import ended
from tests.support.running import runner_in


@pytest.fixture
async def api(
    database_url: str, registry: Registry, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    """The API with the embedder that needs no provider."""
    monkeypatch.setenv("REGENTE_EMBEDDINGS_MODEL", "hashing")
    http = HttpClient()
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        register_embeddings(registry, app, http, EmbeddingSettings())
        async with served(app) as found:
            yield found
    await http.close()


async def test_texts_are_added_counted_and_found(api: Served) -> None:
    """S5 over the API: the second time nothing is embedded."""
    texts = ["a chair of oak", "a table of pine", "coffee from Santos"]
    async with runner_in(api.app):
        for _ in range(2):
            added = body_of(
                await api.operator.post(
                    "/api/embeddings", json={"texts": texts, "batch": "catalogue"}
                ),
                202,
            )
            assert (added["texts"], added["tasks"], added["model"], added["batch"]) == (
                3,
                1,
                "hashing",
                "catalogue",
            )
            await ended(api.app, added["batch_id"])
    figures = body_of(await api.viewer.get("/api/embeddings/stats"))
    assert figures["vectors"] == 3
    assert figures["models"][0] | {"newest_at": None} == {
        "model": "hashing",
        "dimensions": 256,
        "vectors": 3,
        "newest_at": None,
    }
    assert figures["tasks"]["completed"] == 2
    found = body_of(
        await api.operator.post("/api/embeddings/search", json={"text": "oak chairs", "limit": 2})
    )
    assert (found["model"], len(found["items"]), found["items"][0]["text"]) == (
        "hashing",
        2,
        "a chair of oak",
    )
    actions = await events_of(api.app, "operator_action")
    assert [one["action"] for one in actions] == ["embeddings.add", "embeddings.add"]


async def test_roles_and_wrong_fields(api: Served) -> None:
    """O18: a viewer reads; invalid fields are named, and nothing is queued."""
    assert (await api.anonymous.get("/api/embeddings/stats")).status_code == 401
    assert (await api.viewer.post("/api/embeddings", json={"texts": ["a"]})).status_code == 403
    assert (await api.viewer.post("/api/embeddings/search", json={"text": "a"})).status_code == 403
    wrong = [
        {"texts": []},
        {"texts": ["fine", " "]},
        {"texts": ["a\u0000b"]},
        {"texts": ["x" * 32_001]},
        {"texts": ["a"], "model": "a b"},
        {"texts": ["a"], "other": 1},
        {"texts": ["a"] * 10_001},
        {"texts": ["a"], "batch": "\u0000"},
    ]
    for body in wrong:
        assert (await api.operator.post("/api/embeddings", json=body)).status_code == 422, body
    for body in ({"text": "anything"}, {"text": " "}, {"text": "a", "limit": 0}):
        assert (await api.operator.post("/api/embeddings/search", json=body)).status_code == 422, (
            body
        )
    assert sum((await api.app.counts("embeddings")).values()) == 0


async def test_a_provider_that_does_not_answer_is_a_bad_gateway(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGENTE_EMBEDDINGS_MODEL", "text-embedding-3-small@8")
    monkeypatch.setenv("REGENTE_EMBEDDINGS_BASE_URL", "http://127.0.0.1:9/v1")
    async with api.app.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO regente.embedding_models VALUES ('text-embedding-3-small@8', 8)"
        )
    answer = await api.operator.post("/api/embeddings/search", json={"text": "anything"})
    assert (answer.status_code, answer.json()["code"]) == (502, "CALL_FAILED")
