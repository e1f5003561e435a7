"""The live stream: what a client receives, and where it resumes."""

from __future__ import annotations

import asyncio

import httpx2
import psycopg
import pytest

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.queries import LimitedDatabase
from regente.engine.watchdog.retention import RetentionSweep
from tests.api.stream.conftest import Open, StreamApi, positions, put
from tests.api.stream.sse import next_named, stream, take


async def test_events_come_as_they_are_committed_with_their_position(
    stream_api: StreamApi, database_url: str
) -> None:
    """O19, W1: the id of an event is its position in the feed."""
    async with stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        await put(database_url, "one", "two", details={"pages": 3})
        found = await take(source, 2)
    assert [frame.data["event"] for frame in found] == ["one", "two"]
    assert (
        [frame.id for frame in found]
        == [frame.data["position"] for frame in found]
        == (await positions(database_url))[-2:]
    )
    assert found[0].name == "message"
    assert found[0].data["details"] == {"pages": 3}


async def test_a_client_resumes_at_its_position(stream_api: StreamApi, database_url: str) -> None:
    """I11: without a gap or a duplicate, by header or by query."""
    await put(database_url, *"abcdef")
    places = await positions(database_url)
    async with stream(stream_api.client, places[-4]) as source:
        assert [frame.id for frame in await take(source, 3)] == places[-3:]
    async with stream(stream_api.client, after=places[-3]) as source:
        assert [frame.id for frame in await take(source, 2)] == places[-2:]


async def test_a_backlog_beyond_the_ring_is_read_from_the_database(
    opened: Open, database_url: str
) -> None:
    """I11: page by page, then live, each event once."""
    await put(database_url, *[f"old{number}" for number in range(300)])
    async with (
        opened(prefill_events=10, page_events=32, ring_events=50) as stream_api,
        stream(stream_api.client, after="0-0") as source,
    ):
        first = await take(source, 200)
        await put(database_url, *[f"new{number}" for number in range(100)])
        found = first + await take(source, len(await positions(database_url)) - 200)
    assert [frame.id for frame in found] == await positions(database_url)


async def test_missions_batches_and_pipelines_can_be_followed_alone(
    stream_api: StreamApi, app: Regente, database_url: str, registry: object
) -> None:
    """O19: each event names its mission, batch and pipeline."""
    app.conduct_missions()
    mission = await app.enqueue("missions", _MISSION, draft=True)
    other = await app.enqueue("missions", _MISSION, draft=True)
    batch = await app.open_batch("round 7")
    async with (
        stream(stream_api.client, mission=mission) as of_mission,
        stream(stream_api.client, batch=batch) as of_batch,
        stream(stream_api.client, pipeline="missions") as of_pipeline,
    ):
        for source in (of_mission, of_batch, of_pipeline):
            await next_named(source, "heartbeat")
        await put(database_url, "unrelated")
        await put(database_url, "scrape_started", task_id=mission)
        await put(database_url, "elsewhere", task_id=other)
        await put(database_url, "session_ready", details={"mission_id": mission})
        await put(database_url, "batch_note", batch_id=batch)
        found = await take(of_mission, 2)
        assert [frame.data["event"] for frame in found] == ["scrape_started", "session_ready"]
        assert {frame.data["mission_id"] for frame in found} == {mission}
        assert (await take(of_batch, 1))[0].data["event"] == "batch_note"
        assert [frame.data["event"] for frame in await take(of_pipeline, 2)] == [
            "scrape_started",
            "elsewhere",
        ]


async def test_heartbeats_are_named_and_move_the_position_of_a_filtered_client(
    opened: Open, database_url: str
) -> None:
    """W1: comments would not reach the page. The position of a filtered client advances."""
    async with (
        opened(heartbeat_seconds=0.05) as stream_api,
        stream(stream_api.client, batch=999) as source,
    ):
        await next_named(source, "heartbeat")
        await put(database_url, "for another client")
        last = (await positions(database_url))[-1]
        async with asyncio.timeout(30):
            while (beat := await next_named(source, "heartbeat")).id != last:
                assert beat.data["state"] == "live"


async def test_a_position_that_retention_has_passed_asks_for_a_resync(
    opened: Open, app: Regente, database_url: str
) -> None:
    """F19, I11: the client is told to reload, and receives events from now on."""
    await put(database_url, "a", "b", "c")
    old = (await positions(database_url))[0]
    await RetentionSweep(app.database, 3600.0, keep_seconds=0.0).run_once()
    await put(database_url, "later")
    async with opened(prefill_events=0) as stream_api, stream(stream_api.client, old) as source:
        told = await next_named(source, "resync")
        assert told.data["reason"] == "forgotten"
        await put(database_url, "and on")
        (found,) = await take(source, 1)
    assert found.data["event"] == "and on"
    async with opened(prefill_events=0) as stream_api, stream(stream_api.client, told.id) as source:
        assert (await take(source, 1))[0].id == found.id


