"""Replicas over Leases of one API server whose wall clocks disagree, and are set while they serve."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.test_leases import FLAGS
from tests.cluster.watching import synced
from tests.e2e import stepped_clocks
from tests.e2e.process import Serve, Service, Tell

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def test_nothing_expires_early_or_lives_longer_where_a_clock_is_wrong_and_set_while_it_serves(
    serve: Serve, tmp_path: Path, tell: Tell
) -> None:
    def start(environ: Mapping[str, str]) -> Service:
        service = serve(*FLAGS[:6], *stepped_clocks.FLAGS, environ=environ)
        synced(service)
        return service

    stepped_clocks.run(start, tmp_path, tell)
