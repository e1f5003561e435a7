"""`/api/stream`: the live stream of events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Query
from starlette.requests import Request

from regente.api.access.roles import Viewer
from regente.api.limits import MAX_ID
from regente.api.resource import resource
from regente.api.stream.event_stream import EventStream
from regente.api.stream.feed import Feed
from regente.api.stream.feed_event import FeedFilter
from regente.api.stream.position import Position
from regente.api.stream.subscription import Subscription

routes = resource("/api/stream", "stream")

_EXAMPLE = (
    "retry: 2000\n\n"
    'event: heartbeat\nid: 812-90209\ndata: {"at":"2025-01-15T10:00:00Z","state":"live"}\n\n'
    'id: 812-90210\ndata: {"position":"812-90210","at":"2025-01-15T10:00:00Z",'
    '"event":"scrape_completed","task_id":42,'
    '"mission_id":42,"batch_id":null,"pipeline":"missions","runner_id":3,"attempt":1,"details":{"ads_count":1500}}\n\n'
)


def _feed(request: Request) -> Feed:
    feed: Feed = request.app.state.feed
    return feed


Read = Annotated[Feed, Depends(_feed)]
Some = Annotated[int | None, Query(ge=1, le=MAX_ID)]
Place = Annotated[
    str | None,
    Query(
        max_length=40,
        description="Continue after this position, like `Last-Event-ID`.",
        examples=["812-90210"],
    ),
]
Pipeline = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="Only events of this pipeline."),
]

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
    mission: Annotated[Some, Query(description="Only events of this mission.")] = None,
    batch: Annotated[Some, Query(description="Only events of this batch.")] = None,
    pipeline: Pipeline = None,
    after: Place = None,
    seconds: Annotated[
        float | None, Query(gt=0, le=3600, description="End the stream after so many seconds.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=40, description="The last position that the client received.")
    ] = None,
) -> EventStream:
    """Each event comes once and in commit order, from every process: a client that reconnects with
    `Last-Event-ID` misses nothing.

    `heartbeat` comes every ten seconds and moves the position, too. `resync` means that the stream
    cannot continue from that position (`forgotten` by retention, or `unknown` here) and continues
    from now: reload what you show. A client that reads too slowly is disconnected.
    """
    start = last_event_id or after
    subscription = Subscription(
        feed,
        FeedFilter(mission, batch, pipeline),
        Position.of(start) if start else None,
        who,
        seconds,
    )
    return EventStream(feed, subscription, await feed.admit(subscription))
