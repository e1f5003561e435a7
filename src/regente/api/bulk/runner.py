"""Runs bulk actions in chunks and records each finished chunk; an interrupted chunk is repeated.

When the process dies, another API process or the next start continues its actions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from typing import Any

import psycopg

from regente.api.bulk.actions import BulkActions
from regente.api.config import ApiConfig
from regente.api.queries import QUERIES, LimitedDatabase
from regente.app import Regente
from regente.engine.cancellation import cancel_all
from regente.engine.errors import DatabaseUnavailable, NotFound
from regente.queries import Row

logger = logging.getLogger("regente.api")

POLL_SECONDS = 5.0


class BulkRunner:
    def __init__(
        self,
        app: Regente,
        database: LimitedDatabase,
        config: ApiConfig,
        actions: BulkActions | None = None,
    ) -> None:
        self.actions = (actions or BulkActions()).by_kind
        self._app = app
        self._database = database
        self._config = config
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._working: set[asyncio.Task[None]] = set()
        self._adopting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._adopting = asyncio.create_task(self._adopt_orphans(), name="bulk actions")

    async def stop(self) -> None:
        await cancel_all([*self._working, *([self._adopting] if self._adopting else [])])
        with contextlib.suppress(psycopg.Error, DatabaseUnavailable):
            await QUERIES.execute(self._database, "release_actions", owner=self._owner)

    async def submit(
        self,
        kind: str,
        ids: Sequence[int],
        *,
        by: str,
        reason: str | None = None,
        request_id: str | None = None,
        selection: dict[str, Any] | None = None,
        changes: dict[str, Any] | None = None,
    ) -> Row:
        """Store an action and run it: few items before this returns, many in the background."""
        row = await QUERIES.fetch_one(
            self._database,
            "begin_action",
            kind=kind,
            by=by,
            reason=reason,
            request_id=request_id,
            ids=list(ids),
            owner=self._owner,
            filter=json.dumps(selection),
            changes=None if changes is None else json.dumps(changes),
            lease_seconds=self._config.action_lease_seconds,
        )
        assert row is not None
        if len(ids) <= self._config.inline_items:
            await self._work(row["id"])
        else:
            self._begin(row["id"])
        return await self.get(row["id"])

    async def get(self, action_id: int) -> Row:
        row = await QUERIES.fetch_one(self._database, "show_action", id=action_id)
        if row is None:
            raise NotFound(f"there is no action {action_id}")
        return row

    def _begin(self, action_id: int) -> None:
        task = asyncio.create_task(self._work(action_id), name=f"bulk action {action_id}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _adopt_orphans(self) -> None:
        while True:
            try:
                lease = self._config.action_lease_seconds
                for row in await QUERIES.fetch_all(
                    self._database,
                    "adopt_actions",
                    owner=self._owner,
                    lease_seconds=lease,
                    kinds=list(self.actions),
                ):
                    logger.info("bulk action taken over", extra={"action": row["id"]})
                    self._begin(row["id"])
            except (psycopg.Error, DatabaseUnavailable) as error:
                logger.warning("cannot look for bulk actions", extra={"error": str(error).strip()})
            await asyncio.sleep(min(POLL_SECONDS, self._config.action_lease_seconds / 2))

    async def _work(self, action_id: int) -> None:
        try:
            while await self._chunk(action_id):
                pass
        except (psycopg.OperationalError, DatabaseUnavailable) as error:
            # When its lease expires, a process continues it.
            logger.warning(
                "bulk action interrupted", extra={"action": action_id, "error": str(error).strip()}
            )
        except Exception as error:
            logger.exception("bulk action failed", extra={"action": action_id})
            await QUERIES.execute(
                self._database,
                "fail_action",
                id=action_id,
                owner=self._owner,
                error=f"{type(error).__name__}: {error}",
            )

    async def _chunk(self, action_id: int) -> bool:
        """Process one chunk; whether there are more."""
        row = await QUERIES.fetch_one(
            self._database,
            "action_work",
            id=action_id,
            owner=self._owner,
            count=self._config.chunk_items,
        )
        if row is None:
            return False
        ids = row["ids"] or []
        apply = self.actions[row["kind"]].apply
        changes = row["changes"] or {}
        changed = await apply(self._app, self._database, ids, row["by"], **changes) if ids else 0
        after = await QUERIES.fetch_one(
            self._database,
            "advance_action",
            id=action_id,
            owner=self._owner,
            dealt_with=len(ids),
            changed=changed,
            lease_seconds=self._config.action_lease_seconds,
        )
        return after is not None and after["status"] == "running"
