"""Replicas over one table whose wall clocks disagree, and are set while they serve."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.test_service import storage
from tests.e2e import stepped_clocks
from tests.e2e.clusters import eventually
from tests.e2e.process import Serve, Service, Tell

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(120)]

FLAGS = (*stepped_clocks.FLAGS, "--dynamodb-poll-interval-secs", f"{stepped_clocks.POLL_SECS:g}")


def test_nothing_expires_early_or_lives_longer_where_a_clock_is_wrong_and_set_while_it_serves(
    serve: Serve, shared_table: str, ministack: str, tmp_path: Path, tell: Tell
) -> None:
    def start(environ: Mapping[str, str]) -> Service:
        service = serve(*storage(shared_table, ministack, *FLAGS), environ={**CREDENTIALS, **environ})
        eventually(lambda: service.get("/ready").status == 200)
        return service

    stepped_clocks.run(start, tmp_path, tell)
