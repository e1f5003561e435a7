"""The register of workers, proxies and writers: what it accepts, refuses and records."""

from __future__ import annotations

from typing import Any

import pytest

from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.fleet.models import Kind
from regente.fleet.registry import Fleet
from tests.fleet.conftest import rows

URL = "http://127.0.0.1:9"
BAD_NAMES: list[Any] = ["", "   ", "n" * 101, "two\nlines", "nul\x00", None, 7]
BAD_URLS: list[Any] = [
    "",
    "worker.example.com",
    "ftp://a",
    "http://",
    "http://a b",
    "http://a\n.example.com",
    "http://a:0",
    "http://a:99999",
    "http://a/?q=1",
    "http://a/#f",
    "http://a?",
    "http://a/#",
    "http://169.254.169.254",
    "http://[fe80::1]:80",
    "http://[::ffff:169.254.169.254]",
    "http://u:p@a",
    f"http://{'a' * 500}",
    None,
    7,
]
BAD_HOSTS: list[Any] = [
    "",
    "a b",
    "a\n",
    "user:pass@a",
    "ftp://a",
    "http://",
    "a/b",
    "a" * 201,
    None,
    "::1",
]
BAD_PORTS: list[Any] = [0, -1, 65_536, "80", 1.5, True]
BAD_SECRETS: list[Any] = ["", "s" * 201, "two\nlines", "nul\x00", None, 7]
BAD_STORAGE = ["", "a b", "s" * 256, "ftp://a", None, "http://u:p@a"]


LINK_LOCAL = [
    "http://2852039166",
    "http://0xa9.0xfe.0xa9fe:8080",
    "http://169.254.43518",
    "http://[fe80::1]:3128",
    "http://[fd00:ec2::254]",
    "http://0.0.0.0",
]


@pytest.mark.parametrize("address", LINK_LOCAL)
async def test_no_member_is_at_a_link_local_address(fleet: Fleet, address: str) -> None:
    """O22: however it is written, also of a proxy."""
    host = address.removeprefix("http://")
    attempts: list[Any] = [
        fleet.add_worker("w", address, "a-key", "s.example.com"),
        fleet.add_worker("w", URL, "a-key", address),
        fleet.add_writer("w", address, "a-key"),
        *(fleet.add_proxy("p", one) for one in (host, address, f"socks5://{host}")),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="not a public address"):
            await attempt


async def test_bad_input_is_refused_with_a_clear_error_and_nothing_is_stored(fleet: Fleet) -> None:
    """O20: names, addresses, hosts, ports, keys and storage domains."""
    attempts: list[Any] = [
        *(fleet.add_worker(name, URL, "a-key", "s.example.com") for name in BAD_NAMES),
        *(fleet.add_worker("w", url, "a-key", "s.example.com") for url in BAD_URLS),
        *(fleet.add_worker("w", URL, key, "s.example.com") for key in BAD_SECRETS),
        *(fleet.add_worker("w", URL, "a-key", domain) for domain in BAD_STORAGE),
        *(fleet.add_writer("w", url, "a-key") for url in BAD_URLS),
        *(fleet.add_writer("w", URL, key) for key in BAD_SECRETS),
        *(fleet.add_proxy("p", host) for host in BAD_HOSTS),
        *(fleet.add_proxy("p", "proxy.example.com", port) for port in BAD_PORTS),
        fleet.add_proxy("p", "proxy.example.com:80", 81),
        fleet.add_proxy("p", "proxy.example.com", 80, "u" * 101),
        fleet.add_proxy("p", "proxy.example.com", 80, "u\x00"),
        fleet.add_proxy("p", "proxy.example.com", 80, "u", "p" * 201),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput):
            await attempt
    assert await fleet.members() == []


async def test_a_worker_without_storage_is_told_why(fleet: Fleet) -> None:
    """O9: without `storage_domain` its results cannot be found."""
    with pytest.raises(
        InvalidInput, match="needs a storage_domain: without it its results cannot be found"
    ):
        await fleet.add_worker("w", URL, "a-key", None)


async def test_members_are_listed_without_their_secrets_and_found_by_name_or_id(
    fleet: Fleet,
) -> None:
    """O1, O20: encrypted in the database, absent from the read models."""
    worker = await fleet.add_worker(" w ", f"{URL}/", "worker-secret", "s.example.com", by="ana")
    proxy = await fleet.add_proxy("p", "socks5://10.0.0.7", None, "user", "proxy-secret")
    writer = await fleet.add_writer("w", URL, "writer-secret")
    assert [(m.kind, m.name, m.address, m.status) for m in await fleet.members()] == [
        ("worker", "w", URL, "idle"),
        ("proxy", "p", "socks5://10.0.0.7", "free"),
        ("writer", "w", URL, "active"),
    ]
    assert (await fleet.worker(worker)).api_key == "worker-secret"
    assert (await fleet.proxy(proxy)).address.model_dump() == {
        "server": "socks5://10.0.0.7",
        "username": "user",
        "password": "proxy-secret",
    }
    assert (await fleet.writer(writer)).api_key == "writer-secret"
    shown = repr(
        [
            await fleet.members(),
            await fleet.worker(worker),
            await fleet.proxy(proxy),
            (await fleet.proxy(proxy)).address,
        ]
    )
    stored = repr(
        [
            await rows(fleet, f"SELECT * FROM {table}")
            for table in ("workers", "proxies", "writers", "events")
        ]
    )
    for secret in ("worker-secret", "proxy-secret", "writer-secret"):
        assert secret not in shown
        assert secret not in stored
    assert await fleet.find("p") == ("proxy", proxy) == await fleet.find(proxy)
    with pytest.raises(InvalidInput, match="several members"):
        await fleet.find("w")
    with pytest.raises(NotFound, match="the fleet has no 'unknown'"):
        await fleet.find("unknown")


