"""`Regente`: the engine put together with a database, embedded or given."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import AsyncConnection

from regente.engine.client import Client
from regente.engine.counters import DrainReport
from regente.engine.database import Database
from regente.engine.errors import DatabaseUnavailable, InvalidInput
from regente.engine.migrations import Migrator
from regente.engine.pipeline import Registry, registry
from regente.engine.queries import query
from regente.engine.retention import RetentionTime
from regente.engine.runner import Runner
from regente.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir
from regente.runtime_settings import RuntimeSettings
from regente.settings import Settings
from regente.telemetry.setup import traces

if (
    TYPE_CHECKING
):  # loaded when first used: whoever runs pipelines of their own needs neither a fleet nor missions
    from regente.fleet.registry import Fleet
    from regente.pipelines.missions.operations import MissionOperations
    from regente.pipelines.missions.setup import MissionPipelines
    from regente.pipelines.offered import Closing
    from regente.telemetry.observer import Traces


class Regente(Client):
    """Open it, enqueue, ask, run.

        async with Regente() as app:
            task_id = await app.enqueue("prices", {"product": "chair"})

    Without `database_url` (or `REGENTE_DATABASE_URL`) an embedded PostgreSQL is started in
    `REGENTE_DATA_DIR` and shared by all processes that use it. An empty database gets its schema;
    an outdated one is refused unless it is the embedded one.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        pipelines: Registry = registry,
    ) -> None:
        self.settings = settings or Settings()
        self._given_url = database_url or self.settings.database_url or None
        self._embedded: EmbeddedPostgres | None = None
        self._runner: Runner | None = None
        self._fleet: Fleet | None = None
        self._traces: Traces | None = None
        self._mission_pipelines: MissionPipelines | None = None
        self._offered: list[Closing] = []
        super().__init__(
            Database(self._given_url or "", pool_size=self.settings.database_pool_size), pipelines
        )

    async def __aenter__(self) -> Self:
        await self._acquire_server()
        try:
            await prepare_schema(self.database_url, upgrade=self._embedded is not None)
            await self.database.open()
        except BaseException:
            await self._release_server()
            raise
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self._mission_pipelines is not None:
            await self._mission_pipelines.close()
        for one in self._offered:
            await one.close()
        if self._fleet is not None:
            await self._fleet.close()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)
        await self.database.close()
        await self._release_server()

    @property
    def database_url(self) -> str:
        """The address in use: the given one, or the embedded server's."""
        return self.database.url

    @property
    def fleet(self) -> Fleet:
        """Workers, proxies and writers."""
        if self._fleet is None:
            from regente.fleet.registry import Fleet
            from regente.fleet.secrets import Secrets

            secrets = Secrets.of(
                self.settings.secret_key, self.settings.data_dir or default_data_dir()
            )
            self._fleet = Fleet(self.database, secrets, self.settings.fleet_config())
        return self._fleet

    @property
    def missions(self) -> MissionOperations:
        """What people do with missions."""
        from regente.pipelines.missions.operations import MissionOperations

        return MissionOperations(self)

    @property
    def runtime_settings(self) -> RuntimeSettings:
        """The settings that are in the database: what runs obeys a change without being started
        again."""
        return RuntimeSettings(
            self.missions, RetentionTime(self.database, self.settings.retention_days)
        )

    def conduct_missions(self) -> None:
        """Let this process run missions, too: their pipelines join those that it knows."""
        if self._mission_pipelines is None:
            from regente.pipelines.missions.setup import register_missions

            self._mission_pipelines = register_missions(self.registry, self, self.fleet)

    def conduct(self, pipelines: list[str] | None = None) -> None:
        """Let this process run the pipelines that come with Regente: all of them, or those with
        these names."""
        from regente.pipelines.missions.setup import PIPELINES as MISSIONS
        from regente.pipelines.offered import offer

        if pipelines is None or {*pipelines} & {*MISSIONS}:
            self.conduct_missions()
        if not self._offered:
            self._offered = offer(self.registry, self, pipelines)

    async def run(
        self,
        pipelines: list[str] | None = None,
        *,
        concurrency: int | None = None,
        until_idle: bool = False,
        name: str = "",
    ) -> DrainReport:
        """Be a runner for these pipelines (all known ones by default) until `stop_running`, or
        until nothing is left."""
        selected = self.registry.select(pipelines)
        if not selected:
            raise InvalidInput("there is no pipeline to run: import the module that defines one")
        config = self.settings.runner_config(concurrency=concurrency, name=name)
        if self._mission_pipelines is not None:
            from regente.pipelines.missions.setup import with_room_for_missions

            selected = with_room_for_missions(selected, config.concurrency)
        if self._traces is None:
            self._traces = await traces(self.database, self.settings.otel)
        self._runner = Runner(self.database, selected, config, self._traces)
        return await self._runner.run(until_idle=until_idle)

    def stop_running(self) -> None:
        """Once: finish what runs, then end. Twice: hand it back now."""
        if self._runner is not None:
            self._runner.stop()

    async def _acquire_server(self) -> None:
        if self._given_url is None:
            data_dir = self.settings.data_dir or default_data_dir()
            try:
                self._embedded = await asyncio.to_thread(EmbeddedPostgres.acquire, data_dir)
            except EmbeddedPostgresError as error:
                raise DatabaseUnavailable(str(error)) from error
            self.database.url = self._embedded.url
            self.database.revive_with = self._embedded.ensure_running

    async def _release_server(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.release)
            self._embedded = None


async def prepare_schema(url: str, *, upgrade: bool) -> None:
    """Install into an empty database; upgrade the embedded one; refuse an outdated one of somebody
    else's."""
    try:
        connection: AsyncConnection[Any] = await AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None, connect_timeout=10
        )
    except psycopg.OperationalError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DatabaseUnavailable(
            f"cannot reach PostgreSQL at {Database(url).safe_url}: {reason}"
        ) from error
    async with connection:
        migrator = Migrator(connection)
        found = await migrator.version()
        if found < migrator.newest and (upgrade or found == 0):
            await migrator.up()
        await migrator.require()
        await connection.execute(query("rebase_feed"))
