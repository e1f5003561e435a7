"""Missions: the ads of a range of days, extracted by workers and stored by writers.

Three pipelines on the engine:

- `orchestrator` (the dispatcher: one task while the orchestrator is open) starts a driver for each
  worker;
- `workers` (the driver: one task per worker) opens the worker's sessions and assigns missions to
  it;
- `missions` (one task per mission) runs scrape and storage.

ARCHITECTURE.md has the walk of a mission through these files.
"""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.builtin import Builtin

BUILTIN = Builtin(
    package=__name__,
    pipelines=("missions", "workers", "orchestrator"),
    migrations=Path(__file__).parent / "migrations",
    commands={
        "missions": "regente.pipelines.missions.cli.missions",
        "fleet": "regente.pipelines.missions.cli.fleet",
        "orchestrator": "regente.pipelines.missions.cli.orchestrator",
        "secrets": "regente.pipelines.missions.cli.secrets",
    },
    api="regente.pipelines.missions.api",
    additions="regente.pipelines.missions.api.additions",
    tags={
        "missions": "What is to be scraped: the bank and the queue.",
        "workers": "External services that scrape.",
        "proxies": "What workers' sessions go out through.",
        "writers": "External services that store results.",
        "orchestrator": "Opens and stops the giving out of missions.",
        "reports": "The four reports of the audit.",
    },
    page="missions",
)
