"""`python -m benchmarks.writer`: the reference Writer against raw COPY + upsert of the same
rows.

Both store the same ads in the same kind of table, fresh and full, taking turns. The raw side
gets the rows as prepared COPY text and pays for PostgreSQL only. The writer is a separate
process and gets them as JSON over loopback HTTP.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

import httpx2
import psycopg

from benchmarks.servers import PostgresServer
from regente.services.writer import prepare_database
from regente.services.writer.config import WriterConfig
from regente.services.writer.copy_text import Kind, copy_lines
from regente.services.writer.queries import QUERIES

KEY = "benchmark"
WANTED_RATIO = 0.6
COLUMNS = ("id", "page_name", "text", "format", "language", "started_on", "qtd_ads", "url")
_BATCH = 10_000
_WORDS = [
    "oferta",
    "promoção",
    "grátis",
    "“novo”",
    "hoje",
    "frete",
    "curso",
    "online",
    "desconto",
    "só",
    "até",
    "amanhã",
    "café",
    "\\",
    "marca",
]
_STAGE = "CREATE TEMPORARY TABLE regente_staging AS SELECT {columns} FROM public.ads WITH NO DATA"


def ads(count: int) -> Iterator[dict[str, object]]:
    """About 300 bytes of JSON each."""
    chance = random.Random(7)
    for number in range(count):
        yield {
            "id": f"ad-{number * 7919 % count:08d}",
            "page_name": f"Página {number % 5000}",
            "text": " ".join(chance.choices(_WORDS, k=18)),
            "format": "video" if number % 3 else "image",
            "language": "pt",
            "started_on": f"2025-{number % 12 + 1:02d}-{number % 28 + 1:02d}",
            "qtd_ads": number % 90,
            "url": f"https://library.example.com/ads/{number}",
        }


@dataclass(frozen=True, slots=True)
class Material:
    """The same rows as JSON and as COPY text."""

    json_path: Path
    copy_path: Path
    rows: int


def make_material(folder: Path, count: int) -> Material:
    made = Material(folder / "ads.json", folder / "ads.copy", count)
    with (
        made.json_path.open("w", encoding="utf-8") as document,
        made.copy_path.open("w", encoding="utf-8") as lines,
    ):
        document.write('{"job_id": "bench", "ads": [')
        batch: list[dict[str, object]] = []
        for number, ad in enumerate(ads(count), 1):
            batch.append(ad)
            if len(batch) == _BATCH or number == count:
                document.write(
                    ("," if number > len(batch) else "")
                    + ",".join(json.dumps(one, ensure_ascii=False) for one in batch)
                )
                values = [(Kind.PLAIN, [one[name] for one in batch]) for name in COLUMNS]
                lines.write("\n".join(copy_lines(values)) + "\n")
                batch = []
        document.write("]}")
    return made


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def writer_process(database_url: str) -> Iterator[tuple[str, int]]:
    """Run a writer process; yield its URL and process id."""
    command = [
        sys.executable,
        "-m",
        "regente",
        "writer",
        "--port",
        "0",
        "--allow-private",
        "--json",
        "--log-level",
        "warning",
    ]
    environment = os.environ | {
        "REGENTE_WRITER_API_KEY": KEY,
        "REGENTE_WRITER_DATABASE_URL": database_url,
    }
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def run_writer(writer_url: str, source_url: str, rows: int) -> float:
    body = {"config": {"table": "ads"}, "source": {"url": source_url}}
    with httpx2.Client(
        base_url=writer_url, headers={"x-api-key": KEY}, trust_env=False, timeout=30
    ) as client:
        begun = time.perf_counter()
        job_id = client.post("/process", json=body).raise_for_status().json()["job_id"]
        while (job := client.get(f"/status/{job_id}").raise_for_status().json())[
            "status"
        ] == "processing":
            time.sleep(0.1)
        seconds = time.perf_counter() - begun
    assert job["status"] == "completed", job
    assert job["progress"]["success_count"] == rows, job
    return seconds


def run_raw(database_url: str, material: Material) -> float:
    """In one transaction: COPY into a staging table, then the writer's upsert statement."""
    names = ", ".join(COLUMNS)
    assignments = ", ".join(
        [*(f"{name} = EXCLUDED.{name}" for name in COLUMNS), "last_seen_at = DEFAULT"]
    )
    upsert = QUERIES["upsert"].format(
        target="public.ads", columns=names, key="id", assignments=assignments
    )
    begun = time.perf_counter()
    with psycopg.connect(database_url) as connection, material.copy_path.open("rb") as lines:
        connection.execute(_STAGE.format(columns=names))
        with connection.cursor().copy(f"COPY regente_staging ({names}) FROM STDIN") as copy:
            while chunk := lines.read(1 << 20):
                copy.write(chunk)
        connection.execute(upsert)
    return time.perf_counter() - begun


def peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    return next(
        int(line.split()[1]) / 1024
        for line in status.read_text().splitlines()
        if line.startswith("VmHWM")
    )


class Contest:
    def __init__(self, postgres: PostgresServer, material: Material, source_url: str) -> None:
        self._postgres = postgres
        self._material = material
        self._source_url = source_url
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.megabytes = 0.0

    def round(self, number: int) -> None:
        turns: list[tuple[str, Callable[[str], None]]] = [
            ("raw", self._raw),
            ("writer", self._writer),
        ]
        for name, run in turns if number % 2 == 0 else reversed(turns):
            url = self._postgres.fresh_database(f"bench_{name}")
            asyncio.run(
                prepare_database(WriterConfig(database_url=url, api_key=KEY, create_ads=True))
            )
            run(url)

    def _raw(self, url: str) -> None:
        for table in ("fresh", "full"):
            self._postgres.settle("bench_raw")
            self._note("raw", table, run_raw(url, self._material))

    def _writer(self, url: str) -> None:
        with writer_process(url) as (writer_url, pid):
            for table in ("fresh", "full"):
                self._postgres.settle("bench_writer")
                self._note(
                    "writer", table, run_writer(writer_url, self._source_url, self._material.rows)
                )
            self.megabytes = max(self.megabytes, peak_megabytes(pid))

    def _note(self, name: str, table: str, seconds: float) -> None:
        self.seconds.setdefault((name, table), []).append(seconds)
        print(
            f"{name:>8} {table:<6} {self._material.rows / seconds:>10,.0f} rows/s  "
            f"{seconds:6.2f} s",
            flush=True,
        )

    def verdict(self) -> bool:
        """The median of each round's ratio, since a disturbance affects both sides of a round."""
        fine = True
        print(
            f"\n{'table':<6} {'raw rows/s':>11} {'writer rows/s':>14} {'ratio':>6}   "
            f"wanted {WANTED_RATIO}"
        )
        for table in ("fresh", "full"):
            raw, ours = self.seconds["raw", table], self.seconds["writer", table]
            ratio = median(one / other for one, other in zip(raw, ours, strict=True))
            rates = [self._material.rows / median(seconds) for seconds in (raw, ours)]
            word = "ok" if ratio >= WANTED_RATIO else "too slow"
            print(f"{table:<6} {rates[0]:>11,.0f} {rates[1]:>14,.0f} {ratio:>6.2f}   {word}")
            fine = fine and ratio >= WANTED_RATIO
        print(f"peak resident memory of the writer: {self.megabytes:.0f} MB")
        return fine


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.writer", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="bench-writer-") as name, PostgresServer() as postgres:
        material = make_material(Path(name), options.rows)
        size = material.json_path.stat().st_size
        print(
            f"{options.rows:,} rows, {size / 1e6:,.0f} MB of JSON, "
            f"{size / options.rows:.0f} bytes a row",
            flush=True,
        )
        with file_server(Path(name)) as url:
            contest = Contest(postgres, material, f"{url}/{material.json_path.name}")
            for number in range(options.rounds):
                contest.round(number)
    return 0 if contest.verdict() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
