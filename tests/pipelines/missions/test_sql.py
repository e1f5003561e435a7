"""Missions and their log written in SQL: the same checks, events and results as the API's."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from regente import Regente
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    finished,
    names_of,
    rows,
    until,
)
from tests.support.eventually import eventually_async
from tests.support.peers import ScriptedWorker, ScriptedWriter

DAYS = "date_start, date_end, media_type, languages"
NEW = f"INSERT INTO missions ({DAYS}) VALUES ('2025-01-15', '2025-01-15', 'video', '{{pt}}')"


@pytest.fixture
async def sql(app: Regente, database_url: str) -> AsyncIterator[AsyncConnection[dict[str, Any]]]:
    """A connection of a script: in Regente's schema, one statement a transaction."""
    connection = await AsyncConnection.connect(database_url, autocommit=True, row_factory=dict_row)
    async with connection:
        await connection.execute("SET search_path = regente")
        yield connection


Sql = AsyncConnection[dict[str, Any]]


async def one(sql: Sql, text: str, *params: Any) -> dict[str, Any]:
    row = await (await sql.execute(text.encode(), params)).fetchone()
    assert row is not None, text
    return row


async def many(sql: Sql, text: str, *params: Any) -> list[dict[str, Any]]:
    return await (await sql.execute(text.encode(), params)).fetchall()


