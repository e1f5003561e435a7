"""The alerts and the dashboard use only metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.api.conftest import Served, with_config
from tests.api.metrics.conftest import Samples, scrape

pytestmark = with_config(metrics_seconds=0.0)

DEPLOY = Path(__file__).parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "regente.json"

_METRIC = re.compile(r"\b(regente_[a-z0-9_]+)(\{[^}]*\})?")
_LABEL = re.compile(r"([a-z_]+)(?:=~|!~|!=|=)\"")
SEED_ALERTS = ("HighStuckQuotes", "SlowProcessing", "WorkerHealthCheck")
OURS = (
    "NoRunner",
    "OldestWaiting",
    "DeadLettersGrow",
    "MatchFailed",
    "ProxiesMostlyInactive",
    "ProxyBreakerOpen",
    "FeedLag",
    "BatchStalled",
    "DatabaseDown",
    "RunnersKeepDying",
)


def queries_of_dashboard() -> list[str]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def check(expression: str, known: Samples) -> int:
    """The number of metrics that the query names; each must exist with the labels it uses."""
    found = _METRIC.findall(expression)
    for name, matchers in found:
        assert name in known.names(), f"{name} does not exist: {expression}"
        seen = known.labels(name)
        asked = set(_LABEL.findall(matchers))
        assert not seen or asked <= seen, f"{name} has no {asked - seen}: {expression}"
    return len(found)


@pytest.fixture
async def known(api: Served, database_url: str) -> Samples:
    """The metrics of a system that has data for every family."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("INSERT INTO regente.proxies (name, host) VALUES ('a', 'h')")
        await connection.execute("INSERT INTO regente.tasks (pipeline) VALUES ('quotes')")
        await connection.execute(
            "INSERT INTO regente.runners (name, host, pid, version, pipelines, "
            "concurrency, lease_until) "
            "VALUES ('one', 'h', 1, '0', '{quotes}', 4, now() + interval '1 hour')"
        )
    await scrape(api)
    return await scrape(api)


async def test_every_alert_names_metrics_that_exist(known: Samples) -> None:
    """Q9: the three rules of the specification, and those beside them."""
    text = ALERTS.read_text()
    names = re.findall(r"- alert: (\w+)", text)
    assert set(SEED_ALERTS) | set(OURS) <= set(names)
    assert len(names) == len(set(names))
    assert check(text, known) >= len(names)


async def test_every_panel_of_the_dashboard_names_metrics_that_exist(known: Samples) -> None:
    """Q9, S6: and every metric of a runner is on it."""
    queries = queries_of_dashboard()
    assert queries
    for query in queries:
        assert check(query, known), f"asks for nothing of ours: {query}"
    shown = "\n".join(queries)
    for figure in (
        "claimed",
        "completed",
        "failed",
        "retried",
        "recovered",
        "average_seconds",
        "stuck",
    ):
        assert f"regente_runner_{figure}" in shown


async def test_a_metric_that_does_not_exist_would_be_noticed(known: Samples) -> None:
    """Q9: the check itself can fail."""
    with pytest.raises(AssertionError, match="does not exist"):
        check("sum(regente_no_such_thing) > 1", known)
    with pytest.raises(AssertionError, match="has no"):
        check('regente_tasks{colour="red"}', known)
