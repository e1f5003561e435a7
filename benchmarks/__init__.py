"""Measures Regente and other queues in one run on one machine: `python -m benchmarks`."""
