"""Figures for Prometheus (`GET /metrics`): those of the database, at most a few seconds old, and
those of this process.

Whatever is read from the database is the same in every API process: use `max without (instance)`
over several.
"""
