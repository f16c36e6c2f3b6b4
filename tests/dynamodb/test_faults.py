"""Two replicas over one table that throttles, answers old reads, is gone and comes back, all in a row."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from gdsvc.backends.dynamodb.codec import found_in
from gdsvc.backends.dynamodb.keys import shards
from tests.dynamodb.faulty_table import FaultyTable
from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.tables import SHARDS, table
from tests.dynamodb.test_service import storage
from tests.e2e import store_faults
from tests.e2e.clusters import eventually
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.store_faults import Write

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(120)]

LAG_SECS = 2.0
FLAGS = (*store_faults.FLAGS, "--dynamodb-poll-interval-secs", f"{store_faults.POLL_SECS:g}")


class TableFaults:
    """What the proxy does before the table `name` of `endpoint`."""

    def __init__(self, proxy: FaultyTable, endpoint: str, name: str) -> None:
        self._proxy = proxy
        self._endpoint = endpoint
        self._name = name

    def trouble(self, throttled: float) -> None:
        self._proxy.throttle(throttled)
        self._proxy.lag_secs = LAG_SECS

    def leave(self) -> None:
        self._proxy.fault = lambda operation: "cut"

    def come_back(self) -> None:
        self._proxy.fault = lambda operation: ""
        self._proxy.lag_secs = 0.0

    def writes(self) -> Sequence[Write]:
        return self._proxy.writes

    def held(self) -> Mapping[str, str]:
        async def read() -> dict[str, str]:
            async with table(self._endpoint, self._name) as made:
                pages = [await made.renewals(shard, None) for shard in shards(SHARDS)]
            found = [found_in(item) for page in pages for item in page.items]
            return {each.name.rpartition(b"\0")[2].decode(): each.renewal.stamp for each in found if each}

        return asyncio.run(read())


def test_trouble_an_outage_and_its_end_make_nothing_flap_and_no_answered_heartbeat_is_lost(
    serve: Serve, shared_table: str, proxy: FaultyTable, ministack: str, tell: Tell
) -> None:
    def start() -> Service:
        service = serve(*storage(shared_table, proxy.url, *FLAGS), command=store_faults.COMMAND, environ=CREDENTIALS)
        eventually(lambda: service.get("/ready").status == 200)
        return service

    store_faults.run(start, TableFaults(proxy, ministack, shared_table), tell, lag_secs=LAG_SECS)