async def refused(sql: Sql, text: str, sqlstate: str, hint: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        await sql.execute(text.encode())
    assert caught.value.sqlstate == sqlstate, caught.value
    assert hint in (caught.value.diag.message_hint or caught.value.diag.message_primary or "")


async def test_an_inserted_mission_is_queued_by_its_author_and_runs(app: Regente, sql: Sql) -> None:
    """O1, O2, O5: defaults, the generated id, RETURNING; the orchestrator opens by itself."""
    async with conducting(app, ScriptedWorker(), ScriptedWriter()):
        made = await one(sql, f"{NEW} RETURNING *")
        assert (made["status"], made["checkpoint"], made["retry_count"]) == (
            "queued",
            "atribuido",
            0,
        )
        assert (made["media_type"], made["languages"]) == ("video", ["pt"])
        assert made["queued_at"] == made["created_at"]
        mission = await finished(app, made["id"])
        assert (mission.status, mission.ads_count) == ("completed", 3)
    (author,) = (await one(sql, "SELECT session_user")).values()
    log = await many(sql, "SELECT * FROM mission_logs WHERE mission_id = %s ORDER BY 5", made["id"])
    (queued,) = [row for row in log if row["event"] == "mission_queued"]
    assert queued["details"] == {"queued_by": author}
    assert [row["event"] for row in log] == await names_of(app, made["id"])
    assert sorted(row["id"] for row in log if row["mission_id"]) == [row["id"] for row in log]
    (opened,) = await rows(app, "SELECT details FROM events WHERE event = 'orchestrator_opened'")
    assert opened["details"] == {"by": author}


async def test_a_draft_waits_until_it_is_queued_as_the_specification_queues(
    app: Regente, sql: Sql
) -> None:
    """O2, O5: 5.1 word for word; its entry in the log is there once."""
    draft = f"INSERT INTO missions ({DAYS}, status) SELECT {DAYS}, 'draft' FROM (VALUES"
    made = await many(
        sql,
        f"{draft} ('2025-01-15'::date, '2025-01-16'::date, 'all', '{{pt,en,pt}}'::text[]), "
        f"('2025-01-17', '2025-01-17', 'image', '{{pt-BR}}')) AS v ({DAYS}) RETURNING *",
    )
    assert [row["status"] for row in made] == ["draft", "draft"]
    assert [row["languages"] for row in made] == [["pt", "en"], ["pt-BR"]]
    assert {(row["checkpoint"], row["queued_at"]) for row in made} == {(None, None)}
    assert (await app.missions.orchestrator()).state == "closed"
    for row in made:
        await sql.execute(
            "UPDATE missions SET status = 'queued', checkpoint = 'atribuido', queued_at = now() "
            "WHERE id = %s",
            [row["id"]],
        )
        entry = await one(
            sql,
            "INSERT INTO mission_logs (mission_id, event, details) "
            """VALUES (%s, 'mission_queued', '{"queued_by": "user"}') RETURNING *""",
            row["id"],
        )
        assert entry["event"] == "mission_queued"
        assert await names_of(app, row["id"]) == ["mission_queued"]
    assert (await app.missions.orchestrator()).state == "open"
    assert (await app.missions.counts())["queued"] == 2
    again = await many(sql, "UPDATE missions SET status = 'queued' RETURNING id")
    assert len(again) == 2
    assert await names_of(app, made[0]["id"]) == ["mission_queued"]


async def test_bulk_updates_queue_cancel_and_queue_again(app: Regente, sql: Sql) -> None:
    """O5, O12: WHERE chooses, RETURNING tells, each mission has its events once."""
    ids = await app.missions.create([MISSION] * 6)
    queued = await many(
        sql, "UPDATE missions SET status = 'queued' WHERE id <= %s RETURNING id", ids[3]
    )
    assert [row["id"] for row in queued] == ids[:4]
    canceled = await many(
        sql,
        "UPDATE missions SET status = 'canceled', finished_at = now() "
        "WHERE status IN ('draft', 'queued') AND id > %s RETURNING id, status, finished_at",
        ids[0],
    )
    assert [(row["id"], row["status"]) for row in canceled] == [
        (one, "canceled") for one in ids[1:]
    ]
    assert all(row["finished_at"] for row in canceled)
    back = await many(
        sql, "UPDATE missions SET status = 'queued' WHERE status = 'canceled' RETURNING id"
    )
    assert len(back) == 5
    assert await names_of(app, ids[5]) == ["mission_canceled", "mission_queued"]
    (author,) = (await one(sql, "SELECT session_user")).values()
    details = [row["details"] for row in await app.missions.timeline(ids[5])]
    assert details == [
        {"canceled_by": author, "previous_checkpoint": None},
        {"queued_by": author},
    ]


async def test_a_running_mission_is_canceled_when_its_worker_has_stopped(
    app: Regente, sql: Sql
) -> None:
    """O12: the worker is told at once; the entry of a script that logs it too is not doubled."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter()):
        mission_id = (await one(sql, f"{NEW} RETURNING id"))["id"]
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        told = await one(sql, "UPDATE missions SET status = 'canceled' RETURNING status")
        assert told["status"] == "running"
        await sql.execute(
            "INSERT INTO mission_logs (mission_id, event) VALUES (%s, 'mission_canceled')",
            [mission_id],
        )
        assert (await finished(app, mission_id)).status == "canceled"
    assert (await names_of(app, mission_id)).count("mission_canceled") == 1


async def test_a_failed_mission_that_is_queued_again_runs_with_all_its_retries(
    app: Regente, sql: Sql
) -> None:
    """O15: as `regente missions retry`."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "failed"}] for _ in range(3)]
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        mission_id = (await one(sql, f"{NEW} RETURNING id"))["id"]
        assert (await finished(app, mission_id)).status == "failed"
        again = await one(sql, "UPDATE missions SET status = 'queued' RETURNING *")
        assert (again["status"], again["retry_count"], again["error_code"]) == ("queued", 0, None)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)


async def test_a_stopped_orchestrator_stays_stopped(app: Regente, sql: Sql) -> None:
    """O13: what a person stopped is not opened by queueing in SQL, and auto_start holds."""
    await app.missions.stop(by="ana")
    await sql.execute(NEW.encode())
    assert (await app.missions.orchestrator()).state == "closed"
    await app.missions.start(by="ana")
    await rows(app, "UPDATE orchestrator SET state = 'closed', task_id = NULL")
    await app.missions.set("auto_start", False)
    await sql.execute(NEW.encode())
    assert (await app.missions.orchestrator()).state == "closed"


