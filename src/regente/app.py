"""`Regente`: the engine with its database, embedded or given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import AsyncConnection

from regente.components import components_of
from regente.engine.cancellation import cancel_all
from regente.engine.client import Client
from regente.engine.counters import DrainReport
from regente.engine.database import ClientDatabase, Database
from regente.engine.errors import DatabaseUnavailable, InvalidInput
from regente.engine.migrations import ENGINE, Component, Migrator
from regente.engine.pipeline import Registry, registry
from regente.engine.queries import query
from regente.engine.retention import RetentionTime
from regente.engine.runner import Runner
from regente.engine.watchdog import Watchdog
from regente.engine.writable import connect_to_writable, why_unreachable
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
        self._stops = 0  # requests to stop since the run began
        self._fleet: Fleet | None = None
        self._traces: Traces | None = None
        self._registered: dict[str, Registered] = {}
        super().__init__(
            ClientDatabase(self._given_url or ""),
            pipelines,
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
                self.settings.secret_key,
                self.settings.data_dir or default_data_dir(),
                self.settings.former_secret_key,
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
        self._runner, self._stops = None, 0
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
        if "missions" in self._registered:
            await self.fleet.offer_sealing_key()
        await self.database.resize(self.settings.pool_sizes(config.concurrency))
        self._runner = Runner(self.database, selected, self._intake, config, self._traces)
        for _ in range(self._stops):
            self._runner.stop()
        return await self._runner.run(until_idle=until_idle)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Look after tasks while no runner may live: recover those of lost runners, and say which
        batches stall. Runners do it themselves; of all processes one at a time does."""
        if "missions" in self._components:
            with contextlib.suppress(OSError):  # no folder for a key file: a server without secrets
                await self.fleet.offer_sealing_key()
        config = self.settings.runner_config().watchdog
        sweeps = Watchdog(self.database, config, schedules=False).start()
        try:
            yield
        finally:
            await cancel_all(sweeps)

    def stop_running(self) -> None:
        """Stop the runner. The first call drains it, the second returns its tasks to the queue."""
        self._stops += 1
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
            url, autocommit=True, prepare_threshold=None, **connect_to_writable(url)
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"cannot reach PostgreSQL at {Database(url).safe_url}: {why_unreachable(error)}"
        ) from error
    async with connection:
        migrator = Migrator(connection, components)
        installed = await migrator.installed()
        if not upgrade:
            there = [component for component in components if component.name in installed]
            await Migrator(connection, there).require()
        if any(installed.get(name, 0) < newest for name, newest in migrator.newest.items()):
            await migrator.up()
        await connection.execute(query("enter_timeline"))
