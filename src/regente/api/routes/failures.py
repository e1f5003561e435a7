"""`/api/failures`: dead letters, singly or grouped by similar failures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk import requests as bulk
from regente.api.bulk.actions import ActionKind
from regente.api.limits import MAX_PAGE, Id
from regente.api.models.basics import Action, DryRun, Page
from regente.api.models.tasks import (
    DiscardSelection,
    FailedAttempt,
    Failure,
    FailureDetail,
    FailureFilter,
    FailureGroup,
    FailureQuery,
    FailureSelection,
)
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.routes.tasks import shown
from regente.api.state import ApiDep
from regente.redaction import redacted

routes = resource("/api/failures", "failures")

SNAPSHOT_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"


@routes.get("", summary="List dead letters, newest first")
async def list_failures(
    query: Annotated[FailureQuery, Query()], api: ApiDep, who: Viewer
) -> Page[Failure]:
    rows = await QUERIES.fetch_all(
        api.database,
        "list_failures",
        before_id=query.before_id,
        limit=query.limit + 1,
        **_params(query),
    )
    more = str(rows[query.limit - 1]["task_id"]) if len(rows) > query.limit else None
    return Page(items=[Failure(**row) for row in rows[: query.limit]], next=more)


@routes.get("/groups", summary="Group dead letters by code and fingerprint")
async def groups(
    chosen: Annotated[FailureFilter, Query()], api: ApiDep, who: Viewer
) -> list[FailureGroup]:
    """Largest group first; of more than 100,000 dead letters only the newest are counted."""
    return [
        FailureGroup(**row)
        for row in await QUERIES.fetch_all(
            api.database, "failure_groups", limit=MAX_PAGE, **_params(chosen)
        )
    ]


@routes.post("/retry", summary="Retry dead letters", responses={202: {"model": Action}})
async def retry(
    body: FailureSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """By task ids or by a filter (code and fingerprint select a group); `limit` takes the first."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.RETRY_FAILURES,
        body,
        bulk.selection(api, "select_failures", _chosen(body)),
    )


@routes.post("/discard", summary="Discard dead letters", responses={202: {"model": Action}})
async def discard(
    body: DiscardSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """They become `canceled`. The reason is stored in the audit log."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.DISCARD_FAILURES,
        body,
        bulk.selection(api, "select_failures", _chosen(body)),
    )


@routes.get("/{task_id}", summary="Show a dead letter with its failed attempts")
async def show(task_id: Id, api: ApiDep, who: Viewer) -> FailureDetail:
    task = await api.reads.get(task_id)
    rows = await api.reads.failures(task_id, MAX_PAGE)
    attempts = [FailedAttempt(**redacted(row)) for row in rows]
    return FailureDetail(task=shown(task), attempts=attempts)


@routes.get(
    "/attempts/{failure_id}/snapshots/{name}",
    summary="Show a snapshot of a failed attempt, as plain text or bytes",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/octet-stream": {}}}},
)
async def snapshot(
    failure_id: Id,
    name: Annotated[str, Path(min_length=1, max_length=200)],
    api: ApiDep,
    who: Viewer,
) -> Response:
    """Never served as HTML: scraped pages must not run here."""
    content_type, truncated, body = await api.regente.snapshot(failure_id, name)
    is_text = content_type.startswith("text/") or "json" in content_type or "xml" in content_type
    headers = {
        "content-security-policy": SNAPSHOT_POLICY,
        "content-disposition": "attachment",
        "x-original-content-type": "".join(
            sign for sign in content_type if sign.isascii() and sign.isprintable()
        )[:100],
        "x-truncated": str(truncated).lower(),
    }
    shown = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    return Response(body, headers=headers, media_type=shown)


def _params(chosen: FailureFilter) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in FailureFilter.model_fields}


def _chosen(body: FailureSelection) -> dict[str, Any]:
    return _params(body.filter or FailureFilter())