async def test_an_open_transaction_keeps_no_one_else_from_queueing(app: Regente, sql: Sql) -> None:
    """O5: the orchestrator's row is locked at the commit only."""
    async with sql.transaction():
        await sql.execute(NEW.encode())
        async with asyncio.timeout(60):
            await app.missions.create([MISSION], queue=True)
    assert (await app.missions.counts())["queued"] == 2
    assert len(await rows(app, "SELECT FROM tasks WHERE pipeline = 'orchestrator'")) == 1


async def test_a_change_in_between_is_told_and_not_overwritten(
    app: Regente, sql: Sql, database_url: str
) -> None:
    """O12: a mission that began while the statement waited is not canceled as a waiting one."""
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("SELECT FROM regente.tasks WHERE id = %s FOR UPDATE", [mission_id])
        await other.execute(
            "UPDATE regente.mission_runs SET checkpoint = 'extracao' WHERE mission_id = %s",
            [mission_id],
        )
        update = asyncio.create_task(
            many(sql, "UPDATE missions SET status = 'canceled' WHERE status = 'queued'")
        )

        async def waits() -> bool:
            found = await other.execute("SELECT FROM pg_locks WHERE NOT granted")
            return await found.fetchone() is not None

        await eventually_async(waits)
        await other.commit()
    with pytest.raises(psycopg.errors.SerializationFailure, match="is running by now"):
        await update
    assert (await app.missions.get(mission_id)).status == "running"


FORBIDDEN = {
    "UPDATE missions SET status = 'completed'": ("RG001", "UPDATE missions SET status = 'queued'"),
    "UPDATE missions SET status = 'draft'": ("428C9", "INSERT another one"),
    "UPDATE missions SET worker_id = 'wk_1'": ("428C9", "SET status = 'queued' or 'canceled'"),
    "UPDATE missions SET retry_count = retry_count + 1": ("428C9", "SET status = 'queued'"),
    "UPDATE missions SET status = 'canceled', checkpoint = 'finalizado'": ("428C9", "status"),
    "UPDATE missions SET status = 'queued', checkpoint = 'extracao'": ("428C9", "status"),
    "UPDATE missions SET date_end = '2026-01-01'": ("428C9", "cancel it and INSERT another one"),
    "UPDATE missions SET status = 'done'": ("22P02", "mission_status"),
    "DELETE FROM missions": ("0A000", "UPDATE missions SET status = 'canceled'"),
    f"INSERT INTO missions ({DAYS}) VALUES ('2025-01-16', '2025-01-15', 'all', '{{pt}}')": (
        "23514",
        "before it starts",
    ),
    f"INSERT INTO missions ({DAYS}) VALUES ('2025-01-15', '2025-01-15', 'audio', '{{pt}}')": (
        "23514",
        "all, video or image",
    ),
    f"INSERT INTO missions ({DAYS}) VALUES ('2025-01-15', '2025-01-15', 'all', '{{}}')": (
        "23514",
        "at least one language",
    ),
    f"INSERT INTO missions ({DAYS}) VALUES ('2025-01-15', '2025-01-15', 'all', '{{Klingon}}')": (
        "23514",
        "'Klingon' is not a language code",
    ),
    f"INSERT INTO missions ({DAYS}) VALUES ('infinity', 'infinity', 'all', '{{pt}}')": (
        "23514",
        "years 1 to 9999",
    ),
    "INSERT INTO missions (date_start, date_end, media_type) "
    "VALUES ('2025-01-15', '2025-01-15', 'all')": ("23502", "a mission needs a languages"),
    f"INSERT INTO missions ({DAYS}, status) "
    "VALUES ('2025-01-15', '2025-01-15', 'all', '{pt}', 'completed')": ("RG001", "queued"),
    f"INSERT INTO missions ({DAYS}, worker_id) "
    "VALUES ('2025-01-15', '2025-01-15', 'all', '{pt}', 'wk_1')": ("428C9", "INSERT INTO missions"),
    f"INSERT INTO missions (id, {DAYS}) "
    "VALUES (123456789, '2025-01-15', '2025-01-15', 'all', '{pt}')": (
        "428C9",
        "generate_mission_id()",
    ),
    "UPDATE mission_logs SET event = 'scrape_empty'": ("0A000", "INSERT INTO mission_logs"),
    "DELETE FROM mission_logs": ("0A000", "INSERT INTO mission_logs"),
    "INSERT INTO mission_logs (event) VALUES ('scrape_empty')": ("23502", "mission_id"),
    "INSERT INTO mission_logs (mission_id, event) VALUES (123456789, 'scrape_empty')": (
        "23503",
        "there is no mission 123456789",
    ),
    "INSERT INTO mission_logs (mission_id, event) SELECT id, 'mission_completed' FROM missions": (
        "RG001",
        "UPDATE missions SET status",
    ),
    "INSERT INTO mission_logs (mission_id, event) SELECT id, 'nonsense' FROM missions": (
        "22P02",
        "mission_event",
    ),
    "INSERT INTO mission_logs (id, mission_id, event) "
    "SELECT 'x', id, 'scrape_empty' FROM missions": (
        "428C9",
        "generate_mission_log_id()",
    ),
}


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_what_is_not_allowed_is_refused_with_what_to_call_instead(
    app: Regente, sql: Sql, statement: str
) -> None:
    """O2, O5: each with an SQLSTATE and a hint, and nothing is stored."""
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    before = await rows(app, "SELECT id, event FROM events ORDER BY id")
    await refused(sql, statement, *FORBIDDEN[statement])
    assert await rows(app, "SELECT id, event FROM events ORDER BY id") == before
    assert (await app.missions.get(mission_id)).status == "queued"


