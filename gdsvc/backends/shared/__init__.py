"""Registrations in a store that several replicas of the service share; which store, an engine knows.

An engine plugs in at two places, both in store.py:

* it *writes* for one store, as `Engine` says: a registration, a renewal, the end of one. The store awaits each write
  before it answers a heartbeat, and shows what was written at once;
* it *reads* for all: what it finds it gives to `lacks` and `show`, item by item (`Renewal` says what an item is), and
  it says after every pass whether the reading went well (`read`) or not (`unread`). A watch says `read` for as long
  as it is sure to have seen everything, once a second, say.

Leases, versions, first sight, completeness and conflicts are decided here (sightings.py, reading.py) and do no I/O.
"""
