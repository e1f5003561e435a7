"""`python -m benchmarks.api`: the HTTP API under load.

* lists: p95 of the console's filters on a million missions (limit: 50 ms), and of /metrics.
* ingest: 10,000 missions in one call (limit: 3 s).
* stream: 1,000 events a second to 100 clients, and their delay.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from benchmarks.machine import load
from benchmarks.servers import PostgresServer
from regente.app import prepare_schema
from regente.components import every_component

LIST_LIMIT_MS, INGEST_LIMIT_SECONDS = 50.0, 3.0
PER_TRANSACTION = 25
_SENT = re.compile(rb'"sent":([0-9.]+)')

# A year of missions: most completed, some failed, few waiting or running. Values are common, rare
# or absent.
_FILL = """
INSERT INTO regente.workers (id, name, url, api_key)
  SELECT 'wk_' || lpad(to_hex(n), 12, '0'), 'w' || n, 'http://127.0.0.1:1',
         'rg2.00000000.' || repeat('A', 40)
  FROM generate_series(1, 50) AS g (n);
INSERT INTO regente.runners (id, name, host, pid, version, pipelines, concurrency, lease_until)
  VALUES (1, 'bench', 'h', 1, '0', '{missions}', 1000, now() + interval '1 day');
INSERT INTO regente.tasks (id, pipeline, status, run_at, runner_id, attempt, created_at, queued_at,
                           started_at, claimed_at,
                           heartbeat_at, finished_at, error_code, error_message, args)
  SELECT n, 'missions', kind::regente.task_status, CASE WHEN kind = 'queued' THEN 'infinity'
      ELSE now() END,
         CASE WHEN kind = 'running' THEN 1 END, CASE WHEN kind IN ('draft', 'queued') THEN 0
              ELSE 1 END, born,
         CASE WHEN kind <> 'draft' THEN born END, CASE
              WHEN kind NOT IN ('draft', 'queued') THEN born END, born, now(),
         CASE WHEN kind IN ('completed', 'failed', 'canceled') THEN born
             + interval '10 minutes' END,
         CASE WHEN kind = 'failed' THEN CASE WHEN n % 20000 = 7 THEN 'ERROR502'
              ELSE 'ERROR203' END END,
         CASE WHEN kind = 'failed' THEN 'given up' END,
         jsonb_build_object('date_start', (date '2024-01-01' + (n * 365 / {rows})::int)::text,
                            'date_end', (date '2024-01-01' + (n * 365 / {rows})::int)::text,
                            'media_type', (ARRAY['all', 'video', 'image'])[1 + n % 3],
                            'languages', CASE WHEN n % 5000 = 1 THEN '["tlh"]'::jsonb
                                WHEN n % 3 = 0 THEN '["pt", "es"]'
                                              ELSE '["en"]' END)
  FROM (SELECT n, now() - ({rows} - n) * interval '30 seconds' AS born,
               CASE WHEN n > {rows} - 200 THEN 'running'
                    WHEN n % 100 = 3 OR n > {rows} - 5000 THEN 'queued'
                    WHEN n % 100 = 5 THEN 'draft' WHEN n % 100 = 7 THEN 'failed'
                        WHEN n % 200 = 9 THEN 'canceled'
                    ELSE 'completed' END AS kind
        FROM generate_series(1, {rows}::bigint) AS g (n)) AS t;
INSERT INTO regente.mission_runs (mission_id, day, checkpoint, worker_id, proxy_used, ads_count,
                                  retry_count)
  SELECT id, args ->> 'date_start',
         CASE status WHEN 'completed' THEN 'finalizado'
              WHEN 'running' THEN (ARRAY['extracao', 'armazenamento'])[1 + id % 2]
                         WHEN 'draft' THEN NULL ELSE 'atribuido' END::regente.checkpoint_type,
         CASE WHEN status IN ('completed', 'failed', 'running') THEN 'wk_'
             || lpad(to_hex(1 + id % 50), 12, '0') END,
         CASE WHEN status IN ('completed', 'failed', 'running') THEN 'proxy-' || id % 40 END,
         id % 3000, 0
  FROM regente.tasks;
