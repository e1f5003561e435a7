"""Missions: ads of a range of days, extracted by workers and stored by writers, whatever breaks on
the way.

Three pipelines on the engine. `orchestrator` (one task while it is open) sees that every worker has
a driver; `workers` (one task per worker) drives its sessions and gives missions to it; `missions`
(one task each) drives scrape and storage.
"""
