"""The reference services pass every check: real proxies, a real library, a real PostgreSQL."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from pydantic import SecretStr

from regente.asgi.server import serving
from regente.conformance import (
    Report,
    Verdict,
    WorkerOptions,
    WriterOptions,
    examine_worker,
    examine_writer,
)
from regente.services.sandbox import Sandbox
from regente.services.worker import STORAGE_PREFIX, WorkerSettings
from regente.services.worker import create_app as worker_app
from regente.services.writer import WriterConfig
from regente.services.writer import create_app as writer_app

KEY = "a-key-of-the-reference"


def assert_all_passed(report: Report) -> None:
    others = {
        finding.name: finding.evidence
        for finding in report.findings
        if finding.verdict is not Verdict.PASS
    }
    assert others == {}
    assert report.conformant


async def test_the_reference_worker_passes_every_check(tmp_path: Path) -> None:
    """O21: through a proxy with a password, to the library's last ad; extensions too."""
    async with Sandbox(proxies=1) as sandbox:
        settings = WorkerSettings(
            api_key=SecretStr(KEY),
            data_dir=tmp_path,
            target=sandbox.library_url,
            page_delay_seconds=0.05,
        )
        proxy = sandbox.proxies[0]
        async with serving(worker_app(settings)) as url:
            options = WorkerOptions(
                url,
                KEY,
                date(2025, 1, 15),
                date(2025, 1, 15),
                "all",
                ("pt", "en"),
                f"{proxy.host}:{proxy.port}",
                proxy.username,
                proxy.password,
                f"{url}{STORAGE_PREFIX}",
                timeout_seconds=20.0,
                request_seconds=5.0,
            )
            report = await examine_worker(options)
    assert_all_passed(report)
    assert proxy.password not in str(report.as_json())


async def test_the_reference_writer_passes_every_check(database_url: str) -> None:
    """O22: a document with a bad row, stored in a table that the test creates."""
    config = WriterConfig(
        database_url=database_url, api_key=KEY, create_ads=True, allow_private=True, source_tries=1
    )
    async with serving(writer_app(config)) as url:
        report = await examine_writer(
            WriterOptions(url, KEY, timeout_seconds=20.0, request_seconds=5.0)
        )
    assert_all_passed(report)
