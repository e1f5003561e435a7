"""Texts become vectors: each content once, none lost, none paid for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from psycopg import AsyncConnection

from regente import Regente
from regente.engine.database import text_array
from regente.engine.errors import InvalidInput
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.queries import QUERIES
from regente.pipelines.embeddings.standins.openai_embeddings import FaultKind, OpenAiEmbeddings
from tests.pipelines.embeddings.conftest import (
    KEY,
    MODEL,
    embed_all,
    ended,
    rows,
    stored,
    with_settings,
)
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

TEXTS = [f"item {number} of the list" for number in range(25)]


async def test_every_text_gets_the_vector_that_the_provider_answered(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: 25 texts in tasks of 10 are three calls; each vector is stored as it came."""
    batch = await embed_all(app, operations, TEXTS)
    assert (batch.total, batch.completed) == (3, 3)
    found = await stored(app)
    assert found == {text: pytest.approx(provider.vector(text, 32), abs=1e-7) for text in TEXTS}
    assert provider.calls == {"calls": 3, "texts": 25, "repeated": 0, "faulty": 0}
    tasks = await app.tasks(batch_id=batch.id)
    assert sorted(task.result["embedded"] for task in tasks if task.result) == [5, 10, 10]


async def test_a_known_content_is_not_embedded_again(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: the hash of the normalised text is looked up before the call."""
    await embed_all(app, operations, TEXTS)
    before = dict(provider.calls)
    again = [f"  {text.replace(' ', '   ')}\n" for text in TEXTS]
    batch = await embed_all(app, operations, [*again, "cafe\u0301", "caf\u00e9"])
    assert batch.completed == 3
    assert provider.calls["texts"] == before["texts"] + 1
    assert provider.calls["calls"] == before["calls"] + 1
    assert len(await stored(app)) == 26


async def test_the_same_text_for_another_model_is_another_content(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: the hash covers the model."""
    await embed_all(app, operations, ["one text"])
    await embed_all(app, operations, ["one text"], model="text-embedding-3-small@16")
    found = await rows(
        app, "SELECT model, cardinality(vector) AS size FROM embeddings ORDER BY size"
    )
    assert [(row["model"], row["size"]) for row in found] == [
        ("text-embedding-3-small@16", 16),
        (MODEL, 32),
    ]


@with_settings(texts_per_task=1)
async def test_many_tasks_with_the_same_content_at_once_are_one_vector_and_one_call(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: later tasks wait for the first instead of calling the provider."""
    batch = await embed_all(app, operations, ["the very same text"] * 30)
    assert batch.completed == 30
    assert len(await stored(app)) == 1
    assert provider.calls["calls"] == 1


@with_settings(texts_per_task=3)
async def test_tasks_whose_contents_overlap_pay_for_each_once(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: overlapping sets in different orders: no deadlock, no second payment."""
    words = [f"word {number}" for number in range(12)]
    texts = [words[(start * 5 + step) % 12] for start in range(40) for step in range(3)]
    batch = await embed_all(app, operations, texts)
    assert batch.completed == 40
    assert set(await stored(app)) == set(words)
    tried_again = await rows(
        app, "SELECT task_id, details FROM events WHERE event = 'task_retried'"
    )
    assert provider.charged.total() == 12, tried_again
    assert await rows(app, "SELECT * FROM embedding_reservations") == []


async def test_reservations_are_released_in_the_order_in_which_they_are_taken(app: Regente) -> None:
    """S5: storing paid vectors cannot deadlock (its loser would pay again)."""
    hashes = [f"{number:02x}" for number in range(9)]
    for one in reversed(hashes):
        await rows(
            app,
            "INSERT INTO embedding_reservations VALUES (decode(%(hash)s, 'hex'), 7, 1)",
            hash=one,
        )
    async with await AsyncConnection.connect(app.database_url) as wanting:
        await lock_reservation(wanting, hashes[0])
        giving = asyncio.create_task(give_up(app, hashes[::-1]))
        await eventually_async(lambda: waits_for_a_lock(app))
        for later in hashes[1:]:
            await lock_reservation(wanting, later)
    await giving
    assert await rows(app, "SELECT * FROM embedding_reservations") == []


async def lock_reservation(connection: AsyncConnection[Any], content_hash: str) -> None:
    query = (
        "SELECT FROM regente.embedding_reservations WHERE content_hash = decode(%s, 'hex') FOR "
        "UPDATE NOWAIT"
    )
    await connection.execute(query, [content_hash])


async def give_up(app: Regente, hashes: Sequence[str]) -> None:
    async with app.database.transaction() as connection:
        await QUERIES.execute(
            connection, "give_up_reservations", hashes=text_array(hashes), task_id=7
        )


async def waits_for_a_lock(app: Regente) -> bool:
    return bool(
        await rows(
            app,
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND "
            "wait_event_type = 'Lock'",
        )
    )


async def test_a_reservation_of_a_dead_attempt_blocks_no_task(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """S5: a reservation counts only while its attempt runs."""
    await rows(
        app,
        "INSERT INTO embedding_reservations VALUES (sha256(convert_to(%(model)s, 'UTF8') "
        "|| '\\000' || 'held'), 424242, 1)",
        model=MODEL,
    )
    async with runner_in(app):
        warm = await operations.add(["something else"])
        await ended(app, warm.batch_id)
        await rows(
            app,
            "INSERT INTO embedding_reservations VALUES (sha256(convert_to(%(model)s, "
            "'UTF8') || '\\000' || 'held'), 424242, 1)",
            model=MODEL,
        )
        batch = await ended(app, (await operations.add(["held"])).batch_id)
    (task,) = await app.tasks(batch_id=batch.id)
    assert (task.status, task.attempt) == ("completed", 1), "it was not sent back to wait"
    assert provider.charged["held"] == 1


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.FAILING,
        FaultKind.WRONG_DIMENSIONS,
        FaultKind.NOT_A_NUMBER,
        FaultKind.ZERO,
        FaultKind.TOO_FEW,
        FaultKind.LOST,
    ],
)
async def test_a_bad_answer_is_never_stored_and_asked_for_again(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings, kind: str
) -> None:
    """S5: a broken answer costs a retry and is not charged again (Idempotency-Key)."""
    provider.break_with(FaultKind(kind), count=1)
    batch = await embed_all(app, operations, TEXTS[:10])
    assert batch.completed == 1
    assert await stored(app) == {
        text: pytest.approx(provider.vector(text, 32), abs=1e-7) for text in TEXTS[:10]
    }
    assert set(provider.charged.values()) == {1}
    assert provider.calls["calls"] == 2


async def test_answers_out_of_order_go_to_the_right_texts(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    provider.break_with(FaultKind.SHUFFLED)
    await embed_all(app, operations, TEXTS[:10])
    assert await stored(app) == {
        text: pytest.approx(provider.vector(text, 32), abs=1e-7) for text in TEXTS[:10]
    }


@with_settings(encoding="float")
async def test_vectors_that_are_written_as_numbers_are_read_too(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    await embed_all(app, operations, TEXTS[:3])
    assert await stored(app) == {
        text: pytest.approx(provider.vector(text, 32), abs=1e-7) for text in TEXTS[:3]
    }


async def test_throttling_uses_up_no_attempt(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """429 with Retry-After, more often than there are attempts."""
    provider.break_with(FaultKind.THROTTLED, count=5, retry_after=0.05)
    batch = await embed_all(app, operations, TEXTS[:10])
    assert batch.completed == 1
    (task,) = await app.tasks(batch_id=batch.id)
    assert (task.tries, task.attempt) == (0, 6)


async def test_a_refused_text_does_not_fail_the_others(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    """The dead letter names the text; the nine others are stored."""
    provider.break_with(FaultKind.REFUSED, contains="item 7 ")
    batch = await embed_all(app, operations, TEXTS[:10])
    assert batch.failed == 1
    (task,) = await app.tasks(batch_id=batch.id)
    assert task.error_code == "TEXT_REFUSED"
    assert set(await stored(app)) == set(TEXTS[:10]) - {TEXTS[7]}
    (failure,) = await app.failures(task.id)
    assert [one["text"] for one in failure["details"]["refused"]] == [TEXTS[7]]
    assert "maximum context length" in failure["message"]


async def test_a_key_that_the_provider_refuses_is_final_and_never_shown(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    provider.break_with(FaultKind.UNAUTHORIZED)
    batch = await embed_all(app, operations, TEXTS[:10])
    (task,) = await app.tasks(batch_id=batch.id)
    assert (task.status, task.error_code) == ("failed", "HTTP_401")
    told = repr(
        [await app.failures(task.id), await app.task_events(task.id), task, operations.settings]
    )
    assert "Incorrect API key provided: ***" in told
    assert KEY not in told


@with_settings(api_key=None, base_url=None, model=None)
async def test_a_model_of_an_api_without_a_key_is_a_clear_failure(
    app: Regente, operations: EmbeddingOperations
) -> None:
    batch = await embed_all(app, operations, ["text"], model="text-embedding-3-large")
    (task,) = await app.tasks(batch_id=batch.id)
    assert (task.status, task.error_code) == ("failed", "NO_API_KEY")
    assert "REGENTE_EMBEDDINGS_API_KEY" in str(task.error_message)


async def test_a_model_keeps_its_dimensions(app: Regente, operations: EmbeddingOperations) -> None:
    """Vectors of other dimensions under one model name are refused: they cannot be compared."""
    await rows(app, "INSERT INTO embedding_models VALUES (%(model)s, 31)", model=MODEL)
    batch = await embed_all(app, operations, TEXTS[:3])
    (task,) = await app.tasks(batch_id=batch.id)
    assert (task.status, task.error_code, task.tries) == ("failed", "WRONG_DIMENSIONS", 3)
    assert await stored(app) == {}


@pytest.mark.parametrize("text", ["", " \n\t ", "a\x00b", "\ud800", "x" * 32_001])
async def test_texts_that_cannot_be_embedded_are_refused_when_added(
    operations: EmbeddingOperations, text: str
) -> None:
    with pytest.raises(InvalidInput, match="text 2"):
        await operations.add(["fine", text])


async def test_two_submissions_at_once_share_what_they_have_in_common(
    app: Regente, operations: EmbeddingOperations, provider: OpenAiEmbeddings
) -> None:
    async with runner_in(app):
        added = await asyncio.gather(
            operations.add(TEXTS), operations.add(TEXTS[::-1]), operations.add(TEXTS[5:15])
        )
        for one in added:
            assert (await ended(app, one.batch_id)).failed == 0
    assert set(await stored(app)) == set(TEXTS)
    assert set(provider.charged.values()) == {1}
