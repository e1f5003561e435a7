"""Similarity, with plain arrays and with pgvector: the same answers."""

from __future__ import annotations

import os

import pytest
from psycopg.conninfo import make_conninfo

from regente import Regente
from regente.engine.database import Database
from regente.engine.errors import InvalidInput
from regente.http_client.client import CallFailed
from regente.pipelines.embeddings import search as search_module
from regente.pipelines.embeddings import storage as storage_module
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.standins.openai_embeddings import FaultKind, OpenAiEmbeddings
from regente.pipelines.embeddings.storage import Storage, StorageKind, layout
from tests.pipelines.embeddings.conftest import MODEL, embed_all, rows, stored, with_settings

TEXTS = [
    "a chair of oak",
    "a table of oak",
    "a lamp of brass",
    "a chair of steel",
    "coffee from Santos",
    "tea from Assam",
]


async def require_pgvector(app: Regente) -> None:
    if not await rows(app, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        pytest.skip("this PostgreSQL has no pgvector")


async def test_plain_arrays_find_the_nearest(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    await embed_all(app, operations, TEXTS)
    assert (await operations.stats()).storage == "real[]"
    before = provider.calls["calls"]
    found = await operations.search("a  chair of oak", limit=3)
    assert found[0].text == "a chair of oak"
    assert found[0].similarity == pytest.approx(1.0, abs=1e-5)
    assert [one.similarity for one in found] == sorted(
        (one.similarity for one in found), reverse=True
    )
    assert len(found) == 3
    assert provider.calls["calls"] == before, "the text was embedded before: no call"
    assert (await operations.search("oak chair", limit=1))[0].text == "a chair of oak"


@with_settings(pgvector="auto")
async def test_pgvector_is_used_where_available_and_finds_the_same(
    app: Regente, operations: EmbeddingOperations
) -> None:
    """The first task converts the column; a search of arrays in Python is the oracle."""
    await require_pgvector(app)
    await embed_all(app, operations, TEXTS)
    assert (await operations.stats()).storage == "pgvector"
    (kind,) = await rows(app, "SELECT pg_typeof(vector)::text AS type FROM embeddings LIMIT 1")
    assert kind["type"].endswith("vector")
    vectors = await stored(app)
    target = vectors["a table of oak"]
    expected = {
        text: sum(a * b for a, b in zip(target, vector, strict=True))
        for text, vector in vectors.items()
    }
    found = await operations.search("a table of oak", limit=6)
    assert {one.text: one.similarity for one in found} == pytest.approx(expected, abs=1e-5)
    assert [one.text for one in found] == sorted(expected, key=lambda text: -expected[text])


async def test_arrays_become_pgvector_with_all_that_is_there(
    app: Regente, operations: EmbeddingOperations
) -> None:
    await require_pgvector(app)
    await embed_all(app, operations, TEXTS[:4])
    before, answers = await stored(app), await operations.search("oak", limit=4)
    assert await operations.use_pgvector() == "pgvector"
    assert await operations.use_pgvector() == "pgvector"
    assert await stored(app) == before
    again = await operations.search("oak", limit=4)
    assert [one.text for one in again] == [one.text for one in answers]
    assert [one.similarity for one in again] == pytest.approx(
        [one.similarity for one in answers], abs=1e-5
    )
    await embed_all(app, operations, TEXTS)
    assert set(await stored(app)) == set(TEXTS)


async def test_an_index_is_built_and_used(app: Regente, operations: EmbeddingOperations) -> None:
    await require_pgvector(app)
    await embed_all(app, operations, TEXTS)
    with pytest.raises(InvalidInput, match="pgvector"):
        await operations.index()
    await operations.use_pgvector()
    name = await operations.index()
    async with app.database.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        await connection.execute("SET LOCAL enable_bitmapscan = off")
        await connection.execute("SET LOCAL enable_sort = off")
        plan = await connection.execute(
            (
                f"EXPLAIN SELECT id FROM regente.embeddings WHERE model = '{MODEL}' "
                "ORDER BY (vector::vector(32)) <=> array_fill(1, ARRAY[32])::real[]::vector LIMIT 3"
            ).encode()
        )
        assert name in "\n".join(row[0] for row in await plan.fetchall())
    assert (await operations.search("a chair of steel", limit=1))[0].text == "a chair of steel"


@with_settings(pgvector="auto")
async def test_a_large_table_is_converted_only_on_request(
    app: Regente, operations: EmbeddingOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion locks the table, so a runner does not start it."""
    await require_pgvector(app)
    monkeypatch.setattr(storage_module, "MAX_CONVERTED_UNASKED", -1)
    await embed_all(app, operations, TEXTS)
    assert (await operations.stats()).storage == "real[]"
    assert (await rows(app, "SELECT 1 FROM pg_extension WHERE extname = 'vector'")) == []


async def test_too_many_arrays_are_refused_instead_of_searched_for_minutes(
    app: Regente, operations: EmbeddingOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    await embed_all(app, operations, TEXTS)
    monkeypatch.setattr(search_module, "MAX_ARRAY_VALUES", 5 * 32)
    with pytest.raises(InvalidInput, match="more than 5 vectors"):
        await operations.search("oak")


async def test_an_impossible_search_reports_the_reason(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    with pytest.raises(InvalidInput, match="none at all"):
        await operations.search("anything")
    await embed_all(app, operations, TEXTS[:1])
    with pytest.raises(InvalidInput, match=f"some of {MODEL}"):
        await operations.search("anything", model="hashing")
    with pytest.raises(InvalidInput, match="empty"):
        await operations.search("  ")
    for kind in (
        FaultKind.FAILING,
        FaultKind.ZERO,
        FaultKind.WRONG_DIMENSIONS,
        FaultKind.THROTTLED,
    ):
        provider.break_with(kind, count=1)
        with pytest.raises(CallFailed):
            await operations.search("something new")
    provider.break_with(FaultKind.REFUSED, count=1)
    with pytest.raises(InvalidInput, match="maximum context length"):
        await operations.search("something new")


async def test_without_the_right_to_create_the_extension_vectors_stay_arrays(
    app: Regente, database_url: str
) -> None:
    """A role with rights on our tables only."""
    await require_pgvector(app)
    name = f"plain_{os.getpid()}"
    await rows(app, f"CREATE ROLE {name} LOGIN")
    try:
        await rows(app, f"GRANT USAGE ON SCHEMA regente TO {name}")
        await rows(app, f"GRANT ALL ON ALL TABLES IN SCHEMA regente TO {name}")
        database = Database(make_conninfo(database_url, user=name))
        await database.open()
        await Storage(database, pgvector=True).prepare()
        assert (await layout(database)).kind is StorageKind.ARRAY
        await database.close()
    finally:
        await rows(app, f"DROP OWNED BY {name}")
        await rows(app, f"DROP ROLE {name}")
    await Storage(app.database, pgvector=True).prepare()
    assert (await layout(app.database)).kind is StorageKind.PGVECTOR
