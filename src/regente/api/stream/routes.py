"""`/api/stream`: the live stream of events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Query
from pydantic import Field
from starlette.requests import Request

from regente.api.access.roles import Viewer
from regente.api.limits import MAX_ID
from regente.api.models.basics import Strict
from regente.api.resource import resource
from regente.api.stream.event_stream import EventStream
from regente.api.stream.feed import Feed
from regente.api.stream.feed_event import FeedFilter
from regente.api.stream.position import Position
from regente.api.stream.subscription import Subscription

routes = resource("/api/stream", "stream")

_EXAMPLE = (
    "retry: 2000\n\n"
    "event: heartbeat\nid: 812-90209-5f1c09aa\n"
    'data: {"at":"2025-01-15T10:00:00Z","state":"live"}\n\n'
    'id: 812-90210-5f1c09aa\ndata: {"position":"812-90210-5f1c09aa","at":"2025-01-15T10:00:00Z",'
    '"event":"scrape_completed","task_id":42,'
    '"mission_id":42,"batch_id":null,"pipeline":"missions","runner_id":3,"attempt":1,'
    '"details":{"ads_count":1500}}\n\n'
)


def feed_of(request: Request) -> Feed:
    feed: Feed = request.app.state.feed
    return feed


Read = Annotated[Feed, Depends(feed_of)]


class StreamQuery(Strict):
    mission: int | None = Field(None, ge=1, le=MAX_ID, description="Only events of this mission.")
    batch: int | None = Field(None, ge=1, le=MAX_ID, description="Only events of this batch.")
    pipeline: str | None = Field(
        None, min_length=1, max_length=200, description="Only events of this pipeline."
    )
    after: str | None = Field(
        None,
        max_length=50,
        description="Continue after this position, like `Last-Event-ID`.",
        examples=["812-90210-5f1c09aa"],
    )
    seconds: float | None = Field(
        None, gt=0, le=3600, description="End the stream after so many seconds."
    )


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events as they happen.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@routes.get(
    "",
    summary="Follow events live (server-sent events)",
    response_class=EventStream,
    status_code=200,
    responses=_ANSWERS,
)
async def follow(
    feed: Read,
    who: Viewer,
    query: Annotated[StreamQuery, Query()],
    last_event_id: Annotated[
        str | None, Header(max_length=50, description="The last position that the client received.")
    ] = None,
) -> EventStream:
    """Each event comes once and in commit order, from every process: a client that reconnects with
    `Last-Event-ID` misses nothing.

    `heartbeat` comes every ten seconds and moves the position, too. `resync` means that the stream
    cannot continue from that position (`forgotten` by retention, or `unknown` since a failover or a
    restore) and continues from now: reload what you show. A client that reads too slowly is
    disconnected.
    """
    start = last_event_id or query.after
    subscription = Subscription(
        feed,
        FeedFilter(query.mission, query.batch, query.pipeline),
        Position.of(start) if start else None,
        who,
        query.seconds,
    )
    return EventStream(feed, subscription, await feed.admit(subscription))
