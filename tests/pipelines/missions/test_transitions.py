"""The state machines of missions, workers and proxies: legal and illegal transitions."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from regente import Regente
from regente.engine.errors import IllegalTransition, NotFound
from tests.pipelines.missions.conftest import MISSION, conducting, finished, fleet_of, rows, until
from tests.support.peers import ScriptedWorker, ScriptedWriter

WORKER_STATES = ("idle", "initializing", "ready", "scraping", "error")
WORKER_MOVES = {
    ("idle", "initializing"),
    ("initializing", "ready"),
    ("initializing", "error"),
    ("ready", "scraping"),
    ("scraping", "ready"),
    ("scraping", "error"),
    ("ready", "error"),
    ("error", "idle"),
    ("initializing", "idle"),
    ("ready", "idle"),
    ("scraping", "idle"),
}


async def test_a_new_mission_is_in_the_bank_and_queueing_it_sets_time_checkpoint_and_event(
    app: Regente,
) -> None:
    """O2, O5: (novo) → queued; a mission can stay a draft."""
    first, second = await app.missions.create([MISSION, MISSION])
    banked = await app.missions.get(first)
    assert (banked.status, banked.checkpoint, banked.queued_at) == ("draft", None, None)
    assert await app.missions.queue([first, second], by="ana") == [first, second]
    queued = await app.missions.get(first)
    assert (queued.status, queued.checkpoint) == ("queued", "atribuido")
    assert queued.queued_at is not None
    (log,) = await app.missions.timeline(first)
    assert (log["event"], log["details"]) == ("mission_queued", {"queued_by": "ana"})


async def test_each_legal_step_of_a_mission_sets_what_the_table_says(app: Regente) -> None:
    """O2, O3: queued → running (extracao) → running (armazenamento) → completed (finalizado)."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.gate.clear()
    writer.default_job = [{"status": "processing"}]
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        extracting = await app.missions.get(mission_id)
        assert (extracting.status, extracting.checkpoint) == ("running", "extracao")
        assert extracting.started_at is not None
        assert extracting.worker_name == worker.name
        assert extracting.proxy_used in ("proxy-1", "proxy-2")
        (busy,) = await rows(
            app, "SELECT status::text, current_mission_id, session_count FROM workers"
        )
        assert busy == {"status": "scraping", "current_mission_id": mission_id, "session_count": 0}
        worker.gate.set()
        await until(
            app, "SELECT FROM missions WHERE checkpoint = 'armazenamento' AND status = 'running'"
        )
        await until(
            app,
            "SELECT FROM workers WHERE current_mission_id IS NULL AND session_count = 1 "
            "AND status = 'ready'",
        )
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL")
        (job,) = writer.jobs.values()
        job.statuses = [writer_done()]
        done = await finished(app, mission_id)
        assert (done.status, done.checkpoint, done.error_code) == ("completed", "finalizado", None)


def writer_done() -> dict[str, object]:
    return {
        "status": "completed",
        "progress": {"total": 3, "processed": 3, "success_count": 3, "failed_count": 0},
    }


async def test_an_illegal_action_on_a_mission_is_refused_with_a_clear_error(app: Regente) -> None:
    """O2: nothing is queued, canceled or retried out of turn; an unknown mission is not found."""
    draft, queued, done = await app.missions.create([MISSION] * 3)
    await app.missions.queue([queued, done])
    with pytest.raises(
        IllegalTransition, match=r"is draft: only failed and canceled ones can be retried"
    ):
        await app.missions.retry(draft)
    with pytest.raises(IllegalTransition, match=r"is queued: only failed and canceled"):
        await app.missions.retry(queued)
    assert await app.missions.queue([queued, done]) == []
    await rows(app, "ALTER TABLE tasks DISABLE TRIGGER tasks_obey_the_state_machine")
    await rows(
        app, "UPDATE tasks SET status = 'completed', finished_at = now() WHERE id = %(id)s", id=done
    )
    with pytest.raises(IllegalTransition, match=r"is completed: there is nothing to cancel"):
        await app.missions.cancel(done)
    with pytest.raises(IllegalTransition, match=r"is completed: only failed and canceled"):
        await app.missions.retry(done)
    with pytest.raises(NotFound, match="there is no mission 999"):
        await app.missions.cancel(999)
    other = await app.enqueue("orchestrator", {})
    with pytest.raises(NotFound, match="no mission"):
        await app.missions.cancel(other)


