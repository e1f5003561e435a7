"""The audit log cannot be erased: its own retention, denied attempts, a chain that is checked."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import regente
from regente import Regente
from regente.cli import main
from regente.cli.author import author
from regente.engine.watchdog.retention import RetentionSweep
from regente.pipelines.missions.args import MissionArgs
from regente.settings import Settings
from tests.api.conftest import DAY, Served, body_of, events_of, with_config
from tests.engine.helpers import Clock, Sql

DAY_SECONDS = 86_400.0
THE_EVENTS = "regente.events WHERE details -> 'audit' ->> 'number'"
FORGED = "SET details = jsonb_set(details, '{by}', '\"eve\"') WHERE"
WITHOUT_ITS_HASH = [
    f"SET details = jsonb_set({changed}, '{{by}}', '\"eve\"') WHERE"
    for changed in (
        "jsonb_set(details, '{audit,hash}', 'null')",
        "details #- '{audit,hash}'",
        "jsonb_set(details, '{audit,previous}', 'null')",
        "jsonb_set(details, '{audit}', '{\"number\": 3}')",
        "jsonb_set(details, '{audit,by}', '\"eve\"')",
        "jsonb_set(details, '{audit,number}', '\"x\"')",
    )
]
REHASHED = (
    "SET details = jsonb_set(details, '{audit,hash}', to_jsonb(regente.audit_hash("
    "details #>> '{audit,previous}', 5, at, details - 'audit'))) WHERE"
)
COPIED_BEFORE_THE_FIRST = (
    "INSERT INTO regente.events (event, at, details) "
    "SELECT event, at, jsonb_set(details, '{audit,number}', '0') "
    "FROM regente.events WHERE details -> 'audit' ->> 'number' = '3'"
)
EARLIER = "SET at = at - interval '1 second' WHERE"


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


async def verified(
    capsys: pytest.CaptureFixture[str], url: str, *options: str
) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    words = ["audit", "verify", *options, "--database-url", url, "--json"]
    code = await asyncio.to_thread(main, words)
    out, err = capsys.readouterr()
    document: dict[str, Any] = json.loads(out or err)
    return code, document


async def act(api: Served, times: int) -> None:
    for _ in range(times):
        body_of(await api.operator.post("/api/orchestrator/stop"))


async def test_the_chain_is_whole_also_after_concurrent_actions(
    api: Served, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: actions at the same moment follow each other."""
    assert (await verified(capsys, database_url))[1]["checked"] == 0
    await asyncio.gather(*(act(api, 4) for _ in range(5)))
    code, found = await verified(capsys, database_url)
    assert (code, found["checked"], found["first"], found["last"]) == (0, 20, 1, 20)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (f"UPDATE {THE_EVENTS} IN ('3')".replace("WHERE", FORGED), "number 3 was altered"),
        (f"UPDATE {THE_EVENTS} IN ('3')".replace("WHERE", EARLIER), "number 3 was altered"),
        *(
            (f"UPDATE {THE_EVENTS} IN ('{number}')".replace("WHERE", change), "was altered")
            for number in (3, 5)
            for change in WITHOUT_ITS_HASH
        ),
        (
            f"UPDATE {THE_EVENTS} IN ('5')".replace("WHERE", FORGED)
            + f"; UPDATE {THE_EVENTS} IN ('5')".replace("WHERE", REHASHED),
            "number 5 was altered",
        ),
        (
            f"UPDATE {THE_EVENTS} IN ('3')".replace("WHERE", "SET task_id = 1 WHERE"),
            "3 was altered",
        ),
        (f"UPDATE {THE_EVENTS} IN ('3')".replace("WHERE", "SET event = 'x' WHERE"), "are missing"),
        (f"UPDATE {THE_EVENTS} IN ('3')".replace("WHERE", "SET details = NULL WHERE"), "missing"),
        (COPIED_BEFORE_THE_FIRST, "number 0 was altered"),
        (f"DELETE FROM {THE_EVENTS} IN ('3')", "before number 4 are missing"),
        (f"DELETE FROM {THE_EVENTS} IN ('1', '2')", "before number 3 are missing"),
        (f"DELETE FROM {THE_EVENTS} IN ('4', '5')", "after number 3 are missing"),
        ("DELETE FROM regente.events", "after number 0 are missing"),
    ],
)
async def test_an_altered_or_missing_event_is_found(
    api: Served,
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    sql: Sql,
    change: str,
    problem: str,
) -> None:
    """O18: wherever it was in the chain."""
    await act(api, 5)
    assert (await verified(capsys, database_url))[0] == 0
    sql.execute(change)
    code, answer = await verified(capsys, database_url)
    assert (code, answer["error"]["code"]) == (1, "AUDIT_BROKEN")
    assert problem in answer["error"]["message"]


