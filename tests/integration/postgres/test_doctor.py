"""`regente doctor` on real servers: every version, PgBouncer, with and without privileges."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from regente.postgres.binaries import packaged_server
from regente.postgres.checks.embedded import MAX_AGE_DAYS, finding_of
from regente.postgres.doctor import Finding, examine
from tests.support.postgres_servers import MAJORS, pgbouncer, require_postgres, start_server
from tests.support.server_users import open_folder


@pytest.fixture(scope="module")
def running_server() -> Iterator[str]:
    settings = {
        "fsync": "off",
        "autovacuum": "off",
        "max_prepared_transactions": "4",
        "max_connections": "40",
    }
    with (
        open_folder() as folder,
        start_server(require_postgres(18), folder / "18", **settings) as url,
    ):
        yield url


@pytest.fixture
def server(running_server: str) -> Iterator[str]:
    yield running_server
    with psycopg.connect(running_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS regente CASCADE")


def diagnose(url: str, data_dir: Path | None = None) -> dict[str, Finding]:
    findings = asyncio.run(examine(url, data_dir=data_dir))
    json.dumps([finding.details for finding in findings], default=str)
    return {finding.check: finding for finding in findings}


def unchecked(findings: dict[str, Finding]) -> list[str]:
    return [
        finding.summary
        for finding in findings.values()
        if "could not be checked" in finding.summary
    ]


@pytest.mark.parametrize("major", MAJORS)
def test_every_supported_version_passes_all_checks(major: int, folder: Path) -> None:
    with start_server(require_postgres(major), folder / "server") as url:
        findings = diagnose(url)
    assert findings["version"].details["major"] == major
    assert unchecked(findings) == []
    assert [finding for finding in findings.values() if finding.level == "error"] == []
    assert findings["pooler"].summary.startswith("The connection is direct")
    assert findings["clock"].level == "ok"


def test_settings_that_lose_data_are_errors(server: str) -> None:
    findings = diagnose(server)
    assert findings["fsync"].level == "error"
    assert findings["synchronous_commit"].level == "ok"
    assert findings["autovacuum"].level == "warning"


def test_a_role_that_commits_asynchronously_or_under_a_time_limit_is_told(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE hasty LOGIN")
        connection.execute("ALTER ROLE hasty SET synchronous_commit = off")
        connection.execute("ALTER ROLE hasty SET statement_timeout = '5s'")
        connection.execute("ALTER ROLE hasty SET idle_in_transaction_session_timeout = '10min'")
    findings = diagnose(server.replace("regente@", "hasty@"))
    assert findings["synchronous_commit"].level == "error"
    assert findings["statement_timeout"].level == "warning"
    assert findings["statement_timeout"].details == {"seconds": 5.0, "source": "user"}
    assert findings["idle_in_transaction_session_timeout"].level == "info"


def test_a_role_without_privileges_is_examined_and_told_what_it_lacks(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE modest LOGIN")
        connection.execute("CREATE SCHEMA regente")
        connection.execute(
            "CREATE TABLE regente.migrations (version int, name text, applied_at timestamptz)"
        )
    findings = diagnose(server.replace("regente@", "modest@"))
    assert unchecked(findings) == []
    assert findings["permission"].level == "error"
    assert findings["schema"].level == "info"


def test_what_pins_the_horizon_is_shown_with_its_pid(server: str) -> None:
    with psycopg.connect(server) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT txid_current()")
        finding = diagnose(server)["horizon"]
        holders = [(row["holder"], row["pid"]) for row in finding.details["holders"]]
        assert ("session", holder.info.backend_pid) in holders
        assert f"pid {holder.info.backend_pid}" in finding.summary
        assert "idle in transaction" in finding.summary
    assert diagnose(server)["horizon"].level == "ok"


def test_a_writer_in_another_database_that_stalls_the_feed_is_named(server: str) -> None:
    """Q3: transaction ids are the whole server's, so the feed waits for it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE elsewhere")
    with psycopg.connect(server, dbname="elsewhere") as writer:
        writer.execute("CREATE TABLE t (n integer)")
        finding = diagnose(server)["feed"]
        assert finding.level == "info"
        assert f"pid {writer.info.backend_pid}" in finding.summary
        assert "database elsewhere" in finding.summary
    assert diagnose(server)["feed"].level == "ok"


