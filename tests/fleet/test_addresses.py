"""One rule for the addresses of members, in the register and in SQL."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from regente.address_guard import check_address
from regente.engine.errors import InvalidInput
from regente.fleet.addresses import checked_host
from regente.fleet.registry import Fleet
from tests.fleet.addresses import HOSTS, NEVER_CALLED, NO_HOSTS, generated
from tests.fleet.conftest import rows

Sql = AsyncConnection[Any]
Door = Callable[[str], Awaitable[object]]
URL = "https://w.example.com"
BASES = ["{}", "http://{}", "https://{}:8080", "HTTP://{}/a/b"]
URLS = BASES[1:]
PROXIES = ["{}", "{}:3128", "http://{}", "socks5://{}:1080"]
NO_URLS = [
    "http://{}:0",
    "http://{}:65536",
    "http://{}?",
    "http://{}#",
    "http://{}/?a",
    "http://{}/#",
]
NO_URLS += ["ftp://{}", "http://@{}", "http://u:p@{}", "http:/{}", "http://{}/a b", "http://{}\\@b"]
NO_URLS += [f"http://{{}}/a{sign}b" for sign in "\n\x7f\x85\xa0\xad\u200b\u2028\u202e\u2060\ufeff"]
TRIGGERS = [(one, f"{one}_are_checked") for one in ("workers", "writers", "proxies")]
NO_PROXIES = ["{}:0", "{}:65536", "{}/", "{}?", "{}#", "ftp://{}", "HTTP://{}", "u@{}", "{}:٣"]


@pytest.fixture
async def sql(fleet: Fleet, database_url: str) -> AsyncIterator[Sql]:
    connection = await AsyncConnection.connect(database_url, autocommit=True)
    async with connection:
        await connection.execute("SET search_path = regente")
        yield connection


async def run(sql: Sql, statement: str, *params: object) -> None:
    """As the register's, its refusals are `InvalidInput`: those of triggers in the register's own
    statements are not."""
    try:
        await sql.execute(statement.encode(), params)
    except psycopg.errors.CheckViolation as error:
        raise InvalidInput(error.diag.message_primary or "") from None


def doors(fleet: Fleet, sql: Sql) -> dict[str, Door]:
    """Every way by which an address gets into the fleet."""
    key = partial(fleet.secrets.encrypt, "a key")
    name = map("member {}".format, itertools.count())
    worker = "INSERT INTO workers (name, url, api_key, storage_domain) VALUES (%s, %s, %s, %s)"
    writer = "INSERT INTO writers (name, url, api_key) VALUES (%s, %s, %s)"
    proxy = "INSERT INTO proxies (name, host) VALUES (%s, %s)"
    change = "UPDATE {} SET {} = %s, {} = %s WHERE name = 'there'"
    moved_worker = change.format("workers", "url", "api_key")
    moved_proxy = change.format("proxies", "host", "password")
    return {
        "url of a worker": lambda one: fleet.add_worker(next(name), one, "k", "s.example.com"),
        "url of a worker in SQL": lambda one: run(sql, worker, next(name), one, key(), "s"),
        "new url of a worker in SQL": lambda one: run(sql, moved_worker, one, key()),
        "url of a writer": lambda one: fleet.add_writer(next(name), one, "k"),
        "url of a writer in SQL": lambda one: run(sql, writer, next(name), one, key()),
        "storage": lambda one: fleet.add_worker(next(name), URL, "k", one),
        "storage in SQL": lambda one: run(sql, worker, next(name), URL, key(), one),
        "proxy": lambda one: fleet.add_proxy(next(name), one),
        "proxy in SQL": lambda one: run(sql, proxy, next(name), one),
        "new host of a proxy in SQL": lambda one: run(sql, moved_proxy, one, key()),
    }


def forms_of(door: str) -> tuple[list[str], list[str]]:
    """The ways to write an address there, and those that are refused there with any host."""
    if "proxy" in door:
        return PROXIES, NO_PROXIES
    return (BASES, NO_URLS) if "storage" in door else (URLS, [*NO_URLS, "{}"])


async def refusal(door: Door, address: str) -> str | None:
    try:
        await door(address)
    except InvalidInput as error:
        return str(error)
    return None


@pytest.fixture
async def there(fleet: Fleet) -> None:
    await fleet.add_worker("there", URL, "k", "s.example.com")
    await fleet.add_proxy("there", "proxy.example.com", None, "user", "password")


@pytest.mark.usefixtures("there")
async def test_no_member_is_at_an_address_that_is_never_called(fleet: Fleet, sql: Sql) -> None:
    """O20, O22: however it is written, in the register and in SQL, with the same words."""
    wrong = []
    for what, door in doors(fleet, sql).items():
        for form, host in itertools.product(forms_of(what)[0], NEVER_CALLED):
            told = await refusal(door, form.format(host))
            if told is None or "is not a public address; nothing is read from it" not in told:
                wrong.append((what, form.format(host), told))
    assert wrong == []


@pytest.mark.usefixtures("there")
async def test_what_is_no_address_is_refused_at_every_door(fleet: Fleet, sql: Sql) -> None:
    """O20: hosts that are none, and addresses with more than a host, a port and a path."""
    accepted = []
    for what, door in doors(fleet, sql).items():
        good, bad = forms_of(what)
        cases = [form.format(host) for form in good for host in NO_HOSTS]
        for case in [*cases, *(form.format(host) for form in bad for host in ("a", "[::1]"))]:
            if await refusal(door, case) is None:
                accepted.append((what, case))
    assert accepted == []


@pytest.mark.usefixtures("there")
async def test_other_hosts_are_taken_at_every_door(fleet: Fleet, sql: Sql) -> None:
    """O20: names, public and private addresses."""
    refused = []
    for what, door in doors(fleet, sql).items():
        for form, host in itertools.product(forms_of(what)[0], HOSTS):
            if told := await refusal(door, form.format(host)):
                refused.append((what, form.format(host), told))
    assert refused == []


@pytest.mark.parametrize("seed", range(3))
async def test_the_register_and_the_database_judge_hosts_alike(sql: Sql, seed: int) -> None:
    """O20: thousands of ways to write addresses near the limits of the rule."""
    hosts = [one for one in generated(4000, seed) if "/" not in one and one]
    found = await sql.execute(
        "SELECT regente.host_refusal(one) IS NULL FROM unnest(%s::text[]) one", [hosts]
    )
    in_sql = [taken for (taken,) in await found.fetchall()]
    in_python = [await refusal(_register, host) is None for host in hosts]
    apart = [host for host, a, b in zip(hosts, in_python, in_sql, strict=True) if a != b]
    assert apart == []
    assert 500 < sum(in_python) < len(hosts) - 500


@pytest.mark.parametrize("seed", range(3))
async def test_no_host_that_is_taken_is_such_an_address_to_the_system(seed: int) -> None:
    """O22: what the resolver reads as an address, without asking for any name."""
    taken = [one for one in generated(4000, seed) if one and await refusal(_register, one) is None]
    addresses = [found for one in taken if (found := _read_by_the_system(one)) is not None]
    for address in addresses:
        check_address(address, allow_private=True)
    assert len(addresses) > 500


def _read_by_the_system(host: str) -> str | None:
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])


async def _register(host: str) -> None:
    checked_host(host)


async def test_a_member_from_before_can_be_changed_and_switched_off(fleet: Fleet, sql: Sql) -> None:
    """O4: its address was taken by an earlier version; a new one is checked."""
    worker = await fleet.add_worker("w", URL, "k", "s.example.com")
    writer = await fleet.add_writer("w", URL, "k")
    proxy = await fleet.add_proxy("p", "proxy.example.com")
    for table, trigger in TRIGGERS:
        await sql.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}".encode())
    await sql.execute("UPDATE workers SET url = 'http://2852039166', storage_domain = '[fe80::1]'")
    await sql.execute("UPDATE writers SET url = 'http://2852039166'")
    await sql.execute("UPDATE proxies SET host = '[fe80::1]:3128'")
    for table, trigger in TRIGGERS:
        await sql.execute(f"ALTER TABLE {table} ENABLE TRIGGER {trigger}".encode())
    for kind, member in (("worker", worker), ("writer", writer), ("proxy", proxy)):
        await fleet.set_active(kind, member, False)  # type: ignore[arg-type]
        await fleet.edit(kind, member, {"name": "renamed"})  # type: ignore[arg-type]
    for table, _ in TRIGGERS:
        assert await rows(fleet, f"SELECT FROM {table} WHERE NOT active AND name = 'renamed'")
    with pytest.raises(psycopg.errors.CheckViolation):
        await sql.execute("UPDATE proxies SET host = '[fe80::2]:3128'")
