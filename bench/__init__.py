"""Measures gdsvc beside yardsticks that were given from outside: `python -m bench --help`, and README.md."""
