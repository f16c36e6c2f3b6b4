"""gdsvc: discovery service and global frontend for fleets of LLM inference pools."""
