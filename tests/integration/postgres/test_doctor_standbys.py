"""What `regente doctor` says of standbys, on a primary and its standby."""

from __future__ import annotations

import asyncio
import os
import signal

import psycopg

from regente.postgres.doctor import Finding, examine
from tests.support.eventually import eventually
from tests.support.replication import Pair, replicated


def standbys(url: str) -> Finding | None:
    found = {finding.check: finding for finding in asyncio.run(examine(url))}
    return found.get("standbys")


def said(url: str) -> tuple[str, str]:
    finding = standbys(url)
    assert finding is not None
    return finding.level, finding.summary


def test_a_server_without_a_standby_is_told_what_that_means(server_url: str) -> None:
    level, summary = said(server_url)
    assert (level, summary) == (
        "info",
        "Timeline 1. No standby follows: with this server's disk everything is lost.",
    )


def test_a_synchronous_standby_loses_nothing() -> None:
    """F4: named with its state, also after a failover, and when commits do not wait for it."""
    with replicated(synchronous=True) as pair:
        level, summary = said(pair.primary.url)
        assert level == "ok"
        assert summary.startswith(
            "Timeline 1. If the primary died now, nothing that was confirmed would be lost: "
            "b sync, streaming, "
        )
        pair.primary.execute("ALTER ROLE regente SET synchronous_commit = 'local'")
        level, summary = said(pair.primary.url)
        assert level == "warning"
        assert "synchronous_commit = local, so no commit waits for a standby" in summary
        assert standbys(pair.standby.url) is None
        pair.primary.execute("ALTER ROLE regente RESET synchronous_commit")
        pair.standby.kill()
        eventually(lambda: pair.replication() is None)
        level, summary = said(pair.primary.url)
        assert (level, summary) == (
            "error",
            "Timeline 1. No synchronous standby follows: no commit returns.",
        )


def test_an_asynchronous_standby_may_lose_what_it_has_not_received() -> None:
    """F4: how much that would be now; a role without rights is told that it cannot see."""
    with replicated(synchronous=False) as pair:
        pair.primary.execute("CREATE TABLE filler (t text)")
        level, summary = said(pair.primary.url)
        assert level == "warning"
        assert "none of the standbys is synchronous (b async, streaming, " in summary
        check_the_least_privileged(pair)
        assert last_bytes_are_missing(pair)
        pair.fail_over()
        assert said(pair.primary.url)[1].startswith("Timeline 2. No standby follows")


def check_the_least_privileged(pair: Pair) -> None:
    pair.primary.execute("CREATE ROLE plain LOGIN")
    url = psycopg.conninfo.make_conninfo(pair.primary.url, user="plain")
    level, summary = said(url)
    assert (level, summary) == (
        "info",
        "Timeline 1. 1 standbys follow; this role may not see them.",
    )


def last_bytes_are_missing(pair: Pair) -> bool:
    """Whether it is named what a frozen receiver has not stored."""

    receivers = pair.standby.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'"
    )
    (pid,) = receivers[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        pair.primary.execute(
            "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 100)"
        )
        _, summary = said(pair.primary.url)
    finally:
        os.kill(pid, signal.SIGCONT)
    return "the last " in summary and "bytes of WAL would be lost" in summary