async def test_a_position_of_another_database_asks_for_a_resync(
    stream_api: StreamApi, database_url: str
) -> None:
    """F19: transaction ids begin anew after a restore elsewhere."""
    async with stream(stream_api.client, "999999999999-1") as source:
        assert (await next_named(source, "resync")).data["reason"] == "unknown"
        await put(database_url, "here")
        assert (await take(source, 1))[0].data["event"] == "here"


@pytest.mark.parametrize("place", ["abc", "1", "1-2-3", "-1-2", "1-x", "9" * 30 + "-1"])
async def test_an_invalid_position_is_refused(stream_api: StreamApi, place: str) -> None:
    """F19: with a problem that names it, before the stream begins."""
    answer = await stream_api.client.get("/api/stream", headers={"last-event-id": place})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize(
    "wrong", ["execucao=1", "batch_id=1", "batch=1&more=x", "batch=0", "seconds=0", "pipeline="]
)
async def test_unknown_and_invalid_parameters_are_refused(
    stream_api: StreamApi, wrong: str
) -> None:
    """W1, F15: a filter with another name would let all events through."""
    answer = await stream_api.client.get(f"/api/stream?{wrong}")
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION")
    name = wrong.rpartition("&")[2].partition("=")[0]
    assert name in str(answer.json()["errors"])


async def test_the_stream_needs_a_key_and_passes_proxies_unbuffered(stream_api: StreamApi) -> None:
    """O18: closed like every route; no proxy caches or buffers it."""
    assert (
        await stream_api.client.get("/api/stream", headers={"x-api-key": "wrong"})
    ).status_code == 401
    async with stream_api.client.stream("GET", "/api/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == (
            "no-store",
            "no",
        )


async def test_a_revoked_key_ends_its_streams(opened: Open, app: Regente) -> None:
    """O18: a stream ends with the key's right to it."""
    async with opened(check_seconds=0.05) as stream_api, stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        await ApiKeys(LimitedDatabase(app.database)).revoke(stream_api.key_id, by="test")
        async with asyncio.timeout(30):
            assert [frame.name async for frame in source if frame.name != "heartbeat"] == []


async def test_a_browser_follows_with_its_session_and_has_to_show_it_again(
    opened: Open, database_url: str
) -> None:
    """O18: the cookie is enough for `EventSource`, and the stream ends soon after the session."""
    async with (
        opened(session_lifetime_seconds=0.2) as stream_api,
        httpx2.AsyncClient(base_url=stream_api.url, trust_env=False, timeout=60) as browser,
    ):
        signed_in = await browser.post("/api/session", json={"api_key": stream_api.key})
        assert signed_in.status_code == 201, signed_in.text
        async with stream(browser) as source, asyncio.timeout(30):
            seen = [frame async for frame in source]
        await put(database_url, "meanwhile")
        async with stream(browser, seen[-1].id) as source:
            assert (await take(source, 1))[0].data["event"] == "meanwhile"


async def test_secrets_and_overlong_details_stay_out(
    stream_api: StreamApi, database_url: str
) -> None:
    """O18: a canary in an event's details does not come out."""
    async with stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        await put(
            database_url,
            "told",
            details={"api_key": "canary-1", "deep": [{"password": "canary-2"}]},
        )
        await put(database_url, "long", details={"text": "x" * 100_000})
        told, long = await take(source, 2)
    assert "canary" not in str(told.data)
    assert len(str(long.data)) < 1000


@pytest.mark.parametrize(
    "details", [[1, 2], "text", 7, {"number": 10**40}, {"mission_id": "x"}, {"mission_id": True}]
)
async def test_a_malformed_event_does_not_stop_later_ones(
    stream_api: StreamApi, database_url: str, details: object
) -> None:
    """F15: any value in an event's details."""
    async with stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        await put(database_url, "odd", details=details)
        await put(database_url, "next")
        assert [frame.data["event"] for frame in await take(source, 2)] == ["odd", "next"]


async def test_two_apis_give_the_same_stream(opened: Open, database_url: str) -> None:
    """Z9: a position of one process is valid in another."""
    async with opened() as first, opened() as second:
        await put(database_url, *"abcd")
        places = await positions(database_url)
        async with stream(first.client, after="0-0") as source:
            seen = [frame.id for frame in await take(source, len(places) - 2)]
        async with stream(second.client, seen[-1]) as source:
            assert seen + [frame.id for frame in await take(source, 2)] == places


async def test_an_event_of_an_open_transaction_holds_back_those_after_it(
    stream_api: StreamApi, database_url: str
) -> None:
    """I11: until every earlier event is committed or rolled back."""
    async with (
        stream(stream_api.client) as source,
        await psycopg.AsyncConnection.connect(database_url) as slow,
    ):
        await next_named(source, "heartbeat")
        await slow.execute("INSERT INTO regente.events (event) VALUES ('first')")
        await put(database_url, "second")
        await slow.commit()
        assert [frame.data["event"] for frame in await take(source, 2)] == ["first", "second"]


_MISSION = {
    "date_start": "2025-01-15",
    "date_end": "2025-01-15",
    "media_type": "video",
    "languages": ["pt"],
}
