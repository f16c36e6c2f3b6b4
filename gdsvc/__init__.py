"""gdsvc: discovery service and global frontend for fleets of LLM inference pools."""

__version__ = "0.1.0"  # the one place; importlib.metadata would take a tenth of the time to start
