"""Micro benchmarks of single calls: `pytest bench/micro --benchmark-enable`."""
