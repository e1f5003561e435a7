"""Handles a bulk request: selects the ids, then starts the action or describes a dry run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.principal import Principal
from regente.api.audit import AuditNote
from regente.api.models.basics import Action, DryRun, Named
from regente.api.queries import QUERIES
from regente.api.state import Api

Select = Callable[[int], Awaitable[list[int]]]
MAX_SELECTED = 1_000_000
SAMPLE = 20


async def run(
    api: Api,
    request: Request,
    response: Response,
    who: Principal,
    note: AuditNote,
    kind: str,
    chosen: Named,
    select: Select,
) -> Action | DryRun:
    """Run the action, with status 202 in the background. `select` finds the filter's ids."""
    ids = await _ids(chosen, select)
    if chosen.dry_run:
        note.skip()
        return await _dry_run(api, kind, ids)
    changes = chosen.model_dump(mode="json", include={"changes"}, exclude_unset=True).get("changes")
    selection = (
        chosen.model_dump(mode="json", include={"filter", "limit"}, exclude_none=True) or None
    )
    row = await api.bulk.submit(
        kind,
        ids,
        by=who.name,
        reason=chosen.reason,
        request_id=request.state.request_id,
        selection=selection,
        changes=changes,
    )
    response.headers["location"] = f"{api.config.path_prefix}/api/actions/{row['id']}"
    response.status_code = 202 if row["status"] == "running" else 200
    target = {
        "action": row["id"],
        "selected": len(ids),
        "sample": ids[:SAMPLE],
        "reason": chosen.reason,
        **(selection or {}),
        **({} if changes is None else {"changes": changes}),
    }
    note.about(target, after={"status": row["status"], "changed": row["changed"]})
    return Action.model_validate(row)


async def _ids(chosen: Named, select: Select) -> list[int]:
    limit = chosen.limit or MAX_SELECTED
    if chosen.ids is not None:
        return list(dict.fromkeys(chosen.ids))[:limit]
    return await select(limit)


def selection(api: Api, query: str, params: dict[str, Any]) -> Select:
    """A selection by a query with these parameters and a limit."""

    async def select(limit: int) -> list[int]:
        rows = await QUERIES.fetch_all(api.database, query, limit=limit, **params)
        return [row["id"] for row in rows]

    return select


async def _dry_run(api: Api, kind: str, ids: list[int]) -> DryRun:
    action = api.bulk.actions[kind]
    rows = await QUERIES.fetch_all(api.database, "states_of", ids=ids, pipeline=action.pipeline)
    by_status = {row["status"]: row["count"] for row in rows}
    return DryRun(
        kind=kind,
        total=len(ids),
        by_status=by_status,
        missing=len(ids) - sum(by_status.values()),
        would_change=sum(count for status, count in by_status.items() if status in action.changes),
        in_background=len(ids) > api.config.inline_items,
        sample=ids[:SAMPLE],
    )
