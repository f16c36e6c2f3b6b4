"""Renews leases as PoolIndex does, from compiled code: a call from Python costs more than the renewal itself."""

from gdsvc._lease_heap cimport LeaseEntry, LeaseHeap


def renew_all(LeaseHeap heap not None, list entries not None, double began_at, double step, double ttl):
    """Renews `entries` in their order, the first at `began_at` and each `step` seconds after the one before."""
    cdef Py_ssize_t position
    for position in range(len(entries)):
        heap.renew(<LeaseEntry> entries[position], began_at + position * step, ttl)
