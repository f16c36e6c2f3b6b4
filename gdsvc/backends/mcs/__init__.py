"""Pools and router replicas as Multi-Cluster Services imports them, joined with registrations."""
