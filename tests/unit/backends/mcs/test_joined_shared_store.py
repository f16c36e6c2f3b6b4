"""Registrations of a shared store joined with slices: what is shown before the store was read, and after."""

import pytest

from gdsvc.backends.mcs.directory import McsPoolDirectory
from gdsvc.backends.mcs.imported import ImportedSlices
from gdsvc.backends.mcs.naming import Mode
from gdsvc.backends.mcs.pools import PoolServices
from gdsvc.errors import Unavailable
from gdsvc.model import PoolKey, PoolRegistration
from gdsvc.pool_discovery.watch import Completeness
from tests.unit.backends.mcs.slice_objects import holding
from tests.unit.backends.shared.shelf import STARTED_AT, Replica, Shelf, pool_store


async def test_what_slices_show_is_listed_before_the_store_was_read_but_not_complete() -> None:
    time = [0.0]
    shelf = Shelf()
    elsewhere, here = Replica(shelf, time, pool_store), Replica(shelf, time, pool_store)
    slices = ImportedSlices(Mode.MCS, STARTED_AT, lambda: time[0], lambda: time[0], 0.0)
    pools = McsPoolDirectory(slices, PoolServices(), here.store)
    with pytest.raises(Unavailable):
        pools.view()
    slices.init()
    slices.init_apply(holding("r", "10.0.0.1", service="llm-pool-relay"))
    slices.init_done("first")
    while slices.advance() == 0.0:
        pass
    pools.advance()
    (listed,) = (await pools.list()).items
    assert (listed.model, pools.view()[1]) == (None, Completeness.ESTIMATED)
    await elsewhere.store.register(PoolRegistration(PoolKey("east", listed.key.namespace, "llm"), model="m"))
    for half_seconds in range(31):
        time[0] = half_seconds / 2
        here.clock.tick()
        here.poll()
    pools.advance()
    (listed,) = (await pools.list()).items
    assert (listed.model, pools.view()[1]) == ("m", Completeness.EXACT)
