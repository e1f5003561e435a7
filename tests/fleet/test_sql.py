"""Workers, proxies and writers written in SQL: checked, recorded and encrypted at once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.pipeline import Registry
from regente.fleet.registry import Fleet
from regente.fleet.secrets import Secrets, SecretsUnreadable, add_key
from regente.settings import Settings
from tests.fleet.conftest import rows
from tests.fleet.test_register import BAD_HOSTS, BAD_URLS

Sql = AsyncConnection[dict[str, Any]]
SECRET = "a plain key, ção 1234567890"
WORKER = (
    f"INSERT INTO workers (name, url, api_key) VALUES ('w', 'https://w.example.com', '{SECRET}')"
)
PROXY = (
    "INSERT INTO proxies (host, port, username, password) "
    f"VALUES ('proxy.example.com', 8080, 'user', '{SECRET}')"
)
WRITER = (
    f"INSERT INTO writers (name, url, api_key) VALUES ('s', 'https://s.example.com', '{SECRET}')"
)


@pytest.fixture
async def sql(fleet: Fleet, database_url: str) -> AsyncIterator[Sql]:
    """A connection of a script, to a database that has been told for which key to encrypt."""
    await fleet.offer_sealing_key()
    connection = await AsyncConnection.connect(database_url, autocommit=True, row_factory=dict_row)
    async with connection:
        await connection.execute("SET search_path = regente")
        yield connection


async def one(sql: Sql, text: str, *params: Any) -> dict[str, Any]:
    row = await (await sql.execute(text.encode(), params)).fetchone()
    assert row is not None, text
    return row


async def test_plain_keys_are_encrypted_before_they_are_stored(fleet: Fleet, sql: Sql) -> None:
    """O1, O20: RETURNING, the table and the WAL have the sealed key alone; Regente reads it."""
    worker = await one(sql, f"{WORKER} RETURNING *")
    proxy = await one(sql, f"{PROXY} RETURNING *")
    writer = await one(sql, f"{WRITER} RETURNING *")
    assert (worker["status"], worker["active"], worker["session_count"]) == ("idle", True, 0)
    assert proxy["name"] == proxy["id"]
    for row, name in ((worker, "api_key"), (proxy, "password"), (writer, "api_key")):
        assert row[name].startswith(f"rgs.{fleet.secrets.key_id}.")
    assert (await fleet.worker(worker["id"])).api_key == SECRET
    assert (await fleet.proxy(proxy["id"])).password == SECRET
    assert (await fleet.writer(writer["id"])).api_key == SECRET
    await sql.execute("UPDATE workers SET api_key = 'another one'")
    assert (await fleet.worker(worker["id"])).api_key == "another one"
    folder = Path((await one(sql, "SHOW data_directory"))["data_directory"]) / "pg_wal"
    if os.access(folder, os.R_OK):
        written = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
        assert not any(SECRET.encode() in one_segment for one_segment in written)
        sealed = [worker["api_key"], proxy["password"], writer["api_key"]]
        assert any(
            one_secret.encode()[:30] in one_segment
            for one_secret in sealed
            for one_segment in written
        )


async def test_a_rotation_replaces_sealed_keys(fleet: Fleet, sql: Sql, settings: Settings) -> None:
    """O20: then the database seals for the new key."""
    worker = await one(sql, f"{WORKER} RETURNING id")
    assert settings.data_dir is not None
    add_key(settings.data_dir)
    fleet.secrets.reload()
    assert await fleet.rotate_secrets() == 1
    assert (await fleet.secrets_by_key()) == {"current": 1, "former": 0}
    assert (await fleet.worker(worker["id"])).api_key == SECRET
    sealed = await one(sql, f"{WRITER} RETURNING api_key")
    assert sealed["api_key"].startswith(f"rgs.{fleet.secrets.key_id}.")
    assert [row["event"] for row in await rows(fleet, "SELECT event FROM events ORDER BY id")] == [
        "worker_added",
        "secrets_rotated",
        "writer_added",
    ]


async def test_a_process_with_another_key_does_not_take_over(
    fleet: Fleet, sql: Sql, tmp_path: Path
) -> None:
    """O20: a key file made by mistake on another machine; a key that was given by name does."""
    stranger = Fleet(fleet.database, Secrets.of(None, tmp_path / "elsewhere"))
    await stranger.offer_sealing_key()
    worker = await one(sql, f"{WORKER} RETURNING id")
    assert (await fleet.worker(worker["id"])).api_key == SECRET
    with pytest.raises(SecretsUnreadable):
        await stranger.worker(worker["id"])
    named = Fleet(fleet.database, Secrets.of("correct horse battery staple", tmp_path))
    await named.offer_sealing_key()
    writer = await one(sql, f"{WRITER} RETURNING id")
    assert (await named.writer(writer["id"])).api_key == SECRET
    for one_fleet in (stranger, named):
        await one_fleet.close()


async def test_without_a_key_the_plain_text_is_refused(
    database_url: str, settings: Settings
) -> None:
    """O20: a database that no process with the fleet's key has used."""
    async with (
        Regente(database_url, settings=settings),
        await AsyncConnection.connect(database_url) as connection,
    ):
        await connection.execute("SET search_path = regente")
        with pytest.raises(psycopg.Error) as refused:
            await connection.execute(WORKER.encode())
    assert refused.value.sqlstate == "55000"
    assert "regente serve" in (refused.value.diag.message_hint or "")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("process", ["run", "serve", "fleet add"])
