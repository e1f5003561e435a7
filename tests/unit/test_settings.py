"""Settings from the environment, by our names and by those of the original specification."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regente.engine.lease import LeaseConfig
from regente.settings import Settings

NAMES = (
    "JOB_LOCK_TTL_MS",
    "JOB_HEARTBEAT_INTERVAL_MS",
    "REGENTE_LOCK_TTL_MS",
    "REGENTE_HEARTBEAT_INTERVAL_MS",
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_the_lease_lasts_a_minute_and_is_renewed_every_ten_seconds() -> None:
    """S2: the defaults."""
    assert Settings().runner_config().lease == LeaseConfig(60.0, 10.0)


@pytest.mark.parametrize("prefix", ["JOB", "REGENTE"])
def test_the_leases_names_in_the_environment(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """S2: `JOB_LOCK_TTL_MS` and `JOB_HEARTBEAT_INTERVAL_MS` are understood."""
    monkeypatch.setenv(f"{prefix}_LOCK_TTL_MS", "90000")
    monkeypatch.setenv(f"{prefix}_HEARTBEAT_INTERVAL_MS", "15000")
    assert Settings().runner_config().lease == LeaseConfig(90.0, 15.0)


def test_our_own_name_wins_over_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: our name wins when both are set."""
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "90000")
    monkeypatch.setenv("REGENTE_LOCK_TTL_MS", "70000")
    assert Settings().lock_ttl_ms == 70_000


@pytest.mark.parametrize(("ttl", "beat"), [(10, 10), (10, 20), (0, 1), (5, 0)])
def test_a_heartbeat_must_be_shorter_than_the_lease(ttl: float, beat: float) -> None:
    """S2, I4: otherwise every runner would lose its tasks."""
    with pytest.raises(ValueError, match="must be shorter than the lease"):
        LeaseConfig(ttl, beat)


@pytest.mark.parametrize(
    ("name", "value"),
    [("JOB_LOCK_TTL_MS", "soon"), ("REGENTE_CONCURRENCY", "0"), ("REGENTE_RETENTION_DAYS", "0")],
)
def test_nonsense_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """F15: at start-up, by name."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        Settings()