async def test_entries_of_a_script_are_part_of_the_log_and_change_nothing_else(
    app: Regente, sql: Sql
) -> None:
    """O17: with their details, in order, under an id; counts of retries do not read them."""
    (mission_id,) = await app.missions.create([MISSION])
    given = await one(sql, "SELECT generate_mission_log_id() AS id")
    first = await one(
        sql,
        "INSERT INTO mission_logs (mission_id, event, details) VALUES (%s, 'retry_triggered', "
        """'{"attempt": 9, "x": null}') RETURNING *""",
        mission_id,
    )
    assert (first["event"], first["details"]) == ("retry_triggered", {"attempt": 9, "x": None})
    second = await one(
        sql,
        "INSERT INTO mission_logs (id, mission_id, event, timestamp) "
        "VALUES (%s, %s, 'proxy_rotated', '2025-01-15 10:00Z') RETURNING *",
        given["id"],
        mission_id,
    )
    assert second["id"] == given["id"] < first["id"]
    assert second["timestamp"].year == 2025
    assert await names_of(app, mission_id) == ["proxy_rotated", "retry_triggered"]
    assert (await app.missions.get(mission_id)).retry_count == 0
    (author,) = (await one(sql, "SELECT session_user")).values()
    events = await app.task_events(mission_id)
    assert {(one.details or {})["by"] for one in events if one.event == "mission_log_added"} == {
        author
    }


async def test_generated_ids_can_be_given(app: Regente, sql: Sql) -> None:
    """O1: `generate_mission_id()` first, INSERT with it later."""
    given = (await one(sql, "SELECT generate_mission_id() AS id"))["id"]
    made = await one(
        sql,
        f"INSERT INTO missions (id, {DAYS}) "
        "VALUES (%s, '2025-01-15', '2025-01-15', 'all', '{pt}') RETURNING id",
        given,
    )
    assert made["id"] == given
    assert (await app.missions.create([MISSION]))[0] > given


