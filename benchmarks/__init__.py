"""Races of mercer against its peers: ``python -m benchmarks`` from the root of a checkout."""