async def test_processes_with_the_key_tell_the_database(
    database_url: str, settings: Settings, process: str
) -> None:
    """O20: a runner of missions, the API, and the command that adds a member."""
    async with (
        Regente(
            database_url, settings=settings, pipelines=Registry(), components=["missions"]
        ) as app,
        await AsyncConnection.connect(database_url, autocommit=True) as connection,
    ):
        await connection.execute("SET search_path = regente")
        match process:
            case "run":
                app.conduct_missions()
                await app.run(until_idle=True)
                await connection.execute(WORKER.encode())
            case "serve":
                async with app.watch():
                    await connection.execute(WORKER.encode())
            case _:
                await app.fleet.add_proxy("p", "proxy.example.com")
                await connection.execute(WORKER.encode())
        _, worker = await app.fleet.find("w")
        assert (await app.fleet.worker(worker)).api_key == SECRET


@pytest.mark.parametrize("length", [0, 1, 55, 64, 65, 200])
async def test_the_databases_primitives_are_the_standards(sql: Sql, length: int) -> None:
    """O20: X25519 (RFC 7748) and HMAC-SHA-256 (RFC 2104) against `cryptography`."""
    scalar, data = os.urandom(32), os.urandom(length)
    point = X25519PrivateKey.generate().public_key().public_bytes_raw()
    shared = await one(sql, "SELECT regente.x25519(%s, %s) AS found", scalar, point)
    private = X25519PrivateKey.from_private_bytes(scalar)
    assert shared["found"] == private.exchange(X25519PublicKey.from_public_bytes(point))
    tag = HMAC(data or b"\0", SHA256())
    tag.update(data)
    found = await one(sql, "SELECT regente.hmac_sha256(%s, %s) AS found", data or b"\0", data)
    assert found["found"] == tag.finalize()


async def test_a_sealed_key_that_was_changed_is_refused(fleet: Fleet, sql: Sql) -> None:
    """O20: its tag covers every byte."""
    sealed = (await one(sql, f"{WORKER} RETURNING api_key"))["api_key"]
    assert fleet.secrets.decrypt(sealed) == SECRET
    for place in range(len("rgs.00000000."), len(sealed.rstrip("="))):
        other = "A" if sealed[place] != "A" else "Q"
        with pytest.raises(SecretsUnreadable):
            fleet.secrets.decrypt(sealed[:place] + other + sealed[place + 1 :])


async def test_changes_in_sql_are_events_with_their_author(fleet: Fleet, sql: Sql) -> None:
    """O18: the same events as the register's."""
    for statement in (WORKER, PROXY, WRITER):
        await sql.execute(statement.encode())
    await sql.execute("UPDATE workers SET name = ' v ', storage_domain = 'storage.example.com/'")
    await sql.execute("UPDATE proxies SET active = false, fail_count = 3")
    await sql.execute("UPDATE proxies SET active = true")
    await sql.execute("UPDATE workers SET session_count = 1")
    (author,) = (await one(sql, "SELECT session_user")).values()
    events = await rows(fleet, "SELECT event, details FROM events ORDER BY id")
    assert {row["details"]["by"] for row in events} == {author}
    assert [row["event"] for row in events] == [
        "worker_added",
        "proxy_added",
        "writer_added",
        "worker_edited",
        "proxy_deactivated",
        "proxy_activated",
    ]
    assert events[3]["details"]["changed"] == ["name", "storage_domain"]
    worker = await one(sql, "SELECT * FROM workers")
    assert (worker["name"], worker["storage_domain"]) == ("v", "storage.example.com")
    assert (await one(sql, "SELECT fail_count FROM proxies"))["fail_count"] == 0


