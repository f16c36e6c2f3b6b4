"""On Debian's etcd 3.4, which lacks what streaming lists need: the server refuses them, and is listed plainly."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import StartCluster
from tests.cluster.imported import relays
from tests.cluster.test_reflector import reflecting, until

pytestmark = [pytest.mark.cluster, pytest.mark.loops("uvloop")]


@pytest.fixture
def old_etcd() -> Path:
    """The one on the PATH, where .ci/run puts Debian's."""
    path = shutil.which("etcd")
    if path is None:
        pytest.skip("no etcd 3.4 on the PATH: Debian's package etcd-server has one")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if re.search(r"etcd Version: 3\.4\.", said) is None:
        pytest.skip(f"the etcd on the PATH is not of 3.4, so it can do streaming lists: {said.splitlines()[0]}")
    return Path(path)


async def test_a_server_on_an_etcd_without_progress_requests_is_listed_and_followed(
    start_cluster: StartCluster, old_etcd: Path
) -> None:
    cluster = start_cluster(etcd=old_etcd, etcd_flags=())
    cluster.api.put(relays(1))
    async with reflecting(cluster) as stand:
        assert stand.asking.kinds[:2] == ["stream", "list"]
        assert stand.view.there == {"pool-00001-s"}
        cluster.api.put(relays(2))
        cluster.api.delete(relays(1))
        await until(lambda: stand.view.there == {"pool-00002-s"})
        assert stand.asking.kinds == ["stream", "list", "watch"]
        assert stand.view.failures == []
