"""`Regente`: the engine with its database, embedded or given."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import AsyncConnection

from regente.components import components_of
from regente.engine.client import Client
from regente.engine.counters import DrainReport
from regente.engine.database import Database
from regente.engine.errors import DatabaseUnavailable, InvalidInput
from regente.engine.migrations import ENGINE, Component, Migrator
from regente.engine.pipeline import Registry, registry
from regente.engine.queries import query
from regente.engine.retention import RetentionTime
from regente.engine.runner import Runner
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.builtins import require_on, serving, switched_on
from regente.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir
from regente.runtime_settings import RuntimeSettings
from regente.settings import Settings
from regente.telemetry.setup import traces

if TYPE_CHECKING:  # imported at first use: own pipelines need neither a fleet nor missions
    from regente.fleet.registry import Fleet
    from regente.pipelines.missions.operations import MissionOperations
    from regente.telemetry.observer import Traces


class Regente(Client):
    """Enqueues, queries and runs tasks.

        async with Regente() as app:
            task_id = await app.enqueue("prices", {"product": "chair"})

    Without `database_url` (or `REGENTE_DATABASE_URL`) an embedded PostgreSQL is started in
    `REGENTE_DATA_DIR` and shared by all processes that use it.

    Missing tables of the engine and of `components` are installed: names of built-in pipelines that
    this process uses (`("missions",)`), or `api`. The embedded database has those of all enabled
    built-ins (`REGENTE_BUILTINS`). An outdated schema is upgraded in the embedded database and
    refused in others.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        pipelines: Registry = registry,
        components: Collection[str] = (),
    ) -> None:
        self.settings = settings or Settings()
        require_on(components, self.settings.builtins)
        self._components = {*components}
        self._given_url = database_url or self.settings.database_url or None
        self._embedded: EmbeddedPostgres | None = None
        self._runner: Runner | None = None
        self._fleet: Fleet | None = None
        self._traces: Traces | None = None
        self._registered: dict[str, Registered] = {}
        super().__init__(
            Database(self._given_url or "", pool_size=self.settings.database_pool_size), pipelines
        )

    async def __aenter__(self) -> Self:
        await self._acquire_server()
        try:
            if self._embedded is not None:
                self._components |= {one.name for one in switched_on(self.settings.builtins)}
            await self._prepare_schema()
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
        for one in self._registered.values():
            await one.close()
        if self._fleet is not None:
            await self._fleet.close()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)
        await self.database.close()
        await self._release_server()

    @property
    def database_url(self) -> str:
        """The address of the given database or of the embedded server."""
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
        """The operations of missions."""
        from regente.pipelines.missions.operations import MissionOperations

        return MissionOperations(self)

    @property
    def runtime_settings(self) -> RuntimeSettings:
        """The settings in the database, which running processes apply without a restart."""
        return RuntimeSettings(
            self.missions, RetentionTime(self.database, self.settings.retention_days)
        )

    def conduct_missions(self) -> None:
        """Register the missions' pipelines in this process."""
        self.conduct(["missions"])

    def conduct(self, pipelines: list[str] | None = None) -> None:
        """Register the built-in pipelines in this process: all enabled ones, or those named."""
        host = Host(self.registry, self, lambda: self.fleet, self.settings.sandbox_url)
        for one in serving(pipelines, self.settings.builtins):
            if one.name not in self._registered:
                self._registered[one.name] = one.register(host)

    async def run(
        self,
        pipelines: list[str] | None = None,
        *,
        concurrency: int | None = None,
        until_idle: bool = False,
        name: str = "",
    ) -> DrainReport:
        """Run tasks of these pipelines (default: all) until `stop_running`, or none is left."""
        selected = self.registry.select(pipelines)
        if not selected:
            raise InvalidInput("no pipeline to run: import the module that defines one")
        config = self.settings.runner_config(concurrency=concurrency, name=name)
        for one in self._registered.values():
            selected = one.fit(selected, config.concurrency)
        if not self._components.issuperset(self._registered):
            self._components |= {*self._registered}
            await self._prepare_schema()
        if self._traces is None:
            self._traces = await traces(self.database, self.settings.otel)
        self._runner = Runner(self.database, selected, config, self._traces)
        return await self._runner.run(until_idle=until_idle)

    def stop_running(self) -> None:
        """Stop the runner. The first call drains it, the second returns its tasks to the queue."""
        if self._runner is not None:
            self._runner.stop()

    async def _prepare_schema(self) -> None:
        await prepare_schema(
            self.database_url,
            components_of(self._components),
            upgrade=self._embedded is not None,
        )

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


async def prepare_schema(
    url: str, components: Sequence[Component] = (ENGINE,), *, upgrade: bool
) -> None:
    """Install missing components; upgrade outdated ones if `upgrade`, else refuse them."""
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
        migrator = Migrator(connection, components)
        installed = await migrator.installed()
        if not upgrade:
            there = [component for component in components if component.name in installed]
            await Migrator(connection, there).require()
        if any(installed.get(name, 0) < newest for name, newest in migrator.newest.items()):
            await migrator.up()
        await connection.execute(query("rebase_feed"))
