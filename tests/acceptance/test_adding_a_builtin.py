"""Follows the steps of docs/pipelines/adding-a-builtin.md."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import textwrap
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scripts.console import npm_here

import regente.pipelines
from regente import Regente
from regente.api.app import create_app
from regente.console import serving
from regente.console.files import load
from regente.engine.pipeline import Registry
from regente.pipelines import builtins
from regente.settings import Settings
from tests.acceptance.conftest import Cli
from tests.api.conftest import body_of, served

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pipelines" / "adding-a-builtin.md"
NAME = "greetings"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's files in a folder of the built-ins, and its line in their list."""
    text = PAGE.read_text("utf-8")
    files = re.findall(r"^ +`([\w./]+)`\n\n +```\w+\n(.*?)^ +```$", text, re.DOTALL | re.MULTILINE)
    for path, body in files:
        file = tmp_path / NAME / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(body), "utf-8")
    [line] = re.findall(r'^ +"([\w.]+)",$', text, re.MULTILINE)
    monkeypatch.setattr(regente.pipelines, "__path__", [*regente.pipelines.__path__, str(tmp_path)])
    monkeypatch.setattr(builtins, "MODULES", (*builtins.MODULES, line))
    yield
    # Its own modules only: a library that was imported meanwhile must not be imported again.
    for name in [name for name in sys.modules if name.startswith(line)]:
        del sys.modules[name]
    vars(regente.pipelines).pop(NAME, None)


@pytest.mark.usefixtures("added")
async def test_a_sixth_built_in_is_a_folder_and_a_line(
    cli: Cli, database_url: str, settings: Settings
) -> None:
    """Its tables, command, pipeline and route work and are listed, without another edit."""
    assert NAME in await cli.text("--help")
    assert (await cli.json("migrate", "status"))["newest"][NAME] == 1
    added = await cli.json(NAME, "add", "Ana")
    assert (await cli.json("migrate", "status"))["version"][NAME] == 1
    app = Regente(database_url, settings=settings, pipelines=Registry(), components=[NAME])
    async with app:
        app.conduct([NAME])
        await app.run(until_idle=True)
        greeting = {"task_id": added["id"], "text": "Hello, Ana!"}
        async with served(app) as api:
            assert body_of(await api.viewer.get("/api/greetings")) == [greeting]
            assert body_of(await api.anonymous.get("/api/greetings"), 401)
    assert await cli.json(NAME, "list") == [greeting]
    assert "Hello, Ana!" in await cli.text(NAME, "list")
    assert NAME in await cli.text("pipelines", "list")
    assert {"name": NAME, "description": "Greetings that were written."} in create_app(
        app
    ).openapi()["tags"]


@pytest.mark.usefixtures("added")
async def test_a_disabled_built_in_has_no_tables_no_command_and_no_route(
    cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q10: its tables can be migrated down alone, and are not created again."""
    await cli.json("migrate", "up")
    assert has_table(database_url)
    await cli.json("migrate", "down", "0", "--component", NAME, "--yes")
    monkeypatch.setenv("REGENTE_BUILTINS", "missions,quotes")
    assert (await cli(NAME, "list", "--json")).error["code"] == "SWITCHED_OFF"
    async with Regente(database_url, pipelines=Registry()) as app:
        app.conduct()
        assert NAME not in app.registry.names
        async with served(app) as api:
            assert (await api.viewer.get("/api/greetings")).status_code == 404
            assert (await api.viewer.get("/api/quotes/1")).json()["code"] == "NOT_FOUND"
    await cli.json("migrate", "up")
    assert not has_table(database_url)


@pytest.mark.usefixtures("added")
@pytest.mark.timeout(600)
async def test_the_console_shows_the_page_of_a_sixth_built_in(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O19: the page in its folder is linted, type-checked and built, and its server names it."""
    app = Regente(database_url, pipelines=Registry(), components=["api", NAME])
    tree = tmp_path / "tree"
    await asyncio.to_thread(copy_console, tree, tmp_path / NAME / "console")
    document = tree / "tests" / "api" / "openapi.json"
    document.parent.mkdir(parents=True)
    document.write_text(json.dumps(create_app(app).openapi()), "utf-8")
    for script in ("build", "check"):
        await npm(tree / "console", script)
    built = tree / "src" / "regente" / "console" / "static"
    monkeypatch.setattr(serving, "load", lambda: load(built))
    async with app, served(app) as api:
        page = (await api.anonymous.get("/results?of=greetings")).text
        [names] = re.findall(r'<meta name="regente-pages" content="([^"]*)">', page)
        assert names.split()[-1] == NAME
        scripts = [file for file in load(built) if file.endswith(".js")]
        texts = [(await api.anonymous.get(f"/{name}")).text for name in scripts]
    for text in ("Saudações", "Saudações mais recentes", "Newest greetings", "/api/greetings"):
        assert sum(text in one for one in texts) >= 1, text


def copy_console(tree: Path, page: Path) -> None:
    """The console's sources with this page among those of the built-ins, and the packages."""
    sources = ROOT / "console"
    leave_out = shutil.ignore_patterns("node_modules", "schema.d.ts")
    shutil.copytree(sources, tree / "console", ignore=leave_out)
    (tree / "console" / "node_modules").symlink_to(sources / "node_modules")
    (tree / "node_modules").symlink_to(sources / "node_modules")
    pipelines = tree / "src" / "regente" / "pipelines"
    for folder in (ROOT / "src" / "regente" / "pipelines").glob("*/console"):
        shutil.copytree(folder, pipelines / folder.parent.name / "console")
    shutil.copytree(page, pipelines / NAME / "console")


async def npm(folder: Path, script: str) -> None:
    command, environment = npm_here()
    process = await asyncio.create_subprocess_exec(
        *command,
        *("run", "--silent", script),
        cwd=folder,
        env=environment,
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, f"npm run {script}: {output.decode()}"


def has_table(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT to_regclass('regente.greetings') IS NOT NULL").fetchone()
        assert row is not None
        return bool(row[0])
