"""`python -m benchmarks.missions`: cost and throughput of one runner process.

* scale: 1,000 fake workers at the specification's intervals (10 s, 30 s, 5 s): CPU and memory.
* speed: 5,000 missions on 200 workers that answer at once: missions per second, and time per
phase.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.servers import PostgresServer
from regente import Regente
from regente.pipelines.missions.args import MissionArgs
from regente.settings import Settings

MISSION = MissionArgs(
    date_start=date(2025, 1, 15), date_end=date(2025, 1, 15), media_type="all", languages=("pt",)
)
QUICK = {
    "REGENTE_POLLING_SESSION": "1",
    "REGENTE_POLLING_JOB": "1",
    "REGENTE_POLLING_ORCHESTRATOR": "0.5",
    "REGENTE_WATCH_SECONDS": "0.2",
}
CPU_LIMIT_CORES, MEMORY_LIMIT_MB = 0.5, 300.0


@dataclass(frozen=True)
class Use:
    cpu_seconds: float
    rss_mb: float


async def scale(url: str, folder: Path, workers: int, seconds: float) -> dict[str, Any]:
    """Missions of three minutes on as many workers, measured after all have begun."""
    with fake_fleet(job_seconds=180.0) as port:
        async with Regente(url, settings=Settings(data_dir=folder), components=["missions"]) as app:
            await enlist(app, port, workers)
            with runner(url, folder, {}) as pid:
                await app.missions.create(
                    [MISSION] * (workers + workers // 2), queue=True, by="benchmark"
                )
                began_at = time.monotonic()
                await until(lambda: _scraping(url) >= workers, 300)
                warm_seconds = time.monotonic() - began_at
                before, requests = use_of(pid), await asked(port)
                await asyncio.sleep(seconds)
                after = use_of(pid)
                return {
                    "workers": workers,
                    "seconds_until_all_scraped": round(warm_seconds, 1),
                    "cores": round((after.cpu_seconds - before.cpu_seconds) / seconds, 3),
                    "rss_mb": round(after.rss_mb, 1),
                    "requests_per_second": round((await asked(port) - requests) / seconds, 1),
                    "within_limits": (after.cpu_seconds - before.cpu_seconds) / seconds
                    < CPU_LIMIT_CORES
                    and after.rss_mb < MEMORY_LIMIT_MB,
                }


async def speed(url: str, folder: Path, workers: int, missions: int) -> dict[str, Any]:
    with fake_fleet(job_seconds=0.0) as port:
        async with Regente(url, settings=Settings(data_dir=folder), components=["missions"]) as app:
            await enlist(app, port, workers)
            await app.missions.set("session_limit", 1000)
            with runner(url, folder, QUICK) as pid:
                before = use_of(pid)
                await app.missions.create([MISSION] * missions, queue=True, by="benchmark")
                began_at = time.monotonic()
                await until(lambda: _finished(url) >= missions, 900)
                seconds = time.monotonic() - began_at
                after = use_of(pid)
                return {
                    "workers": workers,
                    "missions": missions,
                    "seconds": round(seconds, 1),
                    "missions_per_second": round(missions / seconds, 1),
                    "runner_cores": round((after.cpu_seconds - before.cpu_seconds) / seconds, 2),
                    "rss_mb": round(after.rss_mb, 1),
                    "requests_per_mission": round(await asked(port) / missions, 1),
                    "phases_ms": phases(url),
                }


def phases(url: str) -> dict[str, float]:
    """Median time of each phase of a mission, by its events."""
    query = """
      SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch
                                                                 FROM assigned - queued) * 1000),
             percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch
                                                                 FROM begun - assigned) * 1000),
             percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch
                                                                 FROM extracted - begun) * 1000),
             percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch
                                                                 FROM stored - extracted) * 1000),
             percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM done - stored) * 1000)
      FROM (SELECT task_id, min(at) FILTER (WHERE event = 'task_queued') AS queued,
                   min(at) FILTER (WHERE event = 'mission_assigned') AS assigned,
                   min(at) FILTER (WHERE event = 'scrape_started') AS begun,
                   min(at) FILTER (WHERE event = 'scrape_completed') AS extracted,
                   min(at) FILTER (WHERE event = 'writer_completed') AS stored,
                   min(at) FILTER (WHERE event = 'task_completed') AS done
            FROM regente.events GROUP BY task_id) AS legs
            WHERE done IS NOT NULL AND stored IS NOT NULL"""
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    names = ("waits_for_a_worker", "begins_its_scrape", "extraction", "storage", "ends")
    return dict(zip(names, [round(value, 1) for value in row or ()], strict=True))


async def enlist(app: Regente, port: int, workers: int) -> None:
    base = f"http://127.0.0.1:{port}"
    for number in range(workers):
        await app.fleet.add_worker(
            f"w{number}", f"{base}/w/{number}", "a-key-for-all", "storage.example.com"
        )
        await app.fleet.add_proxy(f"p{number}", "proxy.example.com", 8080)
    await app.fleet.add_writer("writer", f"{base}/writer", "a-key-for-all")


@contextlib.contextmanager
def fake_fleet(job_seconds: float) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "benchmarks.fake_fleet",
        "--port",
        str(port),
        "--job-seconds",
        str(job_seconds),
    ]
    with _process(words, {}):
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.1)
        yield port


@contextlib.contextmanager
def runner(url: str, folder: Path, environment: dict[str, str]) -> Iterator[int]:
    shared = {
        "REGENTE_DATABASE_URL": url,
        "REGENTE_DATA_DIR": str(folder),
        "REGENTE_LOG_LEVEL": "warning",
    }
    with _process(
        [sys.executable, "-m", "regente", "run", "--json"], {**shared, **environment}
    ) as process:
        yield process.pid


@contextlib.contextmanager
def _process(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def use_of(pid: int) -> Use:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Use(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


async def asked(port: int) -> int:
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as client:
        return int((await client.get(f"http://127.0.0.1:{port}/")).json()["requests"])


async def until(reached: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(reached):
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark did not get there in time")
        await asyncio.sleep(0.25)


def _scraping(url: str) -> int:
    return _count(url, "SELECT count(*) FROM regente.workers WHERE status = 'scraping'")


def _finished(url: str) -> int:
    return _count(
        url,
        "SELECT count(*) FROM regente.tasks WHERE pipeline = 'missions' AND status = 'completed'",
    )


def _count(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("scale", "speed"))
    parser.add_argument("--workers", type=int, default=1000, help="workers of the scale test")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the scale test")
    parser.add_argument("--missions", type=int, default=5000, help="missions of the speed test")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="regente-bench-", ignore_cleanup_errors=True) as name,
        PostgresServer() as server,
    ):
        os.chmod(name, 0o755)
        results: dict[str, Any] = {}
        if options.only != "speed":
            results["scale"] = asyncio.run(
                scale(server.fresh_database("scale"), Path(name), options.workers, options.seconds)
            )
        if options.only != "scale":
            results["speed"] = asyncio.run(
                speed(server.fresh_database("speed"), Path(name), 200, options.missions)
            )
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
