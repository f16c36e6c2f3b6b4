"""A fleet behind a balancer, of whose replicas one is killed and started again all the time, over a table."""

from pathlib import Path

import pytest

from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.test_service import storage
from tests.e2e.process import Tell
from tests.fleets.fleet import Store, endure, fleet

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(400), pytest.mark.loops("uvloop")]

POOLS, POLL_SECS = 300, 1.0


async def test_a_fleet_is_listed_truly_while_its_replicas_are_killed(
    tmp_path: Path, shared_table: str, ministack: str, tell: Tell
) -> None:
    flags = storage(shared_table, ministack, "--dynamodb-poll-interval-secs", f"{POLL_SECS:g}")
    store = Store(POOLS, flags, CREDENTIALS, POLL_SECS, b'"dynamodb.unread"', b'"dynamodb.read_again"')
    async with fleet(tmp_path, store) as made:
        await endure(made)
    tell(made.told)
    assert made.judge.faults == []
    assert made.lacking() == {}
