"""Missions: the ads of a range of days, extracted by workers and stored by writers.

Three pipelines on the engine:

- `orchestrator` (the dispatcher: one task while the orchestrator is open) starts a driver for each
  worker;
- `workers` (the driver: one task per worker) opens the worker's sessions and assigns missions to
  it;
- `missions` (one task per mission) runs scrape and storage.

ARCHITECTURE.md has the walk of a mission through these files.
"""
