"""`regente runners`, `pipelines`, `schedules`, `events`, `migrate`, `doctor`, `version`."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regente import components
from regente.engine.migrations import ENGINE, Component
from regente.pipelines.builtins import builtins
from tests.acceptance.conftest import Cli, CliProcess, SampleTasks
from tests.support.eventually import eventually


async def test_without_runners_the_list_says_how_to_start_one(cli: Cli) -> None:
    assert "No runner is alive. Start one with: regente run" in await cli.text("runners")
    assert await cli.json("runners") == []


async def test_runners_show_their_counters(cli: Cli, sample: SampleTasks) -> None:
    """S6: claimed, completed, failed, retried, recovered, average duration, stuck tasks of each."""
    (runner,) = await cli.json("runners", "--all")
    assert (runner["claimed"], runner["completed"], runner["failed"], runner["retried"]) == (
        4,
        1,
        2,
        1,
    )
    assert (runner["recovered"], runner["stuck"], runner["status"]) == (0, 0, "stopped")
    assert runner["average_seconds"] > 0
    assert "stopped" in await cli.text("runners", "--all")


async def test_pipelines_are_listed_paused_and_resumed(cli: Cli, sample: SampleTasks) -> None:
    assert (await cli.json("pipelines", "pause", "pages")) == {"name": "pages", "paused": True}
    (pages,) = await cli.json("pipelines", "list")
    assert (pages["name"], pages["paused"], pages["counts"]["queued"]) == ("pages", True, 1)
    assert "paused" in await cli.text("pipelines", "list")
    assert "pages is resumed." in await cli.text("pipelines", "resume", "pages")
    unknown = await cli("pipelines", "pause", "nowhere", "--json")
    assert (unknown.code, unknown.error["code"]) == (2, "UNKNOWN_PIPELINE")


async def test_without_pipelines_the_list_says_where_they_come_from(cli: Cli) -> None:
    assert "No pipelines yet" in await cli.text("pipelines", "list")
    assert await cli.json("pipelines", "list") == []


async def test_schedules_are_added_listed_and_removed(cli: Cli, sample: SampleTasks) -> None:
    assert "No schedules yet" in await cli.text("schedules", "list")
    words = (
        "schedules",
        "add",
        "nightly",
        "pages",
        "0 4 * * *",
        '{"url": "x"}',
        "--timezone",
        "America/Sao_Paulo",
    )
    assert (await cli.json(*words))["next_at"].endswith("-03:00")
    (schedule,) = await cli.json("schedules", "list")
    assert (schedule["name"], schedule["args"], schedule["cron"]) == (
        "nightly",
        {"url": "x"},
        "0 4 * * *",
    )
    assert "0 4 * * *" in await cli.text("schedules", "list")
    rules = ("--overlap", "queue", "--catch-up", "all", "--jitter", "60")
    await cli.json(*words, *rules)
    shown = await cli.json("schedules", "show", "nightly", "--count", "3")
    assert (shown["overlap"], shown["catch_up"], shown["jitter_seconds"]) == ("queue", "all", 60)
    assert [time[11:16] for time in shown["next_runs"]] == ["04:00"] * 3
    assert "queue" in await cli.text("schedules", "show", "nightly")
    assert await cli.json("schedules", "runs", "nightly") == []
    assert "has not fired yet" in await cli.text("schedules", "runs", "nightly")
    assert await cli.json("schedules", "pause", "nightly") == {"paused": "nightly"}
    assert "paused" in await cli.text("schedules", "list")
    assert (await cli.json("schedules", "show", "nightly"))["next_runs"] == []
    assert "is resumed" in await cli.text("schedules", "resume", "nightly", "--skip-missed")
    for unknown in ("show", "runs", "pause", "resume"):
        assert (await cli("schedules", unknown, "no", "--json")).error["code"] == "NOT_FOUND"
    assert await cli.json("schedules", "remove", "nightly") == {"removed": "nightly"}
    assert (await cli("schedules", "remove", "nightly", "--json")).error["code"] == "NOT_FOUND"
    assert (await cli("schedules", "add", "odd", "pages", "every day", "--json")).error[
        "code"
    ] == "INVALID_INPUT"


async def test_events_show_the_latest_and_can_be_read_on_from_a_position(
    cli: Cli, sample: SampleTasks
) -> None:
    latest = await cli.json("events", "--limit", "2")
    assert [event["event"] for event in latest] == ["task_queued", "task_drafted"]
    first = await cli.json("events", "--after", "0-0", "--limit", "3")
    rest = await cli.json("events", "--after", first[-1]["position"])
    assert rest[-1]["position"] == latest[-1]["position"]
    assert {
        event["task_id"] for event in await cli.json("events", "--task", str(sample.failed))
    } == {sample.failed}
    assert "task_drafted" in await cli.text("events")
    assert (await cli("events", "--after", "here")).code == 2


async def test_without_events_the_list_says_what_to_do(cli: Cli) -> None:
    assert "No events yet" in await cli.text("events")


async def test_events_are_followed_as_they_happen(
    sample: SampleTasks, start: Callable[..., CliProcess]
) -> None:
    process = start("events", "--follow", "--json", "--limit", "1")
    eventually(lambda: "task_drafted" in process.out.read_text())
    task_id = await sample.app.enqueue("pages", {"url": "new"})
    eventually(lambda: f'"task_id": {task_id}' in process.out.read_text())
    lines = [json.loads(line) for line in process.out.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["task_drafted", "task_queued"]


async def test_migrations_go_up_and_down_and_show_their_state(cli: Cli) -> None:
    """Q10: schema migrations up and down."""
    state = await cli.json("migrate", "status")
    newest = state["newest"]
    assert state["version"] == newest
    assert list(newest) == ["engine", *(one.name for one in builtins()), "api"]
    assert {one["component"]: one["version"] for one in state["migrations"]} == newest
    refused = await cli("migrate", "down", "0", "--json")
    assert (refused.code, refused.error["code"]) == (2, "CONFIRMATION_NEEDED")
    assert (await cli.json("migrate", "down", "0", "--yes"))["version"] == {}
    status = await cli("migrate", "status")
    assert "pending" in status.out
    assert "regente migrate up" in status.err
    installed = f"Installed: engine {newest['engine']}, missions {newest['missions']},"
    assert installed in await cli.text("migrate", "up")
    assert (await cli.json("migrate", "status"))["version"] == newest
    assert "Nothing to do" in await cli.text("migrate", "up")
    assert (await cli("migrate", "up", "99", "--json")).error["code"] == "INVALID_INPUT"


async def test_one_component_goes_up_and_down_by_itself(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q10: each component's version is shown, and each can be migrated down alone."""
    down = await cli.json("migrate", "down", "1", "--component", "missions", "--yes")
    assert [(one["component"], one["version"]) for one in down["taken_back"]][-1] == ("missions", 2)
    assert (await cli("missions", "list", "--json")).error["code"] == "SCHEMA_OUTDATED"
    assert await cli.json("tasks", "list") == []
    up = await cli.json("migrate", "up", "--component", "missions")
    assert up["applied"] == down["taken_back"][::-1]
    await cli.json("migrate", "down", "0", "--component", "quotes", "--yes")
    monkeypatch.setenv("REGENTE_BUILTINS", "missions, rounds, embeddings, documents")
    assert re.search(r"quotes +[0-9]+ +[a-z_]+ +off", await cli.text("migrate", "status"))
    assert "Nothing to do" in await cli.text("migrate", "up")
    assert (await cli("quotes", "list", "--json")).error["code"] == "SWITCHED_OFF"
    refused = await cli("migrate", "down", "0", "--component", "engine", "--yes", "--json")
    assert (refused.code, refused.error["code"]) == (2, "INVALID_INPUT")
    unknown = await cli("migrate", "up", "--component", "quotas", "--json")
    assert unknown.error["code"] == "INVALID_INPUT"