async def test_an_end_that_was_cut_off_with_its_head_is_found_by_a_kept_one(
    api: Served, database_url: str, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    """O18: also when the rest was made to look whole."""
    await act(api, 3)
    early = (await verified(capsys, database_url))[1]["head"]
    await act(api, 2)
    late = (await verified(capsys, database_url))[1]["head"]
    for kept in (early, late):
        assert (await verified(capsys, database_url, "--kept", kept))[0] == 0
    sql.execute(f"DELETE FROM {THE_EVENTS} IN ('4', '5')")
    sql.execute(
        "UPDATE regente.settings SET value = (SELECT details -> 'audit' FROM regente.events "
        "WHERE details -> 'audit' ->> 'number' = '3') WHERE key = 'audit_head'"
    )
    assert (await verified(capsys, database_url))[0] == 0
    assert (await verified(capsys, database_url, "--kept", early))[0] == 0
    code, answer = await verified(capsys, database_url, "--kept", late)
    assert (code, answer["error"]["code"]) == (1, "AUDIT_BROKEN")


async def test_events_in_another_order_are_found(
    api: Served, database_url: str, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    """O18: two that changed places, with their numbers, or one twice."""
    await act(api, 4)
    copied = (
        "INSERT INTO regente.events (event, at, details) SELECT event, at, details FROM "
        f"{THE_EVENTS} = '2'"
    )
    swapped = """
        UPDATE regente.events e SET details = o.details, at = o.at FROM regente.events o
        WHERE (e.details #>> '{audit,number}', o.details #>> '{audit,number}')
              IN (('2', '3'), ('3', '2'))
    """
    sql.execute(swapped)
    assert (await verified(capsys, database_url))[0] == 0  # the same events in other rows
    renumbered = """
        UPDATE regente.events SET details = jsonb_set(details, '{audit,number}',
          to_jsonb(5 - (details #>> '{audit,number}')::int))
        WHERE details #>> '{audit,number}' IN ('2', '3')
    """
    for change in (copied, renumbered):
        sql.execute("BEGIN")
        sql.execute(change)
        sql.execute("COMMIT")
        code, answer = await verified(capsys, database_url)
        assert (code, answer["error"]["code"]) == (1, "AUDIT_BROKEN"), change


async def test_transactions_that_are_rolled_back_leave_no_gap(
    api: Served, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18, F14: concurrent writers in several processes, every third of which changes its mind."""

    async def write(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            for turn in range(10):
                await connection.execute('SELECT regente.audit(\'{"action": "test"}\')')
                if (number + turn) % 3:
                    await connection.commit()
                else:
                    await connection.rollback()

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(write(number))
        group.create_task(act(api, 10))
    code, found = await verified(capsys, database_url)
    assert (code, found["checked"], found["unchained"]) == (0, 40 + 10, 0)


async def test_a_short_retention_leaves_the_audit_log(
    api: Served, app: Regente, database_url: str, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    """O18: an hour of retention deletes other events; the audit's time is a year at least."""
    clock = Clock(sql)
    await act(api, 3)
    sql.execute("INSERT INTO regente.events (event) VALUES ('ordinary')")
    body_of(await api.admin.patch("/api/settings", json={"retention_days": 1 / 24}))
    sweep = RetentionSweep(app.database, 3600, 30 * DAY_SECONDS, audit_seconds=1.0)
    clock.advance(days=364)
    assert (await sweep.run_once()).events > 0
    assert sql.execute("SELECT FROM regente.events WHERE event = 'ordinary'").fetchall() == []
    assert len(await events_of(app, "operator_action")) == 4
    assert (await verified(capsys, database_url))[1]["checked"] == 4
    clock.advance(days=1.5)
    await act(api, 1)
    assert (await sweep.run_once()).events == 4
    code, found = await verified(capsys, database_url)
    assert (code, found["first"], found["last"], found["checked"]) == (0, 5, 5, 1)


def test_the_audits_time_is_a_year_at_least() -> None:
    """O18: also where the environment says less."""
    assert Settings(audit_days=365).audit_days == 365
    with pytest.raises(ValueError, match="greater than or equal to 365"):
        Settings(audit_days=364)


async def test_denied_attempts_and_failed_sign_ins_are_audited(api: Served, app: Regente) -> None:
    """O18: with the source's address; a request without any credentials is no attempt."""
    assert (await api.viewer.post("/api/orchestrator/stop")).status_code == 403
    wrong = {"x-api-key": "rg_" + "A" * 43}
    assert (await api.anonymous.get("/api/missions", headers=wrong)).status_code == 401
    sent = api.anonymous.post("/api/session", json={"token": "of-yesterday"})
    assert (await sent).status_code == 401
    assert (await api.anonymous.get("/api/missions")).status_code == 401
    noted = await events_of(app, "operator_action")
    assert [
        (one.get("by"), one["action"], one["target"]["path"], one["target"]["status"])
        for one in noted
    ] == [
        ("the-viewer", "access.denied", "/api/orchestrator/stop", 403),
        (None, "access.denied", "/api/missions", 401),
        (None, "session.failed", "/api/session", 401),
    ]
    assert {one["address"] for one in noted} == {"127.0.0.1"}
    assert "of-yesterday" not in json.dumps(noted)
    assert wrong["x-api-key"] not in json.dumps(noted)


@with_config(wrong_keys_per_second=0.001, wrong_key_burst=3)
async def test_a_flood_of_denials_does_not_fill_the_log(api: Served, app: Regente) -> None:
    """O18: the first few of an address are audited."""
    for _ in range(8):
        await api.viewer.post("/api/orchestrator/stop")
    assert len(await events_of(app, "operator_action")) == 3


async def test_exports_are_audited_with_their_filter(api: Served, app: Regente) -> None:
    """O18: they take much out at once."""
    assert (await api.viewer.get("/api/events/export", params={"format": "csv"})).is_success
    (noted,) = await events_of(app, "operator_action")
    assert (noted["by"], noted["action"]) == ("the-viewer", "events.export")
    assert noted["target"] == {"format": "csv"}


async def test_the_command_line_names_the_systems_user(
    app: Regente, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: `cli:USER`, in audit events and in those of tasks."""
    (mission,) = await app.missions.create([MissionArgs.model_validate(DAY)], by="test")
    words = ["missions", "queue", str(mission), "--database-url", database_url, "--json"]
    assert await asyncio.to_thread(main, words) == 0
    words = ["keys", "create", "ana", "--database-url", database_url, "--json"]
    assert await asyncio.to_thread(main, words) == 0
    capsys.readouterr()
    by = f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert {one["by"] for one in await events_of(app, "operator_action", "mission_queued")} == {by}


async def test_the_systems_user_cannot_be_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """O18: variables are the caller's word; only root, who may do anything, names another."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.setenv(name, "eve")
    monkeypatch.setattr(os, "getuid", lambda: 65_534)
    assert author() == f"cli:{pwd.getpwuid(65_534).pw_name}"
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert author() == "cli:eve"


async def test_what_is_done_on_the_command_line_is_in_the_chain(
    app: Regente, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: so that retention does not delete it, also when it failed."""
    mission, other = await app.missions.create([MissionArgs.model_validate(DAY)] * 2, by="test")
    for words, code in (
        (["missions", "queue", str(mission), str(other)], 0),
        (["tasks", "cancel", str(other)], 0),
        (["tasks", "cancel", "999"], 1),
        (["settings", "set", "session_limit", "7"], 0),
        (["pipelines", "pause", "missions"], 0),
        (["dead", "discard", "999"], 1),
        (["tasks", "resolve", "999", "PAY", "--result", '{"api_key": "canary"}'], 1),
        (["tasks", "list"], 0),
        (["settings", "set", "nothing", "7"], 2),
    ):
        arguments = [*words, "--database-url", database_url, "--json"]
        assert await asyncio.to_thread(main, arguments) == code, (words, capsys.readouterr())
    noted = await events_of(app, "operator_action")
    assert [(one["action"], one.get("error")) for one in noted] == [
        ("missions.queue", None),
        ("tasks.cancel", None),
        ("tasks.cancel", "NOT_FOUND"),
        ("settings.set", None),
        ("pipelines.pause", None),
        ("dead.discard", "NOT_FOUND"),
        ("tasks.resolve", "NOT_FOUND"),
    ]
    assert noted[0]["target"] == {"ids": [mission, other]}
    assert noted[3]["target"] == {"key": "session_limit", "value": "7"}
    assert "canary" not in json.dumps(noted)
    code, found = await verified(capsys, database_url)
    assert (code, found["checked"], found["unchained"]) == (0, 7, 0)


def acting_commands() -> Iterator[tuple[str, bool]]:
    """The commands that act in the system user's name, and whether they are audited."""
    for path in sorted(Path(regente.__file__).parent.rglob("*.py")):
        if "cli" not in path.with_suffix("").parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.AsyncFunctionDef):
                continue
            made = [
                one
                for one in node.decorator_list
                if isinstance(one, ast.Call) and ast.unparse(one.func) == "command"
            ]
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            if made and "BY" in names:
                audited = "_note" in names or any(one.arg == "audited" for one in made[0].keywords)
                yield f"{path.stem}.{node.name}", audited


def test_every_command_that_acts_is_audited() -> None:
    """O18: a new one, too."""
    found = dict(acting_commands())
    assert len(found) > 25
    assert [name for name, audited in found.items() if not audited] == []
