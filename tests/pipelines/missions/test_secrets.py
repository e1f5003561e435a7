"""Secrets are encrypted at rest and in no table, event or log line, also when peers repeat them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

from regente import Regente
from regente.fleet.secrets import SecretsUnreadable
from regente.settings import Settings
from tests.pipelines.missions.conftest import MISSION, QUICK, finished, fleet_of, rows
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

PASSWORD = "canary-p@ssword"


async def everything_stored(app: Regente) -> str:
    tables = await rows(
        app,
        "SELECT relname FROM pg_class WHERE relnamespace = 'regente'::regnamespace AND "
        "relkind IN ('r', 'p')",
    )
    texts = [await rows(app, f"SELECT t::text FROM {table['relname']} t") for table in tables]
    return "\n".join(str(row["t"]) for found in texts for row in found)


async def test_no_secret_is_ever_stored_or_logged_in_the_clear(
    app: Regente, caplog: pytest.LogCaptureFixture
) -> None:
    """O15, O17: sessions, scrapes and writers fail and repeat a canary, which is never found."""
    caplog.set_level(logging.DEBUG)
    worker, writer = ScriptedWorker(), ScriptedWriter()
    echo = {
        "detail": [{"input": {"proxy": {"password": PASSWORD}, "x-api-key": API_KEY}}],
        "quoted": "canary-p%40ssword",
    }
    problem = {
        "cause": "proxy",
        "message": f"http://user:{PASSWORD}@proxy.example.com refused {API_KEY}",
    }
    worker.fault_with("POST", "/session", lambda: JSONResponse(echo, 422))
    worker.session_script = [[{"status": "stuck", "problem": problem}]]
    worker.fault_with("POST", "/scrape", lambda: JSONResponse(echo, 400))
    worker.job_script = [[{"status": "failed", "problem": problem}]]
    writer.fault_with("POST", "/process", lambda: JSONResponse({"job_id": [API_KEY]}))
    writer.job_script = [[{"status": "failed", "error": f"no such key {API_KEY}"}]]
    async with fleet_of(app, worker, writer, proxies=0):
        for number in range(2):
            await app.fleet.add_proxy(
                f"p{number}", "proxy.example.com", 80 + number, "user", PASSWORD
            )
        await app.missions.set("max_retries", 10)
        async with runner_in(app):
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 4)
    assert worker.sent("POST", "/session")[0]["proxy"]["password"] == PASSWORD
    stored = await everything_stored(app)
    shown = repr([*await app.fleet.members(), await app.fleet.find("p0"), app.settings, mission])
    logged = caplog.text + "".join(
        str(record.__dict__) for record in caplog.records if record.name.startswith("regente")
    )
    for secret in (PASSWORD, "canary-p%40ssword", API_KEY):
        assert secret not in stored
        assert secret not in shown
        assert secret not in logged
    assert "•••" in stored


async def test_a_wrong_key_gives_a_clear_error_and_no_secret(
    database_url: str, tmp_path: Path
) -> None:
    """O15: the error of another REGENTE_SECRET_KEY says what to do."""

    def settings(key: str) -> Settings:
        return Settings(data_dir=tmp_path, secret_key=key, **QUICK)  # type: ignore[arg-type]

    async with Regente(database_url, settings=settings("the right one")) as app:
        worker_id = await app.fleet.add_worker(
            "w", "http://127.0.0.1:9", "a-secret", "storage.example.com"
        )
        assert (await app.fleet.worker(worker_id)).api_key == "a-secret"
        assert "a-secret" not in await everything_stored(app)
    async with Regente(database_url, settings=settings("a wrong one")) as app:
        with pytest.raises(
            SecretsUnreadable, match="set REGENTE_SECRET_KEY to the key that it was stored with"
        ):
            await app.fleet.worker(worker_id)
        assert "a-secret" not in repr(await app.fleet.members())


async def test_without_a_key_a_key_file_is_made_once_and_only_its_owner_reads_it(
    app: Regente, settings: Settings
) -> None:
    """O15: two processes share it."""
    await app.fleet.add_writer("w", "http://127.0.0.1:9", "a-secret")
    assert settings.data_dir is not None
    file = settings.data_dir / "secret.key"
    assert file.stat().st_mode & 0o777 == 0o600
    async with Regente(app.database_url, settings=settings) as other:
        found = await other.fleet.active_writer()
        assert found is not None
        assert found.api_key == "a-secret"