INSERT INTO regente.events (task_id, event) SELECT id, 'task_completed'
FROM regente.tasks ORDER BY id DESC LIMIT 200000;
INSERT INTO regente.pipelines (name, stall_after, endless) VALUES ('missions', '1 hour', true);
SELECT setval(pg_get_serial_sequence('regente.tasks', 'id'), {rows});
"""


def filters(rows: int) -> dict[str, dict[str, Any]]:
    """Every filter of the console's list of missions, with common and rare values."""
    one = {
        f"status {status}": {"statuses": status}
        for status in ("draft", "queued", "running", "completed", "failed", "canceled")
    }
    two = {
        f"checkpoint {name}": {"checkpoint": name}
        for name in ("atribuido", "extracao", "armazenamento", "finalizado")
    }
    worker = f"wk_{7:012x}"
    return (
        one
        | two
        | {
            "none": {},
            "none, with count": {"count": True},
            "a page in the middle": {"cursor": str(rows // 2)},
            "media type": {"media_type": "video"},
            "language": {"language": "pt"},
            "rare language": {"language": "tlh"},
            "absent language": {"language": "xx"},
            "recent days": {"date_from": "2024-12-20"},
            "old days": {"date_to": "2024-01-05"},
            "a month": {"date_from": "2024-06-01", "date_to": "2024-06-30"},
            "worker": {"worker_id": worker},
            "absent worker": {"worker_id": "wk_ffffffffffff"},
            "proxy": {"proxy": "proxy-3"},
            "absent proxy": {"proxy": "proxy-none"},
            "error code": {"error_code": "ERROR203"},
            "rare error code": {"error_code": "ERROR502"},
            "absent error code": {"error_code": "ERROR999"},
            "failed, with count": {"statuses": "failed", "count": True},
            "failed of a worker": {"statuses": "failed", "worker_id": worker},
            "failed of a month": {
                "statuses": "failed",
                "date_from": "2024-03-01",
                "date_to": "2024-03-31",
            },
            "videos of a month": {
                "media_type": "video",
                "date_from": "2024-06-01",
                "date_to": "2024-06-30",
            },
            "completed long ago": {"statuses": "completed", "date_to": "2024-01-05"},
            "a worker's month": {
                "worker_id": worker,
                "date_from": "2024-06-01",
                "date_to": "2024-06-30",
            },
            "a worker's first days": {"worker_id": worker, "date_to": "2024-01-05"},
            "a proxy's month": {
                "proxy": "proxy-3",
                "date_from": "2024-06-01",
                "date_to": "2024-06-30",
            },
            "failed of a worker's month": {
                "statuses": "failed",
                "worker_id": worker,
                "date_from": "2024-06-01",
                "date_to": "2024-06-30",
            },
            "a rare error code of a month": {
                "error_code": "ERROR502",
                "date_from": "2024-06-01",
                "date_to": "2024-06-30",
            },
            "one day": {"date_from": "2024-06-01", "date_to": "2024-06-01"},
            "completed, rare language": {"statuses": "completed", "language": "tlh"},
        }
    )


def fill(url: str, rows: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        indexes = connection.execute(
            "SELECT format('%I.%I', schemaname, indexname), indexdef FROM pg_indexes WHERE "
            "schemaname = 'regente' "
            "AND tablename IN ('tasks', 'mission_runs', 'events') AND indexname NOT LIKE '%_pkey'"
        ).fetchall()
        connection.execute("SET maintenance_work_mem = '256MB'")
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        for statement in _FILL.replace("{rows}", str(rows)).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        for _, definition in indexes:
            connection.execute(definition)
        connection.execute("VACUUM (ANALYZE)")


@contextlib.asynccontextmanager
async def api(database_url: str, folder: Path) -> AsyncIterator[str]:
    """`regente serve` as a separate process, without keys on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "REGENTE_DATABASE_URL": database_url,
        "REGENTE_DATA_DIR": str(folder),
        "REGENTE_LOG_LEVEL": "error",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "regente",
        "serve",
        "--port",
        str(port),
        "--no-auth",
        "--json",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def lists(base: str, rows: int, times: int) -> dict[str, Any]:
    found: dict[str, float] = {}
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        for name, params in filters(rows).items():
            found[name] = await _p95(client, "/api/missions", params, times)
            print(f"{found[name]:8.1f} ms  {name}", file=sys.stderr, flush=True)
        metrics = await _p95(client, "/metrics", {}, 1)
    slow = {name: value for name, value in found.items() if value > LIST_LIMIT_MS}
    return {
        "rows": rows,
        "p95_ms": found,
        "worst_ms": max(found.values()),
        "over_the_limit": slow,
        "metrics_ms": metrics,
    }


async def _p95(client: httpx2.AsyncClient, path: str, params: dict[str, Any], times: int) -> float:
    taken = []
    for _ in range(times):
        began_at = time.perf_counter()
        answer = await client.get(path, params=params)
        taken.append((time.perf_counter() - began_at) * 1000)
        assert answer.status_code == 200, f"{params}: {answer.text}"
    return round(sorted(taken)[max(0, int(len(taken) * 0.95) - 1)], 1)


async def ingest(base: str, count: int) -> dict[str, Any]:
    one = {
        "date_start": "2025-01-15",
        "date_end": "2025-01-15",
        "media_type": "video",
        "languages": ["pt"],
    }
    seconds = []
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        for _ in range(3):
            began_at = time.perf_counter()
            answer = await client.post("/api/missions", json={"missions": [one] * count})
            seconds.append(round(time.perf_counter() - began_at, 2))
            assert answer.status_code == 201, answer.text
    return {
        "missions": count,
        "seconds": seconds,
        "within_limits": min(seconds) < INGEST_LIMIT_SECONDS,
    }


async def fan_out(
    base: str, url: str, clients: int, per_second: int, seconds: float
) -> dict[str, Any]:
    """Delays of the first second, in which the reader was idle, are reported separately."""
    lags: list[tuple[float, float]] = []
    expected = int(per_second * seconds)
    reading = [asyncio.create_task(_follow(base, expected, lags)) for _ in range(clients)]
    await asyncio.sleep(4)
    sent_in = await _send(url, per_second, expected)
    async with asyncio.timeout(60):
        await asyncio.gather(*reading)
    began_at = min(sent for sent, _ in lags)
    first = [lag for sent, lag in lags if sent < began_at + 1.0]
    steady = [lag for sent, lag in lags if sent >= began_at + 1.0]
    return {
        "clients": clients,
        "events": expected,
        "events_per_second": round(expected / sent_in),
        "received": len(lags),
        "lag_ms": _quantiles(steady),
        "lag_ms_from_idle": _quantiles(first),
    }


def _quantiles(lags: list[float]) -> dict[str, int]:
    lags = sorted(lags)
    return {
        name: round(lags[int((len(lags) - 1) * part)] * 1000)
        for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))
    }


async def _send(url: str, per_second: int, count: int) -> float:
    began_at = time.monotonic()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for sent in range(0, count, PER_TRANSACTION):
            await asyncio.sleep(max(0.0, began_at + sent / per_second - time.monotonic()))
            details = json.dumps(
                {"sent": time.time(), "worker_job_id": "scrape_3c434995", "ads_count": 1500}
            )
            await connection.execute(
                "INSERT INTO regente.events (event, task_id, details) SELECT "
                "'scrape_completed', n, %s::jsonb "
                "FROM generate_series(1, %s) AS g (n)",
                (details, PER_TRANSACTION),
            )
    return time.monotonic() - began_at


async def _follow(base: str, count: int, lags: list[tuple[float, float]]) -> None:
    host, port = base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /api/stream HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
    rest = b""
    while count > 0:
        chunk = await reader.read(262_144)
        if not chunk:
            raise ConnectionError("a client was dropped")
        now = time.time()
        text, _, rest = (rest + chunk).rpartition(b"\n\n")
        found = _SENT.findall(text)
        lags.extend((float(one), now - float(one)) for one in found)
        count -= len(found)
    writer.close()


async def measure(
    options: argparse.Namespace, server: PostgresServer, folder: Path
) -> dict[str, Any]:
    url = server.fresh_database("api")
    await prepare_schema(url, every_component(), upgrade=True)
    results: dict[str, Any] = {"load": load()}
    if options.only in (None, "lists"):
        await asyncio.to_thread(fill, url, options.rows)
    async with api(url, folder) as base:
        if options.only in (None, "lists"):
            results["lists"] = await lists(base, options.rows, options.times)
        if options.only in (None, "ingest"):
            results["ingest"] = await ingest(base, 10_000)
        if options.only in (None, "stream"):
            results["stream"] = await fan_out(base, url, 100, 1000, options.seconds)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("lists", "ingest", "stream"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="missions in the table")
    parser.add_argument("--times", type=int, default=20, help="requests per list")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of the event stream")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="regente-bench-", ignore_cleanup_errors=True) as name,
        PostgresServer() as server,
    ):
        os.chmod(name, 0o755)
        print(json.dumps(asyncio.run(measure(options, server, Path(name))), indent=2))


if __name__ == "__main__":
    main()
