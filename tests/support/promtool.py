"""Prometheus' own judgement of the alert rules: promtool checks and tests them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.promtool import HOW, find

from tests.api.metrics.conftest import Samples

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
MINUTES = 60
TARGET = {"instance": "127.0.0.1:8080", "job": "regente"}

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """Values of a metric that replace those of a scrape: `0+2x60` rises by two a minute. With
    `relabel`, a further series that has the labels of a scraped one, but these values."""

    name: str
    labels: Labels
    values: str
    relabel: Labels | None = None


def series_of(scraped: Samples, changes: Sequence[Series] = ()) -> dict[str, str]:
    """What Prometheus stores when each scrape gives these samples. A change must be one of a
    sample that is there."""
    found = {
        (name, labels): f"{value:g}+0x{MINUTES}"
        for (name, labels), value in scraped.samples.items()
    }
    found["up", ()] = f"1+0x{MINUTES}"
    for change in changes:
        there = [
            (name, labels)
            for name, labels in found
            if name == change.name and change.labels.items() <= dict(labels).items()
        ]
        assert there, f"no sample of {change.name} with {dict(change.labels)} was scraped"
        for name, labels in there:
            kept = tuple({**dict(labels), **(change.relabel or {})}.items())
            found[name, kept] = change.values
    return {_written(name, {**dict(labels), **TARGET}): v for (name, labels), v in found.items()}


def firing(series: Mapping[str, str], expected: Mapping[str, str], folder: Path) -> str | None:
    """None if after an hour exactly these alerts fire, each with this severity; else what promtool
    says."""
    samples = [
        {"labels": _written("", {"alertname": name, "severity": severity}), "value": 1}
        for name, severity in expected.items()
    ]
    test = {
        "expr": 'count by (alertname, severity) (ALERTS{alertstate="firing"})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": samples,
    }
    document = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": v} for one, v in series.items()],
                "promql_expr_test": [test],
            }
        ],
    }
    path = folder / "alerts.test.yml"
    path.write_text(json.dumps(document))  # JSON is YAML, too
    done = run("test", "rules", str(path))
    return None if done.returncode == 0 else done.stdout + done.stderr


def run(*words: str) -> subprocess.CompletedProcess[str]:
    promtool = find()
    assert promtool is not None, HOW
    return subprocess.run(
        [promtool, *words], check=False, capture_output=True, text=True, timeout=120
    )


def _written(name: str, labels: Labels) -> str:
    given = ", ".join(f"{label}={json.dumps(value)}" for label, value in labels.items())
    return f"{name}{{{given}}}"
