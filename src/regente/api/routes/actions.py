"""`/api/actions`: bulk actions and their progress."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Viewer
from regente.api.limits import Id
from regente.api.models.basics import Action, Page, PageQuery
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import ApiDep

routes = resource("/api/actions", "actions")


@routes.get("", summary="List bulk actions, newest first")
async def list_actions(
    query: Annotated[PageQuery, Query()], api: ApiDep, who: Viewer
) -> Page[Action]:
    rows = await QUERIES.fetch_all(
        api.database, "list_actions", before_id=query.before_id, limit=query.limit + 1
    )
    more = str(rows[query.limit - 1]["id"]) if len(rows) > query.limit else None
    return Page(items=[Action(**row) for row in rows[: query.limit]], next=more)


@routes.get("/{action_id}", summary="Show a bulk action")
async def show(action_id: Id, api: ApiDep, who: Viewer) -> Action:
    return Action(**await api.bulk.get(action_id))
