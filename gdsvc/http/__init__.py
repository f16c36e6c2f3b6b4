"""The HTTP face of the discovery service."""