def test_a_forgotten_prepared_transaction_is_shown(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("BEGIN; SELECT txid_current(); PREPARE TRANSACTION 'forgotten'")
        finding = diagnose(server)["horizon"]
        connection.execute("ROLLBACK PREPARED 'forgotten'")
    assert "prepared transaction forgotten" in finding.summary


def test_a_pooler_in_transaction_mode_is_recognised(server: str) -> None:
    with pgbouncer(server) as through:
        findings = diagnose(through)
        assert findings["pooler"].details["mode"] == "transaction"
        assert "polling" in findings["pooler"].summary
        assert unchecked(findings) == []


def test_a_pooler_in_session_mode_lets_listen_through(server: str) -> None:
    with pgbouncer(server, pool_mode="session") as through:
        finding = diagnose(through)["pooler"]
        assert finding.level == "ok"
        assert finding.details["mode"] == "session"


def test_the_schema_is_reported_from_not_installed_to_its_version(server: str) -> None:
    assert diagnose(server)["schema"].advice == "Run `regente migrate up`."
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA regente")
        connection.execute(
            "CREATE TABLE regente.migrations (version int, name text, applied_at timestamptz)"
        )
        connection.execute(
            "INSERT INTO regente.migrations VALUES (1, 'engine', now()), (2, 'quotes', now())"
        )
        connection.execute("CREATE TABLE regente.tasks AS SELECT generate_series(1, 10) AS id")
        connection.execute("CREATE UNLOGGED TABLE regente.volatile ()")
        findings = diagnose(server)
    assert findings["schema"].details["version"] == {"engine": 1, "quotes": 1}
    assert findings["dead_rows"].level == "ok"
    assert findings["unlogged"].level == "error"
    assert findings["unlogged"].details == {"tables": ["volatile"]}


def test_few_free_connections_are_a_warning(server: str) -> None:
    connections = [psycopg.connect(server) for _ in range(20)]
    try:
        assert diagnose(server)["connections"].level == "warning"
    finally:
        for connection in connections:
            connection.close()


def test_a_database_in_another_encoding_is_an_error(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    findings = diagnose(server.replace("/postgres?", "/latin?"))
    assert findings["encoding"].level == "error"
    assert unchecked(findings) == []


def test_the_disk_of_the_embedded_server_is_examined(server: str, folder: Path) -> None:
    assert diagnose(server, folder)["disk"].details["free_bytes"] > 0
    assert diagnose(server, folder / "missing")["disk"].level == "info"


def test_the_version_of_the_embedded_server_is_shown_and_its_age_warned_about(
    server: str, folder: Path
) -> None:
    """O18: no system updates it."""
    shown = diagnose(server, folder)["embedded"]
    assert shown.details["version"].startswith("PostgreSQL 18.")
    assert "REGENTE_DATABASE_URL" in (shown.advice or "")
    assert "embedded" not in diagnose(server)
    fresh = packaged_server()
    old = replace(fresh, installed_at=fresh.installed_at - (MAX_AGE_DAYS + 1) * 86_400)
    assert (finding_of(replace(fresh, installed_at=time.time())).level, finding_of(old).level) == (
        "info",
        "warning",
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hidden@127.0.0.1:1/database",
        "postgresql://user:hid@den-hidden@127.0.0.1:1/database",
        "postgresql://user:hid/den-hidden@127.0.0.1:1/database",
        "postgresql://user:hidden@[::1/database",
        "host=127.0.0.1 port=1 user=user password=hidden",
        "hidden",
        "postgresql://user:hidden@/database?host=/nowhere",
    ],
)
def test_a_server_out_of_reach_is_an_error_that_never_shows_the_password(url: str) -> None:
    findings = asyncio.run(examine(url))
    assert [finding.level for finding in findings] == ["error"]
    assert findings[0].advice
    assert "hid" not in repr(findings)
