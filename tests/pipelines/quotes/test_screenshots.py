"""Screenshots of the pages that a quote's prices were read from, by a Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from scripts.chromium import HOW, find

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.quotes.models import Method
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.screenshots import PNG, Screenshots
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.setup import register_quotes
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.api.conftest import served
from tests.pipelines.quotes.conftest import CHAIR, GOL, QUICK, SHOPS, ended
from tests.support.running import runner_in

PATIENT = 120.0
"""Seconds that a healthy Chromium is given."""


@pytest.fixture
def chromium() -> str:
    found = find()
    assert found, HOW
    return found


@contextlib.asynccontextmanager
async def counting_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """The address of a server of this machine, and the requests that arrive there."""
    requests: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()


async def test_a_page_is_shown_and_reaches_nothing_else(chromium: str, tmp_path: Path) -> None:
    """Q6, F8: neither this machine's addresses nor its files, and its scripts do not run."""
    secret = tmp_path / "secret.html"
    secret.write_text("<body style='background:red'>")
    async with counting_server() as (address, requests):
        plain = "<body style='background:white'><h1>R$ 41,00</h1>"
        hostile = (
            f"<meta http-equiv=refresh content='0; url={address}/refresh'>"
            f"<link rel=stylesheet href={address}/a.css>{plain}"
            f"<img hidden src={address}/a.png><iframe hidden src={address}/frame></iframe>"
            f"<iframe hidden src=file://{secret}></iframe><object hidden data={address}/o></object>"
            f"<script>document.body.innerHTML = ''; fetch('{address}/script')</script>"
        )
        screenshots = Screenshots(chromium, limit_seconds=PATIENT)
        shown, alone = await asyncio.gather(screenshots.take(hostile), screenshots.take(plain))
    assert shown is not None
    assert shown.startswith(PNG)
    assert shown == alone
    assert requests == []


@pytest.fixture
def broken(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A program in place of Chromium."""
    program = tmp_path / "chromium"
    program.write_text(f"#!/bin/sh\n{request.param}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


BROKEN = ["exit 1", "exit 0", "sleep 600", 'for a; do :; done; echo x > "${a#--screenshot=}"']


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
async def test_a_chromium_that_fails_costs_the_screenshot_only(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Q6: with a warning."""
    with caplog.at_level(logging.WARNING):
        assert await Screenshots(broken, limit_seconds=1.0).take("<h1>R$ 41,00</h1>") is None
    assert "no screenshot" in caplog.text


async def test_a_chromium_that_is_not_there_costs_the_screenshot_only() -> None:
    """Q6."""
    assert await Screenshots("/nowhere/chromium").take("<h1>R$ 41,00</h1>") is None


@pytest.fixture
async def photographing(
    database_url: str, registry: Registry, settings: Settings, sandbox: Sandbox, chromium: str
) -> AsyncIterator[Regente]:
    changes = {"screenshots": True, "chromium": chromium, "max_products": 2}
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        quotes = QuotesSettings(**{**QUICK.model_dump(exclude_unset=True), **changes})
        pipelines = register_quotes(registry, opened, quotes, sandbox.url)
        yield opened
        await pipelines.close()


async def test_the_evidence_of_a_quote_has_screenshots(photographing: Regente) -> None:
    """Q6: of each page that a price was read from; as an image in the API, and none of a table."""
    operations = QuoteOperations(photographing)
    ids = (await operations.submit([CHAIR, GOL])).ids
    async with served(photographing) as api, runner_in(photographing):
        chair, gol = [await ended(operations, one, within_seconds=2 * PATIENT) for one in ids]
        assert (chair.status, gol.status) == ("DONE", "DONE")
        assert [one.screenshot for one in chair.sources] == [True, True]
        assert [one.screenshot for one in gol.sources] == [False]
        for source in chair.sources:
            found = await api.viewer.get(f"/api/quotes/{chair.id}/sources/{source.position}/image")
            assert found.headers["content-type"] == "image/png"
            assert found.content.startswith(PNG)
        position = gol.sources[0].position
        missing = await api.viewer.get(f"/api/quotes/{gol.id}/sources/{position}/image")
        assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert not any("screenshot" in one for one in chair.resume_data["tested_products"])


async def test_without_the_setting_the_evidence_is_excerpt_and_hash(
    app: Regente, operations: QuoteOperations
) -> None:
    """Q6: the default."""
    (quote_id,) = (await operations.submit([CHAIR])).ids
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert len(found.sources) == SHOPS
    assert {one.screenshot for one in found.sources} == {False}
    read = [one for one in found.sources if one.method not in (None, Method.LISTING)]
    assert read
    assert all(one.excerpt and one.page_sha256 for one in read)


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("PATH", str(tmp_path))
        yield


@pytest.mark.usefixtures("no_programs")
def test_without_a_chromium_the_setting_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Q6: evidence is excerpt and hash, and the log says what to install."""
    with caplog.at_level(logging.WARNING):
        assert Screenshots.of(wanted=True, chromium=None) is None
    assert "REGENTE_QUOTES_CHROMIUM" in caplog.text
    assert Screenshots.of(wanted=False, chromium=None) is None
