"""Every mistake is one line and an exit code: 2 for wrong usage, 1 for a failure. No traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import Cli, CliProcess

SECRET = "s3cr3t"
UNREACHABLE = f"postgresql://user:{SECRET}@127.0.0.1:1/db"


@pytest.fixture(scope="module")
def shared_url(server_url: str, template: str) -> Iterator[str]:
    """One database for all mistakes, which change nothing in it. It has one pipeline."""
    name = f"regente_mistakes_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        url = make_conninfo(server_url, dbname=name)
        with psycopg.connect(url, autocommit=True) as inside:
            inside.execute("INSERT INTO regente.pipelines (name) VALUES ('pages')")
        yield url
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("tasks", "show", "abc"), 2, "USAGE"),
        (("tasks", "show", "0"), 2, "USAGE"),
        (("tasks", "show", "9" * 30), 2, "USAGE"),
        (("tasks", "show", "99999"), 1, "NOT_FOUND"),
        (("tasks", "why", "99999"), 1, "NOT_FOUND"),
        (("tasks", "list", "--status", "lost"), 2, "INVALID_INPUT"),
        (("tasks", "lst"), 2, "USAGE"),
        (("enqueue", "pages", "{bad"), 2, "INVALID_JSON"),
        (("enqueue", "pages", "[1]"), 2, "INVALID_ARGS"),
        (("enqueue", "pages", '{"a": "\\u0000"}'), 2, "INVALID_ARGS"),
        (("enqueue", "pages", '{"a": NaN}'), 2, "INVALID_ARGS"),
        (("enqueue", "nowhere"), 2, "UNKNOWN_PIPELINE"),
        (("enqueue", "pages", "--run-at", "tomorrow"), 2, "INVALID_INPUT"),
        (("enqueue", "pages", "--run-at", "2030-01-01T00:00:00"), 2, "INVALID_INPUT"),
        (("enqueue", "pages", "--priority", "99999"), 2, "INVALID_INPUT"),
        (("enqueue", "pages", "--batch", "77"), 1, "NOT_FOUND"),
        (("enqueue", "pages", "--key", "k", "--unique", "24 horas"), 2, "INVALID_INPUT"),
        (("enqueue", "pages", "--unique", "24h"), 2, "INVALID_INPUT"),
        (("enqueue", "pages", "--key", "k", "--on-conflict", "ignore"), 2, "USAGE"),
        (("run", "--no-offered"), 2, "USAGE"),
        (("run", "--import", "no.such.module"), 2, "MODULE_NOT_FOUND"),
        (("run", "--import", "nowhere.py"), 2, "MODULE_NOT_FOUND"),
    ],
)
async def test_a_mistake_is_one_line_and_an_exit_code(
    bare_cli: Cli,
    shared_url: str,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    name: str,
) -> None:
    monkeypatch.setenv("REGENTE_DATABASE_URL", shared_url)
    answer = await bare_cli(*words, "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (code, "", name)
    told = await bare_cli(*words)
    assert told.err.startswith("error: ")
    assert "Traceback" not in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    [
        UNREACHABLE,
        f"postgres//user:{SECRET}@host/db",
        f"postgresql://user:{SECRET}@half@127.0.0.1:1/db",
        f"postgresql://user:1/{SECRET}@127.0.0.1:1/db",
        f"host=127.0.0.1 port={SECRET}",
    ],
)
@pytest.mark.parametrize("words", [("tasks", "list"), ("migrate", "status")])
async def test_an_unreachable_database_is_reported_without_the_password(
    bare_cli: Cli, words: tuple[str, ...], url: str
) -> None:
    answer = await bare_cli(*words, "--database-url", url, "--json")
    assert answer.code == (1 if url == UNREACHABLE else 2)
    assert answer.error["code"] in ("DATABASE_UNAVAILABLE", "INVALID_ADDRESS")
    assert SECRET not in answer.err + answer.out


async def test_invalid_settings_name_their_variable(
    bare_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGENTE_CONCURRENCY", "many")
    answer = await bare_cli("tasks", "list", "--json")
    assert (answer.code, "REGENTE_CONCURRENCY" in answer.error["message"]) == (2, True)


async def test_options_work_before_and_after_the_command(cli: Cli) -> None:
    assert (await cli("--json", "tasks", "list")).data == []
    assert (await cli("--database-url", UNREACHABLE, "tasks", "list")).code == 1


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def broken(:\n", "has a syntax error"),
        (
            "import not_installed_anywhere\n",
            "needs the module 'not_installed_anywhere', which is not installed",
        ),
        ("raise ValueError('bad day')\n", "ValueError: bad day"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    ],
)
async def test_a_module_that_cannot_be_imported_says_why(
    bare_cli: Cli, tmp_path: Path, source: str, told: str
) -> None:
    module = tmp_path / "module_with_a_mistake.py"
    module.write_text(source)
    answer = await bare_cli("run", "--import", str(module), "--json")
    assert (answer.code, answer.error["code"]) == (1, "IMPORT_FAILED")
    assert told in answer.error["message"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n", "defines no pipeline"),
        (
            "from regente import pipeline\n\n\n@pipeline('a')\nasync def a(task): ...\n",
            "no pipeline is called b; known here: a",
        ),
    ],
)
def test_a_module_without_the_pipeline_is_reported(
    start: Callable[..., CliProcess], tmp_path: Path, source: str, told: str
) -> None:
    module = tmp_path / "module_without_it.py"
    module.write_text(source)
    answer = start("run", "--import", str(module), "--pipelines", "b").wait()
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert "Traceback" not in answer.err


def test_contradictory_lease_settings_are_refused(
    start: Callable[..., CliProcess],
) -> None:
    answer = start("run", "--json", JOB_LOCK_TTL_MS="1000").wait()
    assert (answer.code, answer.error["code"]) == (2, "INVALID_INPUT")
