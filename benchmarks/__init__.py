"""Regente beside its peers: the same measurements, in one run, on one machine. Start it with
`python -m benchmarks`."""