async def test_the_author_is_the_role_of_the_session(app: Regente, sql: Sql) -> None:
    """O18: as PostgREST sets it; a role with rights on the views alone can write, and cannot claim
    to be another one."""
    await sql.execute("DROP ROLE IF EXISTS mission_script")
    await sql.execute("CREATE ROLE mission_script")
    await sql.execute("GRANT USAGE ON SCHEMA regente TO mission_script")
    await sql.execute("GRANT SELECT, INSERT, UPDATE ON missions, mission_logs TO mission_script")
    try:
        await sql.execute("SET ROLE mission_script")
        await sql.execute("SET regente.by = 'ana'")
        mission_id = (await one(sql, f"{NEW} RETURNING id"))["id"]
        await sql.execute("UPDATE missions SET status = 'canceled'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await sql.execute("SELECT FROM tasks")
    finally:
        await sql.execute("RESET ROLE")
        await sql.execute("DROP OWNED BY mission_script")
        await sql.execute("DROP ROLE mission_script")
    events = await app.task_events(mission_id)
    assert {(event.details or {})["by"] for event in events} == {"mission_script"}


async def test_retries_come_after_their_failures(app: Regente, sql: Sql) -> None:
    """O17: ORDER BY timestamp alone, over many missions that failed and were retried."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.job_script = [[{"status": "failed"}], [{"status": "completed", "ads_count": 3}]] * 6
    async with conducting(app, worker, writer, proxies=4):
        for mission_id in await app.missions.create([MISSION] * 6, queue=True):
            await finished(app, mission_id)
    log = await many(
        sql,
        "SELECT * FROM mission_logs WHERE mission_id IS NOT NULL ORDER BY mission_id, timestamp",
    )
    times = [(row["mission_id"], row["timestamp"]) for row in log]
    assert len(set(times)) == len(times)
    by_id = sorted(log, key=lambda row: (row["mission_id"], row["id"]))
    assert [row["id"] for row in by_id] == [row["id"] for row in log]
    retried = [number for number, row in enumerate(log) if row["event"] == "retry_triggered"]
    assert len(retried) >= 6
    assert {log[number - 1]["event"] for number in retried} <= {"scrape_failed", "session_failed"}


async def test_scripts_and_runners_share_the_missions(app: Regente, database_url: str) -> None:
    """O5, O7, O12: scripts insert, cancel and queue again while missions run: each ends once."""
    dice = random.Random(15)
    again = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)

    async def script() -> list[int]:
        connection = await AsyncConnection.connect(
            database_url, autocommit=True, row_factory=dict_row
        )
        async with connection as sql:
            await sql.execute("SET search_path = regente")
            ids = [(await one(sql, f"{NEW} RETURNING id"))["id"] for _ in range(10)]
            for _ in range(30):
                status = dice.choice(["queued", "canceled"])
                try:
                    await sql.execute(
                        "UPDATE missions SET status = %s WHERE id = ANY (%s) "
                        "AND status NOT IN ('completed', 'running', 'failed')",
                        [status, dice.sample(ids, 3)],
                    )
                except again:
                    continue
        return ids

    async with conducting(app, ScriptedWorker(), ScriptedWriter()):
        ids = [one_id for made in await asyncio.gather(script(), script()) for one_id in made]
        ends = {one_id: await finished(app, one_id, 60) for one_id in ids}
    for one_id, mission in ends.items():
        entries = [name for name in await names_of(app, one_id) if name.startswith("mission_")]
        assert entries[-1] == f"mission_{mission.status}"
        assert mission.status in ("completed", "canceled")
        assert entries.count("mission_completed") == (mission.status == "completed")
        changes = [name for name in entries if name in ("mission_queued", "mission_canceled")]
        assert all(a != b for a, b in itertools.pairwise(changes)), changes