async def test_an_outdated_schema_says_what_to_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(ENGINE.folder, folder)
    for direction in ("up", "down"):
        (
            folder
            / f"{len(list(folder.glob('*.up.sql'))) + (direction == 'up'):04}_more.{direction}.sql"
        ).write_text("SELECT 1;")
    monkeypatch.setattr(components, "ENGINE", Component("engine", folder))
    answer = await cli("tasks", "list", "--json")
    assert (answer.code, answer.error["code"]) == (1, "SCHEMA_OUTDATED")
    assert "regente migrate up" in answer.error["message"]


async def test_doctor_explains_what_it_finds(cli: Cli) -> None:
    findings = await cli.json("doctor")
    assert {"version", "fsync", "schema", "clock"} <= {finding["check"] for finding in findings}
    assert "PostgreSQL" in await cli.text("doctor")


async def test_doctor_reports_a_key_file_that_others_may_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O15: the file's mode, and how to mend it."""
    monkeypatch.setenv("REGENTE_DATA_DIR", str(tmp_path))
    await cli.json("secrets", "status")
    (found,) = [one for one in await cli.json("doctor") if one["check"] == "key_file"]
    assert found["level"] == "ok"
    (tmp_path / "secret.key").chmod(0o644)
    refused = await cli("doctor", "--json")
    assert refused.code == 1
    assert "chmod 600" in refused.out


async def test_doctor_ends_with_an_error_when_it_finds_one(bare_cli: Cli) -> None:
    answer = await bare_cli(
        "doctor", "--database-url", "postgresql://u:secret@127.0.0.1:1/db", "--json"
    )
    assert (answer.code, answer.data[0]["level"]) == (1, "error")
    assert "secret" not in answer.out + answer.err


async def test_version_is_printed(cli: Cli) -> None:
    assert (await cli.text("version")).startswith("regente 0.")
    assert set(await cli.json("version")) == {"regente", "schema", "python"}