async def test_a_worker_without_storage_is_warned_about(sql: Sql) -> None:
    """O9: the specification allows it; it gets no missions until it has one."""
    told: list[str] = []
    sql.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    await sql.execute(WORKER.encode())
    assert told == ["without a storage_domain the worker w gets no missions"]


REFUSED = {
    WORKER.replace("'w'", "'  '"): "23514",
    WORKER.replace("'w'", f"'{'n' * 101}'"): "22001",
    WORKER.replace(SECRET, ""): "23514",
    WORKER.replace(SECRET, "s" * 201): "23514",
    WORKER.replace(f"'{SECRET}'", "NULL"): "23502",
    WRITER.replace("'https://s.example.com'", "NULL"): "23502",
    PROXY.replace("'proxy.example.com'", "NULL"): "23502",
    WORKER.replace(f"'{SECRET}'", "E'two\\nlines'"): "23514",
    PROXY.replace("8080", "0"): "23514",
    PROXY.replace("'proxy.example.com'", "'proxy.example.com:80'"): "23514",
    "UPDATE workers SET url = 'https://evil.example.com'": "23514",
    "UPDATE proxies SET host = 'evil.example.com'": "23514",
    "UPDATE workers SET status = 'scraping'": "RG001",
    "INSERT INTO workers (name, url, api_key, status) "
    "VALUES ('x', 'https://x', 'k', 'ready')": "RG001",
    "INSERT INTO workers (name, url, api_key) VALUES ('there', 'https://x', 'k')": "23505",
}


@pytest.mark.parametrize("statement", REFUSED)
async def test_what_the_register_refuses_is_refused_in_sql(
    fleet: Fleet, sql: Sql, statement: str
) -> None:
    """O20: names, keys, hosts, ports, states, and a new address without its key."""
    await fleet.add_worker("there", "https://there.example.com", "key", "storage.example.com")
    await fleet.add_proxy("there", "there.example.com", 8080, "user", "password")
    before = await rows(fleet, "SELECT id FROM events")
    with pytest.raises(psycopg.Error) as refused:
        await sql.execute(statement.encode())
    assert refused.value.sqlstate == REFUSED[statement], refused.value
    assert await rows(fleet, "SELECT id FROM events") == before


@pytest.mark.parametrize("status", ["ready", "scraping", "error"])
async def test_a_refused_state_of_a_worker_says_what_to_call_instead(
    fleet: Fleet, sql: Sql, status: str
) -> None:
    """O3: its driver alone moves it."""
    await fleet.add_worker("there", "https://there.example.com", "key", "storage.example.com")
    with pytest.raises(psycopg.Error) as refused:
        await sql.execute("UPDATE workers SET status = %s", [status])
    assert refused.value.sqlstate == "RG001"
    assert "regente orchestrator start" in (refused.value.diag.message_hint or "")


@pytest.mark.parametrize("url", [url for url in BAD_URLS if isinstance(url, str)])
async def test_addresses_are_checked_as_in_the_register(sql: Sql, url: str) -> None:
    """O20: the same bad ones."""
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.StringDataRightTruncation)):
        await sql.execute("INSERT INTO writers (name, url, api_key) VALUES ('x', %s, 'k')", [url])


@pytest.mark.parametrize("host", [host for host in BAD_HOSTS if isinstance(host, str)])
async def test_hosts_are_checked_as_in_the_register(sql: Sql, host: str) -> None:
    """O20: the same bad ones."""
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.StringDataRightTruncation)):
        await sql.execute("INSERT INTO proxies (name, host) VALUES ('x', %s)", [host])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9",
        "https://worker.example.com/a/b",
        "http://[::1]:8080",
        "http://10.0.0.7",
        "http://münchen.example",
        "http://999.1.1.1",
    ],
)
async def test_good_addresses_are_accepted(fleet: Fleet, sql: Sql, url: str) -> None:
    """O20: in SQL and in the register."""
    await sql.execute("INSERT INTO writers (name, url, api_key) VALUES ('x', %s, 'k')", [url + "/"])
    assert (await one(sql, "SELECT url FROM writers"))["url"] == url
    await fleet.add_writer("y", url, "k")


async def test_what_was_removed_is_not_found_by_an_update(fleet: Fleet, sql: Sql) -> None:
    """O18: and does not come back to life."""
    worker = await fleet.add_worker("w", "https://w.example.com", "key", "storage.example.com")
    await fleet.remove("worker", worker)
    changed = await sql.execute(
        "UPDATE workers SET active = true, removed_at = NULL, api_key = 'k'"
    )
    assert changed.rowcount == 0
    assert await fleet.members() == []
