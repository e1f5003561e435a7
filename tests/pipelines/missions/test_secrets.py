"""Secrets are encrypted at rest and in no table, event or log line, also when peers repeat them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from starlette.responses import JSONResponse

from regente import Regente
from regente.engine.errors import InvalidInput
from regente.fleet.secrets import Secrets, SecretsUnreadable, add_key, keep_first_key
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
    assert (mission.status, mission.retry_count) == ("completed", 3)
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

    async with Regente(database_url, settings=settings("the right passphrase")) as app:
        worker_id = await app.fleet.add_worker(
            "w", "http://127.0.0.1:9", "a-secret", "storage.example.com"
        )
        assert (await app.fleet.worker(worker_id)).api_key == "a-secret"
        assert "a-secret" not in await everything_stored(app)
    async with Regente(database_url, settings=settings("quite another phrase")) as app:
        with pytest.raises(
            SecretsUnreadable, match="set REGENTE_SECRET_KEY to the key that it was stored with"
        ):
            await app.fleet.worker(worker_id)
        assert "a-secret" not in repr(await app.fleet.members())


async def test_without_a_key_a_key_file_is_made_once_and_only_its_owner_reads_it(
    app: Regente, settings: Settings
) -> None:
    """O15: two processes share it."""
    writer = await app.fleet.add_writer("w", "http://127.0.0.1:9", "a-secret")
    assert settings.data_dir is not None
    file = settings.data_dir / "secret.key"
    assert file.stat().st_mode & 0o777 == 0o600
    async with Regente(app.database_url, settings=settings) as other:
        assert (await other.fleet.writer(writer)).api_key == "a-secret"


async def test_the_key_is_rotated_while_processes_run(app: Regente, settings: Settings) -> None:
    """O15: with a key file; another process reads old and new secrets at every moment."""
    assert settings.data_dir is not None
    worker = await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-secret", "s.example.com")
    await app.fleet.add_proxy("p", "proxy.example.com", 80, "u", "a-password")
    before = app.fleet.secrets.key_id
    async with Regente(app.database_url, settings=settings) as other:
        assert (await other.fleet.worker(worker)).api_key == "a-secret"
        add_key(settings.data_dir)
        app.fleet.secrets.reload()
        assert app.fleet.secrets.key_id != before
        assert await app.fleet.secrets_by_key() == {"current": 0, "former": 2}
        writer = await app.fleet.add_writer("x", "http://127.0.0.1:9", "a-new-secret")
        assert (await other.fleet.writer(writer)).api_key == "a-new-secret"
        assert await app.fleet.rotate_secrets() == 2
        assert await app.fleet.rotate_secrets() == 0
        keep_first_key(settings.data_dir)
        app.fleet.secrets.reload()
        for one in (app, other):
            assert (await one.fleet.worker(worker)).api_key == "a-secret"
    file = settings.data_dir / "secret.key"
    assert len(file.read_bytes().split()) == 1
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_process_that_began_before_a_rotation_stores_under_the_new_key(
    app: Regente, settings: Settings
) -> None:
    """O15: under the forgotten one the secret would be lost at the next start."""
    assert settings.data_dir is not None
    await app.fleet.add_proxy("p", "proxy.example.com", 80, "u", "a-password")
    words = ["secrets", "rotate", "--new-key", "--forget-former", "--database-url"]
    program = [sys.executable, "-m", "regente", *words, app.database_url]
    environment = {**os.environ, "REGENTE_DATA_DIR": str(settings.data_dir)}
    done = await asyncio.create_subprocess_exec(*program, env=environment)
    assert await done.wait() == 0
    worker = await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-secret", "s.example.com")
    async with Regente(app.database_url, settings=settings) as later:
        assert (await later.fleet.worker(worker)).api_key == "a-secret"
        assert await later.fleet.secrets_by_key() == {"current": 2, "former": 0}


def test_of_new_keys_that_are_added_at_the_same_time_none_is_lost(tmp_path: Path) -> None:
    """O15: a lost one may have encrypted secrets already."""
    first = Secrets.of(None, tmp_path).encrypt("a-secret")
    with ThreadPoolExecutor(8) as pool:
        for adding in [pool.submit(add_key, tmp_path) for _ in range(16)]:
            adding.result()
    assert len((tmp_path / "secret.key").read_bytes().split()) == 17
    assert Secrets.of(None, tmp_path).decrypt(first) == "a-secret"
    assert {one.name for one in tmp_path.iterdir()} <= {"secret.key", "secret.key.lock"}


async def test_a_rotation_that_is_killed_loses_nothing_and_goes_on(
    app: Regente, settings: Settings
) -> None:
    """O15, F1: at random moments; writers go on meanwhile."""
    assert settings.data_dir is not None
    stored = {
        await app.fleet.add_worker(f"w{number}", "http://127.0.0.1:9", f"secret-{number}", "s.x"): (
            f"secret-{number}"
        )
        for number in range(20)
    }
    words = ["secrets", "rotate", "--new-key", "--forget-former", "--database-url"]
    program = [sys.executable, "-m", "regente", *words, app.database_url]
    environment = {**os.environ, "REGENTE_DATA_DIR": str(settings.data_dir)}
    chance = random.Random(14)
    for attempt in range(5):
        process = await asyncio.create_subprocess_exec(*program, env=environment)
        ends = asyncio.create_task(process.wait())
        await asyncio.wait([ends], timeout=chance.uniform(0.6, 1.6))
        text = f"while-{attempt}"
        stored[await app.fleet.add_worker(text, "http://127.0.0.1:9", text, "s.x")] = text
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await ends
    async with Regente(app.database_url, settings=settings) as later:
        for worker, secret in stored.items():
            assert (await later.fleet.worker(worker)).api_key == secret
    process = await asyncio.create_subprocess_exec(*program, env=environment)
    assert await process.wait() == 0
    assert len((settings.data_dir / "secret.key").read_bytes().split()) == 1
    async with Regente(app.database_url, settings=settings) as later:
        for worker, secret in stored.items():
            assert (await later.fleet.worker(worker)).api_key == secret


async def test_the_passphrase_is_rotated_with_the_former_one_beside(
    database_url: str, tmp_path: Path
) -> None:
    """O15: first the new key decrypts only, then it encrypts, then it is alone."""
    old, new = "the former passphrase", "the latter passphrase"

    def settings(key: str, former: str | None) -> Settings:
        return Settings(data_dir=tmp_path, secret_key=key, former_secret_key=former, **QUICK)  # type: ignore[arg-type]

    async with Regente(database_url, settings=settings(old, new)) as app:
        worker = await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-secret", "s.example.com")
    async with Regente(database_url, settings=settings(new, old)) as app:
        assert (await app.fleet.worker(worker)).api_key == "a-secret"
        assert await app.fleet.rotate_secrets() == 1
    async with Regente(database_url, settings=settings(new, None)) as app:
        assert (await app.fleet.worker(worker)).api_key == "a-secret"
        assert await app.fleet.secrets_by_key() == {"current": 1, "former": 0}


async def test_secrets_of_earlier_versions_are_read_and_rotated(
    app: Regente, settings: Settings
) -> None:
    """O15: they were Fernet tokens under the same key file."""
    assert settings.data_dir is not None
    worker = await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-secret", "s.example.com")
    key = (settings.data_dir / "secret.key").read_bytes().strip()
    token = Fernet(key).encrypt(b"an-old-secret").decode()
    async with app.database.connection() as connection:
        await connection.execute("UPDATE regente.workers SET api_key = %s", [token])
    assert (await app.fleet.worker(worker)).api_key == "an-old-secret"
    assert await app.fleet.rotate_secrets() == 1
    assert (await app.fleet.worker(worker)).api_key == "an-old-secret"


def test_a_secret_that_was_altered_or_moved_is_not_read(tmp_path: Path) -> None:
    """O15: authenticated encryption."""
    secrets = Secrets.of(None, tmp_path)
    token = secrets.encrypt("a-secret")
    assert token != secrets.encrypt("a-secret")
    form, key_id, sealed = token.split(".")
    flipped = ("B" if sealed[20] == "A" else "A").join((sealed[:20], sealed[21:]))
    for wrong in (f"{form}.{key_id}.{flipped}", f"{form}.00000000.{sealed}", "rg2.x", "", "gAAAA"):
        with pytest.raises(SecretsUnreadable):
            secrets.decrypt(wrong)
    assert secrets.decrypt(token) == "a-secret"


@pytest.mark.parametrize(
    "weak",
    [
        "short",
        "fifteen letters",
        "aaaaaaaaaaaaaaaaaaaa",
        "abababababababab",
        "passwordpassword",
        "Password12345678",
        "changeme-changeme!",
        "1234567890123456",
        "abcdefghijklmnopq",
        "qwertyuiopasdfgh",
        "regente-secret-key",
        "correct correct correct",
    ],
)
def test_a_weak_passphrase_is_refused(tmp_path: Path, weak: str) -> None:
    """O15: short, repeated, in order, or made of what everyone tries first."""
    with pytest.raises(InvalidInput, match="too weak"):
        Secrets.of(weak, tmp_path)


@pytest.mark.parametrize(
    "strong",
    ["correct horse battery staple", "J9v/2cQm4mC1pS0eVh3x", "the former passphrase"],
)
def test_others_are_taken(tmp_path: Path, strong: str) -> None:
    """O15: a generated one, or some words."""
    assert Secrets.of(strong, tmp_path).key_id
