"""A fleet of simulated pools, relays and watchers, to size a machine by: `python -m bench.fleet --help`."""