async def test_a_name_is_given_once_and_changes_are_checked_like_new_ones(fleet: Fleet) -> None:
    """O20: adding and renaming; fields that are not given stay."""
    first = await fleet.add_proxy("a", "one.example.com", 80, "user", "a-password")
    await fleet.add_proxy("b", "two.example.com", 80)
    with pytest.raises(InvalidInput, match="there is already a proxy called 'a'"):
        await fleet.add_proxy("a", "three.example.com")
    with pytest.raises(InvalidInput, match="there is already a proxy called 'b'"):
        await fleet.edit("proxy", first, {"name": "b"})
    for wrong in (
        {"port": 0},
        {"host": "a b"},
        {"name": ""},
        {"password": ""},
        {"username": "u\x00"},
        {"colour": "red"},
    ):
        with pytest.raises(InvalidInput):
            await fleet.edit("proxy", first, wrong)
    await fleet.edit("proxy", first, {"port": 8080, "password": "another"}, by="ana")
    found = await fleet.proxy(first)
    assert (found.host, found.port, found.username, found.password) == (
        "one.example.com",
        8080,
        "user",
        "another",
    )
    with pytest.raises(NotFound):
        await fleet.edit("proxy", "px_unknown", {"port": 1})
    (log,) = await rows(fleet, "SELECT details FROM events WHERE event = 'proxy_edited'")
    assert log["details"] == {"id": first, "by": "ana", "changed": ["password", "port"]}


async def test_what_is_in_use_cannot_be_removed_and_what_is_not_can(fleet: Fleet) -> None:
    """O4: a proxy with a session, a worker that is not idle."""
    worker = await fleet.add_worker("w", URL, "a-key", "s.example.com")
    proxy = await fleet.add_proxy("p", "proxy.example.com")
    writer = await fleet.add_writer("x", URL, "a-key")
    await rows(fleet, "UPDATE workers SET status = 'initializing'")
    await rows(fleet, "UPDATE proxies SET in_use_by_worker_id = %(id)s", id=worker)
    in_use: list[tuple[Kind, str]] = [("worker", worker), ("proxy", proxy)]
    for kind, member in in_use:
        with pytest.raises(
            IllegalTransition, match="is in use: deactivate it and wait until it is idle"
        ):
            await fleet.remove(kind, member)
    await rows(fleet, "UPDATE proxies SET in_use_by_worker_id = NULL")
    await rows(fleet, "UPDATE workers SET status = 'idle'")
    everyone: list[tuple[Kind, str]] = [*in_use, ("writer", writer)]
    for kind, member in everyone:
        await fleet.remove(kind, member)
        with pytest.raises(NotFound):
            await fleet.remove(kind, member)
    assert await fleet.members() == []


async def test_switching_on_gives_a_fresh_start_and_switching_off_is_an_event(fleet: Fleet) -> None:
    """O4: manual reactivation resets fail_count to 0; a worker's failures and error as well."""
    worker = await fleet.add_worker("w", URL, "a-key", "s.example.com")
    proxy = await fleet.add_proxy("p", "proxy.example.com")
    await rows(fleet, "UPDATE proxies SET fail_count = 5, active = false")
    await rows(fleet, "UPDATE workers SET failures = 5, error_code = 'ERROR502', active = false")
    await fleet.set_active("proxy", proxy, True, by="ana")
    await fleet.set_active("worker", worker, True)
    assert await rows(fleet, "SELECT FROM proxies WHERE active AND fail_count = 0")
    assert await rows(
        fleet, "SELECT FROM workers WHERE active AND failures = 0 AND error_code IS NULL"
    )
    await fleet.set_active("proxy", proxy, False, by="ana")
    assert await rows(fleet, "SELECT FROM proxies WHERE NOT active")
    events = [
        row["event"]
        for row in await rows(
            fleet, "SELECT event FROM events WHERE details ->> 'by' = 'ana' ORDER BY id"
        )
    ]
    assert events == ["proxy_activated", "proxy_deactivated"]
    with pytest.raises(NotFound):
        await fleet.set_active("writer", "wr_unknown", True)


async def test_a_stored_key_is_not_sent_to_a_new_address(fleet: Fleet) -> None:
    """O20: who may edit a member cannot read its key by naming another server."""
    worker = await fleet.add_worker("w", "https://worker.example.com/a", "key", "s.example.com")
    writer = await fleet.add_writer("x", "https://writer.example.com", "key")
    proxy = await fleet.add_proxy("p", "proxy.example.com", 8080, "user", "password")
    open_proxy = await fleet.add_proxy("o", "proxy.example.com", 8081)
    moves: list[tuple[Kind, str, dict[str, Any]]] = [
        ("worker", worker, {"url": "https://evil.example.com/a"}),
        ("worker", worker, {"url": "http://worker.example.com/a"}),
        ("worker", worker, {"url": "https://worker.example.com:444/a"}),
        ("writer", writer, {"url": "https://evil.example.com"}),
        ("proxy", proxy, {"host": "evil.example.com"}),
    ]
    for kind, member, change in moves:
        with pytest.raises(InvalidInput, match="again"):
            await fleet.edit(kind, member, change)
    await fleet.edit("worker", worker, {"url": "https://worker.example.com/b"})
    await fleet.edit("writer", writer, {"url": "https://new.example.com", "api_key": "new"})
    await fleet.edit("proxy", open_proxy, {"host": "other.example.com"})
    assert (await fleet.worker(worker)).url == "https://worker.example.com/b"
    assert (await fleet.writer(writer)).url == "https://new.example.com"
