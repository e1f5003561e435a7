"""Prometheus metrics (`GET /metrics`): the database's, cached for a few seconds, and the process's.

The database's metrics are the same in every API process: aggregate with `max without (instance)`.
"""
