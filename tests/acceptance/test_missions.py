"""`regente missions`, `fleet`, `orchestrator` and `settings`: commands and their output."""

from __future__ import annotations

from pathlib import Path

import pytest

from regente import Regente
from regente.cli.author import BY
from tests.acceptance.conftest import Cli


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGENTE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("REGENTE_SECRET_KEY", "a secret of this test's own")


async def test_a_range_of_days_media_and_languages_makes_that_many_missions(cli: Cli) -> None:
    """O5: first as drafts, then queued."""
    made = await cli.json(
        "missions",
        "create",
        "2025-01-01",
        "2025-01-03",
        "--media",
        "video,image",
        "--languages",
        "pt,en+es",
    )
    assert len(made["ids"]) == 3 * 2 * 2
    listed = await cli.json("missions", "list", "--limit", "1000")
    assert listed["counts"]["draft"] == 12
    assert listed["missions"][0]["languages"] == ["en", "es"]
    assert (await cli.json("missions", "queue", "--all"))["queued"] == made["ids"]
    assert (await cli.json("missions", "list"))["counts"]["queued"] == 12
    assert (await cli.json("orchestrator", "status"))["state"] == "open"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("2025-02-01", "2025-01-01"), "ends (2025-01-01) before it starts (2025-02-01)"),
        (("2025-02-30",), "'2025-02-30' is not a date"),
        (("2025-02-01", "--media", "film"), "unknown media type: film; known: all, video, image"),
        (("2025-02-01", "--languages", ","), "--languages is empty"),
        (("2025-02-01", "--languages", "português"), "is not a language code"),
        (
            ("1900-01-01", "2099-12-31", "--media", "all,video"),
            "missions; create at most 100,000 at once",
        ),
    ],
)
async def test_an_invalid_mission_is_refused_with_a_clear_error(
    cli: Cli, words: tuple[str, ...], said: str
) -> None:
    """O2: bad input stores nothing."""
    answer = await cli("missions", "create", *words)
    assert answer.code != 0
    assert said in answer.err
    assert (await cli.json("missions", "list"))["missions"] == []


async def test_a_mission_says_why_it_is_not_running(cli: Cli) -> None:
    (mission_id,) = (await cli.json("missions", "create", "2025-01-15"))["ids"]
    assert "in the bank" in await cli.text("missions", "why", str(mission_id))
    await cli.json("missions", "queue", str(mission_id))
    assert (await cli.json("missions", "why", str(mission_id)))["code"] == "NO_RUNNER"
    await cli.json("orchestrator", "stop")
    assert (await cli.json("missions", "why", str(mission_id)))["code"] == "STOPPED"
    assert "2025-01-15" in await cli.text("missions", "show", str(mission_id))


async def test_missions_are_canceled_and_retried(cli: Cli) -> None:
    """O12: one that waits ends at once; retried, it waits again."""
    (mission_id,) = (await cli.json("missions", "create", "2025-01-15", "--queue"))["ids"]
    assert await cli.json("missions", "cancel", str(mission_id)) == {"canceled": 1, "canceling": 0}
    assert await cli.json("missions", "cancel", str(mission_id)) == {"canceled": 0, "canceling": 0}
    assert (await cli.json("missions", "retry", str(mission_id)))["requeued"] == [mission_id]
    shown = await cli.json("missions", "show", str(mission_id))
    assert (shown["status"], shown["checkpoint"]) == ("queued", "atribuido")
    assert [row["event"] for row in shown["log"]] == [
        "mission_queued",
        "mission_canceled",
        "mission_queued",
    ]
    assert [person for row in shown["log"] for person in _people(row["details"])] == [BY] * 3


def _people(details: dict[str, str]) -> list[str]:
    return [details[name] for name in ("queued_by", "canceled_by") if name in details]


async def test_members_are_added_tested_and_switched(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O20: a test of an absent worker fails with its reason; a secret as argument is refused."""
    refused = await cli(
        "fleet",
        "add",
        "worker",
        "w1",
        "http://127.0.0.1:9",
        "--storage",
        "s.example.com",
        "--key",
        "secret",
    )
    assert (refused.code != 0, "other users of this machine" in refused.err) == (True, True)
    monkeypatch.setenv("REGENTE_FLEET_SECRET", "hush")
    await cli.json(
        "fleet", "add", "worker", "w1", "http://127.0.0.1:9", "--storage", "s.example.com"
    )
    await cli.json(
        "fleet", "add", "proxy", "br-1", "proxy.example.com", "--port", "8080", "--username", "u"
    )
    await cli.json("fleet", "add", "writer", "main", "http://127.0.0.1:9")
    assert "already" in (await cli("fleet", "add", "writer", "main", "http://127.0.0.1:9")).err
    tested = await cli("fleet", "test", "w1", "main", "--json")
    assert tested.code == 1
    assert [verdict["ok"] for verdict in tested.data] == [False, False]
    await cli.json("fleet", "deactivate", "br-1")
    members = {member["name"]: member for member in await cli.json("fleet", "list")}
    assert (members["br-1"]["active"], members["w1"]["last_test_ok"]) == (False, False)
    assert "hush" not in str(members) + await cli.text("fleet", "list")


async def test_a_secret_that_cannot_be_read_fails_its_own_test_only(
    cli: Cli, app: Regente, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O20: the other members are tested all the same."""
    monkeypatch.setenv("REGENTE_FLEET_SECRET", "hush")
    for name in ("a", "b", "c"):
        if name == "b":
            monkeypatch.setenv("REGENTE_SECRET_KEY", "another secret of this test's own")
        await cli.json("fleet", "add", "writer", name, "http://127.0.0.1:9")
    tested = await cli("fleet", "test", "--json")
    assert tested.code == 1
    assert [verdict["name"] for verdict in tested.data] == ["a", "b", "c"]
    assert ["cannot be decrypted" in verdict["message"] for verdict in tested.data] == [
        True,
        False,
        False,
    ]


async def test_settings_are_changed_and_checked(cli: Cli, app: Regente) -> None:
    """O16: session_limit, max_retries, retention; the fixed parameters are listed beside them."""
    listed = await cli.json("settings", "list")
    assert listed["settings"] == {
        "session_limit": 5,
        "max_retries": 2,
        "auto_start": True,
        "retention_days": 30.0,
    }
    assert listed["fixed"]["timeout_session_seconds"] == 180.0
    await cli.json("settings", "set", "session_limit", "8")
    assert (await app.missions.settings()).session_limit == 8
    assert await cli.text("settings", "set", "retention_days", "7.5") == "retention_days is 7.5.\n"
    assert (await cli.json("settings", "list"))["settings"]["retention_days"] == 7.5
    for key, value, told in (
        ("session_limit", "0", "from 1 to 1000"),
        ("max_retries", "many", "a whole number"),
        ("colour", "blue", "no setting"),
        ("retention_days", "0.04", "an hour"),
        ("retention_days", "soon", "number of days"),
        ("retention_days", "nan", "nan"),
    ):
        refused = await cli("settings", "set", key, value)
        assert (refused.code != 0, told in refused.err) == (True, True), refused.err