async def test_the_database_itself_refuses_a_mission_that_jumps(app: Regente) -> None:
    """O2: illegal transitions are refused in SQL, too."""
    draft, queued = await app.missions.create([MISSION] * 2)
    await app.missions.queue([queued])
    ended = (
        "UPDATE tasks SET status = %(after)s::task_status, finished_at = now() WHERE id = %(id)s"
    )
    for mission_id, after in [
        (draft, "completed"),
        (draft, "failed"),
        (queued, "completed"),
        (queued, "skipped"),
    ]:
        with pytest.raises(psycopg.Error, match=f"cannot go from .* to {after}|illegal|{after}"):
            await rows(app, ended, id=mission_id, after=after)
    with pytest.raises(psycopg.Error):
        await rows(
            app, "UPDATE tasks SET status = 'draft', queued_at = NULL WHERE id = %(id)s", id=queued
        )


async def test_the_database_itself_refuses_every_illegal_transition_of_a_worker(
    app: Regente,
) -> None:
    """O3: every pair of states, in SQL: the rows of the table pass, all others do not."""
    (mission_id,) = await app.missions.create([MISSION])
    await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-key", "storage.example.com")
    for before, after in itertools.product(WORKER_STATES, WORKER_STATES):
        await rows(app, "ALTER TABLE workers DISABLE TRIGGER workers_obey_the_state_machine")
        await rows(
            app,
            "UPDATE workers SET status = %(s)s, current_mission_id = %(m)s",
            s=before,
            m=mission_id,
        )
        await rows(app, "ALTER TABLE workers ENABLE TRIGGER workers_obey_the_state_machine")
        change = "UPDATE workers SET status = %(s)s"
        if before == after or (before, after) in WORKER_MOVES:
            await rows(app, change, s=after)
        else:
            with pytest.raises(
                psycopg.Error, match=f"worker w cannot go from {before} to {after}"
            ) as refused:
                await rows(app, change, s=after)
            assert refused.value.sqlstate == "RG001"


async def test_a_worker_that_scrapes_has_a_mission_and_a_mission_one_worker(app: Regente) -> None:
    """O3, O7: constraints refuse a scraping worker without a mission, and two workers on one."""
    (mission_id,) = await app.missions.create([MISSION])
    for name in ("a", "b"):
        await app.fleet.add_worker(name, "http://127.0.0.1:9", "a-key", "storage.example.com")
    await rows(app, "UPDATE workers SET status = 'initializing'")
    await rows(app, "UPDATE workers SET status = 'ready'")
    with pytest.raises(psycopg.errors.CheckViolation):
        await rows(app, "UPDATE workers SET status = 'scraping'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await rows(
            app, "UPDATE workers SET status = 'scraping', current_mission_id = %(m)s", m=mission_id
        )


async def test_a_proxy_is_free_in_use_or_out_and_never_used_by_two(app: Regente) -> None:
    """O4: available → in use → available; one worker per proxy; fail_count and reactivation."""
    async with fleet_of(app, ScriptedWorker("a"), proxies=2):
        with pytest.raises(psycopg.errors.UniqueViolation):
            await rows(app, "UPDATE proxies SET in_use_by_worker_id = (SELECT id FROM workers)")
        await rows(app, "UPDATE proxies SET active = false, fail_count = 3 WHERE name = 'proxy-1'")
        (proxy,) = await rows(app, "SELECT id FROM proxies WHERE name = 'proxy-1'")
        await app.fleet.set_active("proxy", proxy["id"], True)
        (again,) = await rows(app, "SELECT active, fail_count FROM proxies WHERE name = 'proxy-1'")
        assert again == {"active": True, "fail_count": 0}
